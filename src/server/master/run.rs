//! The master's loop receives signals, deaths and messages, carries out orders, and connects the
//! master's parts.
//!
//! | part | owns |
//! | --- | --- |
//! | [`InForce`] | the configuration in force, runtime.mmap |
//! | [`Children`] | supervision, the channels to the children |
//! | [`ControlSocket`] | the connections of those who send requests |
//! | [`Reloads`] | what waits, and the reload that is prepared or not yet acknowledged |
//! | [`Moves`] | the end of a group's move |
//! | [`Upgrades`] | the new binary that is taking over |
//! | [`OlderMaster`] | the channel to the master that this one takes over from |
//! | [`ChangeNotes`] | changes for the log that do not come over the admin plane |
//! | [`Files`] | the last check of the files, and its time |
//! | [`ConfWatch`] | what was last read of the configuration's files |
//! | `ticket_keys` | the keys of session tickets |
//! | [`Notifier`] | messages to systemd |
//!
//! Invariant: the master waits only for its descriptors and its clock, and maps no group. So
//! neither a stopped child nor a failing page blocks it.

mod handover;
mod moves;
mod overlays;
mod reload;
mod requests;
mod supervisor_orders;
mod ticket_keys;
mod watch;

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;

pub(super) use self::moves::Moves;
use super::change_notes::ChangeNotes;
use super::children::{ChildReports, Children, NewChild};
use super::conf_watch::ConfWatch;
use super::control_socket::ControlSocket;
use super::error::MasterError;
use super::files::{self, Files};
use super::in_force::InForce;
use super::notify::Notifier;
use super::reload_queue::Reloads;
use super::supervise::{Ending, Event};
use super::take_over::OlderMaster;
use super::upgrade::Upgrades;
use crate::account::Account;
use crate::net::listeners::ListeningSockets;
use crate::process::bells::Bells;
use crate::process::child::ForkedChild;
use crate::process::data_lock::DataLock;
use crate::process::live_lock::LiveLock;
use crate::process::log;
use crate::process::message::ToChild;
use frs_base::clock;
use frs_base::sys::process::{self, PollFd, PollFlags, Signal, Signals};
use frs_conf::ClusterSecrets;
use frs_store::Damage;

/// How [`serve`](super::serve) returned.
pub enum Ended {
    /// In the master: it stopped as requested.
    Stopped,
    /// In a child that was just forked.
    Child(Box<ForkedChild>),
}

/// The doorbells and secrets of a server in a cluster.
pub(super) struct ClusterTies {
    pub bells: Bells,
    /// The secret of the start, or of the reload that added the cluster, and the password of the
    /// last reload.
    pub secrets: ClusterSecrets,
}

/// The master of a server.
pub(super) struct Master {
    pub conf_dir: PathBuf,
    pub account: Option<Account>,
    pub signals: Signals,
    /// None after the handover.
    pub lock: Option<DataLock>,
    /// None: the live files are in the data directory.
    pub live_lock: Option<LiveLock>,
    pub listeners: ListeningSockets,
    pub control: ControlSocket,
    pub in_force: InForce,
    pub children: Children,
    pub reloads: Reloads,
    pub changes: ChangeNotes,
    pub moves: Moves,
    pub upgrades: Upgrades,
    /// Present until the older master has released the server.
    pub older: Option<OlderMaster>,
    pub files: Files,
    pub watch: ConfWatch,
    /// When the keys of session tickets are looked at next.
    pub next_ticket_key: Instant,
    pub notifier: Notifier,
    /// Present if there is a cluster.
    pub cluster: Option<ClusterTies>,
    /// All processes have served once.
    pub announced: bool,
    /// Why it ends, if nobody requested the end.
    pub failure: Option<MasterError>,
    pub is_over: bool,
}

