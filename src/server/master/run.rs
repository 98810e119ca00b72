//! The master's loop: signals and deaths in, orders out.
//!
//! Invariant: the master waits for nothing but its descriptors and its clock, and maps no group, so
//! that neither a stopped child nor a failing page holds it up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Ended;
use super::error::MasterError;
use super::keep::Keep;
use super::notify::Notifier;
use super::reload::{Acknowledging, Reload};
use super::supervise::{Ending, Event, Order, Request, Supervisor};
use super::upgrade::{Program, Upgrade};
use crate::net::listeners::Listeners;
use crate::process::account::Account;
use crate::process::child::ForkedChild;
use crate::process::lock::DataLock;
use crate::process::log;
use crate::process::message::{Ask, Line, ToChild, ToMaster};
use frs::base::clock;
use frs::base::sys::process::{
    self, Change, Channel, Exit, Forked, Pid, PollFd, PollFlags, Signal, Signals,
};
use frs::conf::{Conf, Group, Map, Overlay, Texts};
use frs::store::{self, ChildRole, Runtime};

/// What start-up leaves to the master.
pub(super) struct MasterParts {
    pub conf_dir: PathBuf,
    pub conf: Conf,
    pub overlay: Overlay,
    /// The generation in force, and its texts.
    pub in_force: (u64, Texts),
    pub account: Option<Account>,
    pub signals: Signals,
    pub lock: DataLock,
    pub listeners: Listeners,
    pub runtime: Runtime,
    pub predecessor: Option<Channel>,
    pub notifier: Notifier,
    pub program: Program,
    /// Asked for before this master could begin it.
    pub reload_wanted: bool,
}

/// The master of a server.
pub struct Master {
    pub(super) conf_dir: PathBuf,
    pub(super) conf: Arc<Conf>,
    pub(super) overlay: Overlay,
    /// In force, as this master has published it last.
    pub(super) generation: u64,
    pub(super) texts: Texts,
    pub(super) account: Option<Account>,
    signals: Signals,
    /// None once it was handed over.
    pub(super) lock: Option<DataLock>,
    pub(super) listeners: Listeners,
    pub(super) runtime: Runtime,
    /// The older master, until it has let go.
    pub(super) predecessor: Option<Channel>,
    /// It was told that this one's processes serve.
    pub(super) said_serving: bool,
    pub(super) notifier: Notifier,
    pub(super) program: Program,
    pub(super) upgrade: Option<Upgrade>,
    /// Asked for, while it could not be begun.
    pub(super) upgrade_wanted: bool,
    /// All processes have served once.
    pub(super) announced: bool,
    pub(super) supervisor: Supervisor,
    pub(super) lines: BTreeMap<Pid, Line>,
    pub(super) reload: Option<Reload>,
    /// Asked for, while it could not be begun.
    pub(super) reload_wanted: bool,
    pub(super) acknowledging: Vec<Acknowledging>,
    /// What the keeper has asked for and is not begun.
    pub(super) asks: VecDeque<(u64, Ask)>,
    pub(super) keep: Keep,
    /// Why it ends, where that was not asked for.
    pub(super) failure: Option<MasterError>,
    origin: Instant,
    is_over: bool,
}

/// This process is the child that was just forked.
struct IsChild {
    place: ChildRole,
    lanes: BTreeSet<u16>,
    channel: Channel,
    master: Pid,
}

impl Master {
    /// A master that has started nothing yet.
    pub(super) fn new(parts: MasterParts) -> Master {
        let MasterParts {
            conf_dir, conf, overlay, account, signals, lock, listeners, runtime, ..
        } = parts;
        let (generation, texts) = parts.in_force;
        let now = clock::instant();
        Master {
            conf_dir,
            predecessor: parts.predecessor,
            said_serving: false,
            notifier: parts.notifier,
            program: parts.program,
            upgrade: None,
            upgrade_wanted: false,
            announced: false,
            supervisor: Supervisor::new(conf.srv.workers),
            conf: Arc::new(conf),
            overlay,
            generation,
            texts,
            account,
            signals,
            lock: Some(lock),
            listeners,
            runtime,
            lines: BTreeMap::new(),
            reload: None,
            reload_wanted: parts.reload_wanted,
            acknowledging: Vec::new(),
            asks: VecDeque::new(),
            keep: Keep::new(now),
            failure: None,
            origin: now,
            is_over: false,
        }
    }