impl Master {
    /// Serves until asked to end. Also returns in each forked child, which keeps nothing of the
    /// master.
    pub fn run(mut self) -> Result<Ended, MasterError> {
        let mut child = self.tell(Event::ListenerSets(self.listeners.sets()));
        while !self.is_over && child.is_none() {
            self.wait()?;
            child = self.tick()?;
        }
        match child {
            Some(child) => Ok(Ended::Child(Box::new(self.into_forked_child(child)))),
            None => {
                // A damaged runtime.mmap is not touched any more.
                let runtime = self.failure.is_none().then(|| self.in_force.runtime());
                if let Err(error) = self.reloads.break_off(runtime) {
                    tracing::error!(%error, "the preparation of a reload was not broken off");
                }
                let failure = self.failure.take();
                let closed = self.close(failure.is_some());
                failure.map_or(closed.map(|()| Ended::Stopped), Err)
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let now = clock::instant();
        let notify = self.notifier.due(now).filter(|_| self.older.is_none());
        let times = notify.into_iter().chain(self.upgrades.until()).chain(self.next_look());
        let times = times.chain(self.control.due()).chain(self.next_watch());
        let times = times.chain(self.next_ticket_key());
        let waits = times.map(|until| until.saturating_duration_since(now));
        let timeout = waits.chain(self.children.due()).chain(self.reloads.due());
        let timeout = timeout.chain(self.moves.due()).chain(self.changes.due()).min();
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = vec![readable(self.signals.as_fd())];
        fds.extend(self.children.fds());
        fds.extend(self.control.fds());
        fds.extend(self.reloads.fd().map(readable));
        fds.extend(self.upgrades.fds().map(readable));
        fds.extend(self.older.as_ref().map(OlderMaster::fd).map(readable));
        process::poll(&mut fds, timeout)?;
        Ok(())
    }

    fn tick(&mut self) -> io::Result<Option<NewChild>> {
        let mut events = VecDeque::new();
        while let Some(signal) = self.signals.next()? {
            self.take_signal(signal, &mut events);
        }
        while let Some((pid, change)) = process::next_change()? {
            self.take_change(pid, change, &mut events);
        }
        self.look_at_files(&mut events);
        self.look_at_ticket_keys();
        let ChildReports { raises, moved } = self.children.receive(&mut events);
        self.reloads.note_raises(raises);
        self.receive_requests();
        self.follow_reload(&mut events)?;
        self.begin_requests();
        self.follow_files();
        self.begin_waiting_upgrade();
        self.follow_upgrade(&mut events);
        if self.older.is_none() {
            // Until then systemd listens to the older master only.
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
        self.follow_resets();
        self.follow_moves(moved);
        self.changes.flush();
        Ok(None)
    }

    fn take_signal(&mut self, signal: Signal, events: &mut VecDeque<Event>) {
        match signal {
            Signal::SIGCHLD => {}
            Signal::SIGHUP => self.reloads.note_signal(),
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

    fn begin_end(&mut self, words: &str) {
        if let Some(behind) = self.reloads.take_upgrade() {
            self.reloads.put_back(behind);
        }
        if let Some(upgrade) = self.upgrades.abandon() {
            self.go_on(upgrade.taken_from());
        }
        if self.older.is_none() {
            self.notifier.stopping(words);
        }
    }

    /// Reopens the log's file, in the master first, so that it exists for children that may not
    /// create it.
    fn reopen_log(&mut self) {
        let Some(path) = log::file_path() else {
            tracing::info!("SIGUSR1: nothing to reopen: the log goes to standard error");
            return;
        };
        self.reopen_all();
        tracing::info!(path = %path.display(), "reopened the log");
    }

    fn reopen_all(&mut self) {
        log::reopen();
        self.children.say_all(ToChild::ReopenLog);
    }

    /// The server's state, for people.
    fn status_words(&self) -> String {
        format!(
            "{} workers on {}, generation {}",
            self.in_force.conf().srv.workers,
            self.listeners.addresses().join(" "),
            self.in_force.runtime().generation()
        )
    }

    // Files.

    /// When the files are checked next; never before this master serves or after the handover.
    fn next_look(&self) -> Option<Instant> {
        let serves = self.lock.is_some() && self.older.is_none();
        (serves && !self.children.is_ending()).then_some(self.files.next)
    }

    fn look_at_files(&mut self, events: &mut VecDeque<Event>) {
        let now = clock::instant();
        if self.next_look().is_none_or(|next| next > now) {
            return;
        }
        let control = (!self.upgrades.is_giving_away()).then_some(&mut self.control);
        let (lock, live_lock) = (self.lock.as_mut(), self.live_lock.as_mut());
        if let Err(damage) = self.files.look(&self.in_force, lock, live_lock, control, now) {
            self.fail(damage, events);
        }
    }

    /// Ends the server: no process can attach any more, and attached ones will fail soon.
    fn fail(&mut self, damage: Damage, events: &mut VecDeque<Event>) {
        files::set_damaged_aside(&damage, self.in_force.runtime());
        self.failure = Some(MasterError::Damaged(damage.error));
        // Acknowledgements are in the slots, which are not touched any more.
        self.reloads.forget_acknowledging();
        self.children.supervisor.forgo_last_pass();
        self.begin_end("runtime.mmap is damaged");
        events.push_back(Event::End(Ending::Finish));
    }

    /// # Errors
    /// Not all is on the disk.
    fn close(mut self, is_damaged: bool) -> Result<(), MasterError> {
        let restarts = self.children.supervisor.restarts();
        // Before the older master lets go, it owns lock, files and sockets. After the handover
        // there is no lock here, and the newer master owns them.
        let (None, Some(lock)) = (&self.older, self.lock.take()) else {
            tracing::info!(restarts, "ended; another master serves");
            return Ok(());
        };
        if self.children.supervisor.lost_last_pass() {
            tracing::error!("the keeper died before the last checkpoint was made");
            // The keeper, which would write it, is dead.
            let failing = self.in_force.runtime().checkpoints_failing_since();
            let since_ms = failing.unwrap_or_else(clock::now);
            self.in_force.runtime().set_checkpoints_failing(Some(since_ms));
        }
        let closed = if is_damaged {
            files::close_damaged(self.in_force.runtime());
            Ok(())
        } else {
            files::close_clean(self.in_force.conf())
        };
        self.listeners.remove_files(self.account.as_ref());
        self.control.remove(self.in_force.data_dir());
        if let Err(error) = lock.give_back() {
            tracing::warn!(%error, "cannot empty the lock file");
        }
        tracing::info!(restarts, "stopped");
        closed
    }
}