    /// Serves until asked to end; returns in each child, too, which then keeps nothing of it.
    pub(super) fn run(mut self) -> Result<Ended, MasterError> {
        let mut child = self.tell(Event::Lanes(self.listeners.lanes()));
        while !self.is_over && child.is_none() {
            self.wait()?;
            child = self.tick()?;
        }
        match child {
            Some(child) => Ok(Ended::Child(self.into_forked_child(child))),
            None => {
                self.break_reload_off()?;
                let failure = self.failure.take();
                self.close(failure.is_some());
                failure.map_or(Ok(Ended::Stopped), Err)
            }
        }
    }

    fn tick(&mut self) -> io::Result<Option<IsChild>> {
        let mut events = VecDeque::new();
        while let Some(signal) = self.signals.next()? {
            self.take_signal(signal, &mut events);
        }
        while let Some((pid, change)) = process::next_change()? {
            self.take_change(pid, change, &mut events);
        }
        self.keep_files(&mut events);
        for (&pid, line) in &mut self.lines {
            match line.heard() {
                Some(ToMaster::Ready) => events.push_back(Event::Ready(pid)),
                Some(ToMaster::Ask(number, ask)) => self.asks.push_back((number, ask)),
                None => {}
            }
            if let Err(error) = line.flush() {
                tracing::debug!(%error, child = %pid, "cannot speak to a child");
            }
        }
        self.follow_reload(&mut events)?;
        self.begin_wanted_upgrade();
        self.follow_upgrade(&mut events);
        if self.predecessor.is_none() {
            // Before that systemd hears the older master only.
            self.notifier.tick(clock::instant());
        }
        events.push_back(Event::Tick);
        for event in events {
            let child = self.tell(event);
            if child.is_some() {
                return Ok(child);
            }
        }
        self.announce();
        self.begin_wanted_reload();
        // What had to wait for the older master to let go.
        self.begin_asked();
        Ok(None)
    }

    fn wait(&self) -> io::Result<()> {
        let now_ms = self.now_ms();
        let due_ms = self.supervisor.due_ms().map(|due_ms| due_ms.saturating_sub(now_ms));
        let reload_ms = Acknowledging::wait_ms(&self.acknowledging);
        let upgrade_until = self.upgrade.as_ref().map(Upgrade::until);
        let now = clock::instant();
        let notify = self.notifier.due(now).filter(|_| self.predecessor.is_none());
        let others = notify.into_iter().chain(upgrade_until).chain(self.next_look());
        let others = others.map(|until| until.saturating_duration_since(now));
        let own = due_ms.into_iter().chain(reload_ms).map(Duration::from_millis);
        let timeout = own.chain(others).min();
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.lines.values().map(|line| {
            let room = if line.is_full() { PollFlags::POLLOUT } else { PollFlags::empty() };
            PollFd::new(line.channel().as_fd(), PollFlags::POLLIN | room)
        }));
        let reload = self.reload.as_ref().map(Reload::fd);
        fds.extend(reload.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let upgrade = self.upgrade.iter().flat_map(Upgrade::fds);
        fds.extend(upgrade.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let predecessor = self.predecessor.as_ref().map(AsFd::as_fd);
        fds.extend(predecessor.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        process::poll(&mut fds, timeout)?;
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.origin.elapsed().as_millis() as u64
    }

    fn take_signal(&mut self, signal: Signal, events: &mut VecDeque<Event>) {
        match signal {
            Signal::SIGCHLD => {}
            Signal::SIGHUP => self.begin_reload(None),
            Signal::SIGTERM | Signal::SIGINT => {
                tracing::info!(%signal, "asked to stop: finishing what has been read");
                self.begin_end("finishing what has been read");
                events.push_back(Event::End(Ending::Finish));
            }
            Signal::SIGQUIT => {
                tracing::info!(%signal, "asked to stop: waiting for clients to close");
                self.begin_end("waiting for clients to close");
                events.push_back(Event::End(Ending::Drain));
            }
            Signal::SIGUSR1 => self.reopen_log(),
            Signal::SIGUSR2 => self.begin_upgrade(),
            other => tracing::warn!(signal = %other, "ignored"),
        }
    }

    pub(super) fn begin_end(&mut self, words: &str) {
        self.abandon_upgrade();
        if self.predecessor.is_none() {
            self.notifier.stopping(words);
        }
    }

    /// Opens the log's file anew, here first: who may not open it finds it made.
    fn reopen_log(&mut self) {
        let Some(path) = log::file_path() else {
            tracing::info!("SIGUSR1: nothing to reopen: the log goes to standard error");
            return;
        };
        self.reopen_all();
        tracing::info!(path = %path.display(), "the log is opened anew");
    }

    pub(super) fn reopen_all(&mut self) {
        log::reopen();
        let children: Vec<Pid> = self.lines.keys().copied().collect();
        children.into_iter().for_each(|pid| self.say(pid, ToChild::ReopenLog));
    }

    /// What the server is at, for people.
    pub(super) fn status_words(&self) -> String {
        format!(
            "{} workers on {}, generation {}",
            self.conf.srv.workers,
            self.listeners.addresses().join(" "),
            self.runtime.generation()
        )
    }

    fn take_change(&mut self, pid: Pid, change: Change, events: &mut VecDeque<Event>) {
        if let (Some(reload), Change::Ended(exit)) = (&mut self.reload, change) {
            reload.note_end(pid, exit);
        }
        let processes = self.supervisor.processes();
        let Some(process) = processes.iter().find(|process| process.pid == pid) else { return };
        let place = process.place;
        match change {
            Change::Ended(exit) => {
                let expected = process.leaving || self.supervisor.is_ending();
                if expected && exit == Exit::Status(0) {
                    tracing::info!(child = %pid, "{place} has ended");
                } else {
                    tracing::warn!(child = %pid, %exit, "{place} died");
                }
                self.lines.remove(&pid);
                // Perhaps of what is to be found there.
                self.keep.hurry(clock::instant());
                events.push_back(Event::Ended(pid, exit));
            }
            Change::Stopped => {
                tracing::warn!(child = %pid, "{place} was stopped; a neighbour serves its queue");
                events.push_back(Event::Stopped(pid));
            }
            Change::Continued => {
                tracing::info!(child = %pid, "{place} goes on");
                events.push_back(Event::Continued(pid));
            }
        }
    }

    /// Tells the supervisor what happened and carries its orders out, and those that follow from
    /// them. In a new child it answers what that is.
    fn tell(&mut self, event: Event) -> Option<IsChild> {
        let mut orders = VecDeque::from(self.decide(event));
        while let Some(order) = orders.pop_front() {
            let event = match order {
                Order::Spawn(place, lanes) => match self.spawn(place, lanes) {
                    Ok(Spawned::Parent(event)) => event,
                    Ok(Spawned::Child(child)) => return Some(child),
                    Err(error) => {
                        tracing::error!(%error, "cannot start {place}");
                        Event::SpawnFailed(place)
                    }
                },
                order => {
                    self.carry_out(order);
                    continue;
                }
            };
            orders.extend(self.decide(event));
        }
        None
    }

    fn decide(&mut self, event: Event) -> Vec<Order> {
        let (mut orders, restarts) = (Vec::new(), self.supervisor.restarts());
        let place = match event {
            Event::Ended(pid, _) => self.supervisor.place_of(pid),
            _ => None,
        };
        // What is gone of it is not touched.
        let is_sound = self.failure.is_none();
        if let Event::Spawned(place, pid) = event
            && is_sound
        {
            self.runtime.set_place(place, pid.as_raw() as u32);
        }
        self.supervisor.decide(event, self.now_ms(), &mut orders);
        if let Some(place) = place.filter(|_| is_sound && self.supervisor.restarts() > restarts) {
            self.runtime.count_restart(place);
        }
        orders
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Spawn(..) => {}
            Order::Ask(pid, request) => {
                let signal = match request {
                    Request::Leave => return self.say(pid, ToChild::Leave),
                    Request::Finish => Signal::SIGTERM,
                    Request::Drain => Signal::SIGQUIT,
                    Request::Kill => Signal::SIGKILL,
                };
                if request == Request::Kill {
                    tracing::warn!(child = %pid, "it does not end: killed");
                }
                if let Err(error) = process::signal(pid, signal) {
                    tracing::warn!(%error, child = %pid, %signal, "cannot signal a child");
                }
            }
            Order::Serve(pid, lane) => self.say(pid, ToChild::Serve(lane)),
            Order::Yield(pid, lane) => self.say(pid, ToChild::Yield(lane)),
            Order::Recover(pid) => self.say(pid, ToChild::Recover),
            Order::CheckLengths => self.check_lengths(),
            Order::End => self.is_over = true,
        }
    }

    pub(super) fn say(&mut self, pid: Pid, word: ToChild) {
        let descriptors = match word {
            ToChild::Serve(lane) => self.listeners.lane(lane),
            _ => Vec::new(),
        };
        let Some(line) = self.lines.get_mut(&pid) else { return };
        if let Err(error) = line.say(word, descriptors) {
            // It has just died: that is seen, and made good, when it is reaped.
            tracing::debug!(%error, child = %pid, "cannot speak to a child");
        }
    }

    fn spawn(&mut self, place: ChildRole, lanes: BTreeSet<u16>) -> io::Result<Spawned> {
        let (ours, channel) = Channel::pair()?;
        let master = Pid::this();
        match process::fork()? {
            Forked::Child => Ok(Spawned::Child(IsChild { place, lanes, channel, master })),
            Forked::Parent(pid) => {
                tracing::info!(child = %pid, "{place} started");
                self.lines.insert(pid, Line::new(ours));
                Ok(Spawned::Parent(Event::Spawned(place, pid)))
            }
        }
    }

    /// Everything else of the master is dropped here, which closes its descriptors.
    fn into_forked_child(self, child: IsChild) -> ForkedChild {
        ForkedChild {
            place: child.place,
            channel: child.channel,
            share: match child.place {
                ChildRole::Worker(_) => self.listeners.into_share(&child.lanes),
                ChildRole::Keeper => self.listeners.into_admin_share(),
            },
            conf: self.conf,
            conf_dir: self.conf_dir,
            account: self.account,
            master: child.master,
        }
    }

    /// Names every group that is damaged: whoever is started next serves without it.
    fn check_lengths(&self) {
        if self.failure.is_some() {
            // It was none of theirs, and has a name.
            return;
        }
        let alone = |group: &Group| Conf {
            srv: self.conf.srv.clone(),
            map: Map::new(vec![group.clone()], Vec::new()),
        };
        let mut sound = true;
        for group in &self.conf.map.groups {
            if let Err(error) = store::check_files(&alone(group)) {
                sound = false;
                let group = &group.name;
                tracing::error!(group, %error, "a process met a SIGBUS; this group is not served");
            }
        }
        if sound {
            tracing::warn!("a process met a SIGBUS; all files have their lengths");
        }
    }

    fn close(mut self, is_damaged: bool) {
        // Until the older master has let go, lock, files and sockets are its; without the lock they
        // are the newer one's.
        let (None, Some(lock)) = (&self.predecessor, self.lock.take()) else {
            tracing::info!(restarts = self.supervisor.restarts(), "ended; another master serves");
            return;
        };
        if is_damaged {
            self.close_damaged()
        } else {
            self.close_clean()
        }
        let raised = self.account.as_ref().map_or(Ok(()), Account::raise);
        if let Err(error) = raised {
            tracing::warn!(%error, "cannot act as root again");
        }
        self.listeners.remove_files();
        if let Err(error) = lock.give_back() {
            tracing::warn!(%error, "cannot empty the lock file");
        }
        tracing::info!(restarts = self.supervisor.restarts(), "stopped");
    }

    fn close_clean(&self) {
        match store::close_clean(&self.conf) {
            Ok(true) => tracing::info!("files are written back and marked clean"),
            Ok(false) => tracing::warn!("a process is still attached: files are not marked clean"),
            Err(error) => tracing::error!(%error, "files are not marked clean"),
        }
    }
}

enum Spawned {
    Parent(Event),
    Child(IsChild),
}
