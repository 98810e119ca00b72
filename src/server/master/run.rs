//! The master's loop receives signals, deaths and messages, carries out orders, and connects the
//! master's parts.
//!
//! | part | owns |
//! | --- | --- |
//! | [`InForce`] | the configuration in force, runtime.mmap |
//! | [`Children`] | supervision, the channels to the children |
//! | [`Reloads`] | reloads that are requested, prepared or not yet acknowledged |
//! | [`Moves`] | groups that have moved, and the end of their moves |
//! | [`Upgrades`] | the new binary that is taking over |
//! | [`OlderMaster`] | the channel to the master that this one takes over from |
//! | [`ChangeNotes`] | changes for the log that do not come over the admin plane |
//! | [`Files`] | the last check of the files, and its time |
//! | [`Notifier`] | messages to systemd |
//!
//! Invariant: the master waits only for its descriptors and its clock, and maps no group. So
//! neither a stopped child nor a failing page blocks it.

mod moves;
mod overlays;
mod publish;

use frs_base::causes::with_causes;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use self::moves::Moves;
use super::change_notes::{ChangeNotes, GenerationChange};
use super::children::{Children, NewChild, Spawned};
use super::error::{MasterError, ReloadError};
use super::files::{self, Files, Watched};
use super::in_force::InForce;
use super::notify::Notifier;
use super::reload::{self, AskedReload, ReloadAnswer, Reloads, ReportTo};
use super::supervise::{Ending, Event, Order};
use super::take_over::OlderMaster;
use super::upgrade::{Estate, Program, UpgradeEnd, Upgrades};
use crate::account::Account;
use crate::net::listeners::{ListenerShare, ListeningSockets};
use crate::process::bells::Bells;
use crate::process::child::ForkedChild;
use crate::process::data_lock::DataLock;
use crate::process::live_lock::LiveLock;
use crate::process::log;
use crate::process::lossy_request;
use crate::process::message::{ReloadOptions, ToChild};
use crate::process::result_files::{ReloadOutcome, Reloaded};
use frs_base::clock;
use frs_base::sys::process::{self, ChildChange, Pid, PollFd, PollFlags, Signal, Signals};
use frs_conf::{ClusterSecrets, Group};
use frs_store::{self as store, ChildRole, Damage};

/// How [`serve`](super::serve) returned.
pub enum Ended {
    /// In the master: it stopped as requested.
    Stopped,
    /// In a child that was just forked.
    Child(Box<ForkedChild>),
}

/// What start-up passes to the master.
pub(super) struct MasterParts {
    pub conf_dir: PathBuf,
    pub in_force: InForce,
    pub account: Option<Account>,
    pub signals: Signals,
    pub lock: DataLock,
    /// None: the live files are in the data directory.
    pub live_lock: Option<LiveLock>,
    pub listeners: ListeningSockets,
    pub older: Option<OlderMaster>,
    pub notifier: Notifier,
    pub program: Program,
    /// A reload was requested before this master could begin it.
    pub reload_wanted: bool,
    /// The doorbells and the secrets, if there is a cluster.
    pub bells: Option<Bells>,
    pub secrets: Option<ClusterSecrets>,
}

/// The master of a server.
pub(super) struct Master {
    conf_dir: PathBuf,
    account: Option<Account>,
    signals: Signals,
    /// None after the handover.
    lock: Option<DataLock>,
    live_lock: Option<LiveLock>,
    listeners: ListeningSockets,
    in_force: InForce,
    children: Children,
    reloads: Reloads,
    changes: ChangeNotes,
    moves: Moves,
    upgrades: Upgrades,
    /// Present until the older master has released the server.
    older: Option<OlderMaster>,
    files: Files,
    notifier: Notifier,
    bells: Option<Bells>,
    /// The secrets of the cluster: the secret of the start, or of the reload that added the
    /// cluster, and the password of the last reload.
    secrets: Option<ClusterSecrets>,
    /// All processes have served once.
    announced: bool,
    /// Why it ends, if nobody requested the end.
    failure: Option<MasterError>,
    is_over: bool,
}

impl Master {
    /// A master that has not started any process.
    pub fn new(parts: MasterParts) -> Master {
        let now = clock::instant();
        Master {
            conf_dir: parts.conf_dir,
            account: parts.account,
            signals: parts.signals,
            lock: Some(parts.lock),
            live_lock: parts.live_lock,
            listeners: parts.listeners,
            children: Children::new(&parts.in_force.conf().srv, now),
            changes: ChangeNotes::new(parts.in_force.data_dir()),
            in_force: parts.in_force,
            reloads: Reloads::new(parts.reload_wanted),
            moves: Moves::default(),
            upgrades: Upgrades::new(parts.program),
            older: parts.older,
            files: Files::new(now),
            notifier: parts.notifier,
            bells: parts.bells,
            secrets: parts.secrets,
            announced: false,
            failure: None,
            is_over: false,
        }
    }

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
        let waits = times.map(|until| until.saturating_duration_since(now));
        let timeout = waits.chain(self.children.due()).chain(self.reloads.due());
        let timeout = timeout.chain(self.moves.due()).chain(self.changes.due()).min();
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = vec![readable(self.signals.as_fd())];
        fds.extend(self.children.fds());
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
        let mut requests = self.children.receive(&mut events);
        self.moves.note(std::mem::take(&mut requests.moved));
        self.reloads.note_requests(requests);
        self.follow_reload(&mut events)?;
        self.begin_wanted_upgrade();
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
        self.begin_wanted_reload();
        // Requests had to wait until the older master released the server.
        self.begin_asked();
        self.follow_resets();
        self.follow_moves();
        self.changes.flush();
        Ok(None)
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

    fn begin_end(&mut self, words: &str) {
        if let Some(end) = self.upgrades.abandon() {
            self.end_upgrade(end, &mut VecDeque::new());
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

    fn take_change(&mut self, pid: Pid, change: ChildChange, events: &mut VecDeque<Event>) {
        if let ChildChange::Ended(exit) = change {
            self.reloads.note_end(pid, exit);
        }
        let Some(event) = self.children.note_change(pid, change) else { return };
        if matches!(event, Event::Ended(..)) {
            // A damaged file may have caused the death.
            self.files.hurry(clock::instant());
        }
        events.push_back(event);
    }

    // Supervision.

    /// Passes an event to the supervisor and carries out its orders and those that follow from
    /// them. In a new child it returns that child.
    fn tell(&mut self, event: Event) -> Option<NewChild> {
        let mut orders = VecDeque::from(self.decide(event));
        while let Some(order) = orders.pop_front() {
            let Order::Spawn(role, sets) = order else {
                self.carry_out(order);
                continue;
            };
            let event = match self.children.spawn(role, sets) {
                Ok(Spawned::Parent(event)) => event,
                Ok(Spawned::Child(child)) => return Some(child),
                Err(error) => {
                    tracing::error!(%error, "cannot start {role}");
                    Event::SpawnFailed(role)
                }
            };
            orders.extend(self.decide(event));
        }
        None
    }

    fn decide(&mut self, event: Event) -> Vec<Order> {
        // A damaged runtime.mmap is not touched.
        let runtime = self.failure.is_none().then_some(self.in_force.runtime());
        self.children.decide(event, runtime)
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Spawn(..) => {}
            Order::Ask(pid, request) => self.children.ask(pid, request),
            Order::Serve(pid, set) => self.children.serve(pid, set, self.listeners.set_fds(set)),
            Order::Yield(pid, set) => self.children.say(pid, ToChild::Yield(set)),
            Order::Recover(pid) => self.children.say(pid, ToChild::Recover),
            // A damaged runtime.mmap is the known cause of the signal, and no group needs a check.
            Order::CheckLengths if self.failure.is_some() => {}
            Order::CheckLengths => files::check_lengths(self.in_force.conf()),
            Order::End => self.is_over = true,
        }
    }

    /// Drops the rest of the master, which closes its descriptors.
    fn into_forked_child(self, child: NewChild) -> ForkedChild {
        ForkedChild {
            role: child.role,
            channel: child.channel,
            share: match child.role {
                ChildRole::Worker(_) => self.listeners.into_share(&child.sets),
                ChildRole::Keeper => self.listeners.into_admin_share(),
                ChildRole::Envoy => self.listeners.into_envoy_share(),
                ChildRole::Courier => ListenerShare::default(),
            },
            conf: Arc::clone(self.in_force.conf()),
            tokens: self.in_force.into_tokens(),
            conf_dir: self.conf_dir,
            account: self.account,
            master: child.master,
            bells: self
                .bells
                .filter(|_| matches!(child.role, ChildRole::Worker(_) | ChildRole::Courier)),
            secrets: self.secrets.filter(|_| child.role == ChildRole::Courier).map(Box::new),
        }
    }

    // Files.

    /// When the files are checked next; never before this master serves or after the handover.
    fn next_look(&self) -> Option<Instant> {
        let serves = self.lock.is_some() && self.older.is_none();
        (serves && !self.children.is_ending()).then_some(self.files.next())
    }

    fn look_at_files(&mut self, events: &mut VecDeque<Event>) {
        let now = clock::instant();
        if self.next_look().is_none_or(|next| next > now) {
            return;
        }
        let is_own = !self.upgrades.is_giving_away();
        let (in_force, lock) = (&self.in_force, self.lock.as_mut());
        let live_lock = self.live_lock.as_mut();
        let watched = Watched { in_force, lock, live_lock, is_own };
        if let Err(damage) = self.files.look(watched, now) {
            self.fail(damage, events);
        }
    }

    /// Ends the server: no process can attach any more, and attached ones will fail soon.
    fn fail(&mut self, damage: Damage, events: &mut VecDeque<Event>) {
        files::set_damaged_aside(&damage, self.in_force.runtime());
        self.failure = Some(MasterError::Damaged(damage.error));
        // Acknowledgements are in the slots, which are not touched any more.
        self.reloads.forget_acknowledging();
        self.children.forgo_last_pass();
        self.begin_end("runtime.mmap is damaged");
        events.push_back(Event::End(Ending::Finish));
    }

    /// # Errors
    /// Not all is on the disk.
    fn close(mut self, is_damaged: bool) -> Result<(), MasterError> {
        let restarts = self.children.restarts();
        // Before the older master lets go, it owns lock, files and sockets. After the handover
        // there is no lock here, and the newer master owns them.
        let (None, Some(lock)) = (&self.older, self.lock.take()) else {
            tracing::info!(restarts, "ended; another master serves");
            return Ok(());
        };
        if self.children.lost_last_pass() {
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
        if let Err(error) = lock.give_back() {
            tracing::warn!(%error, "cannot empty the lock file");
        }
        tracing::info!(restarts, "stopped");
        closed
    }

    // Reloads.

    /// Begins to take the configuration from the files.
    fn begin_reload(&mut self, asked: Option<AskedReload>) {
        let (asked, options) = (asked.map(|asked| asked.number), asked.map(|asked| asked.options));
        if self.children.is_ending() {
            tracing::warn!("not reloaded: this master is about to stop");
            let report = ReportTo { begun_ns: None, asked };
            return self.answer(ReloadAnswer::refusal(report, &ReloadError::Ending));
        }
        if self.reloads.begin_after() {
            return;
        }
        if self.older.is_some() || self.moves.is_ending() {
            // The older master's result of a reload must still be removed, or files are just being
            // renamed.
            return self.reloads.want();
        }
        self.answer_early();
        let begun_ns = clock::monotonic_ns();
        // Before this master serves, systemd sees no reload, and the server is not ready yet.
        if self.announced {
            self.notifier.reloading(begun_ns);
        }
        let report = ReportTo { begun_ns: Some(begun_ns), asked };
        // The request of a command is taken only with the reload that answers it.
        let options =
            options.unwrap_or_else(|| lossy_request::take(self.in_force.data_dir()).into());
        if let Err(error) = self.prepare_reload(report, options) {
            self.refuse_reload(report, &error, options.is_edit);
        }
    }

    fn prepare_reload(
        &mut self,
        report: ReportTo,
        options: ReloadOptions,
    ) -> Result<(), ReloadError> {
        if self.upgrades.is_begun() {
            return Err(ReloadError::TakingOver);
        }
        let account = self.account.as_ref();
        self.reloads.prepare(report, &self.conf_dir, &self.in_force, account, options)
    }

    /// Begins a reload that was requested too early.
    fn begin_wanted_reload(&mut self) {
        if self.older.is_none() && !self.moves.is_ending() && self.reloads.take_wanted() {
            self.begin_reload(None);
        }
    }

    /// Groups of the configuration in force that a reload does not bring back, a line each.
    fn unserved_words(&self) -> Vec<String> {
        let runtime = self.in_force.runtime();
        let groups = &self.in_force.conf().map.groups;
        let unserved = groups.iter().filter(|group| !runtime.is_served(&group.name));
        let words = |group: &Group| {
            format!(
                "group {} is not served: its items answer `store` until a start finds its files \
                 sound",
                group.name
            )
        };
        unserved.map(words).collect()
    }

    /// Advances the current reload, if possible.
    fn follow_reload(&mut self, events: &mut VecDeque<Event>) -> io::Result<()> {
        if let Some(mut candidate) = self.reloads.take_prepared()? {
            let mut fresh = candidate.take_fresh();
            let (report, again) = (candidate.report, candidate.again);
            let is_edit = candidate.is_edit;
            let files = std::mem::take(&mut candidate.files);
            let old = self.in_force.generation();
            match self.publish(candidate, events) {
                Ok(generation) => {
                    if report.asked.is_none() {
                        self.changes.note_reload(GenerationChange { old, new: generation });
                    }
                    fresh.extend(self.unserved_words());
                    self.reloads.wait_for(report, generation, fresh);
                }
                Err(error) => {
                    reload::take_back(&files, self.in_force.runtime());
                    self.refuse_reload(report, &error, is_edit);
                }
            }
            if again {
                self.begin_reload(None);
            }
        }
        let (children, runtime) = (&self.children, self.in_force.runtime());
        let laggards = |generation| children.laggards(&runtime.slots(), generation);
        let answers = self.reloads.answer_acknowledged(laggards);
        answers.into_iter().for_each(|answer| self.answer(answer));
        Ok(())
    }

    fn refuse_reload(&mut self, report: ReportTo, error: &ReloadError, is_edit: bool) {
        let runtime = self.in_force.runtime();
        runtime.count_refused_reload(clock::now());
        if !is_edit {
            runtime.set_reload_refused();
        }
        self.refuse(report, error, "the new configuration is refused; the old one stays in force");
    }

    /// Logs the faults and then the refusal, and answers.
    fn refuse(&mut self, report: ReportTo, error: &ReloadError, words: &str) {
        let answer = ReloadAnswer::refusal(report, error);
        let Reloaded::Refused { faults, .. } = &answer.result else { return };
        faults.iter().for_each(|fault| tracing::error!("{fault}"));
        tracing::error!(faults = faults.len(), "{words}");
        self.answer(answer);
    }

    fn answer_early(&mut self) {
        let (children, runtime) = (&self.children, self.in_force.runtime());
        let laggards = |generation| children.laggards(&runtime.slots(), generation);
        let answers = self.reloads.answer_early(laggards);
        answers.into_iter().for_each(|answer| self.answer(answer));
    }

    fn answer(&self, answer: ReloadAnswer) {
        if self.lock.is_none() {
            // After the handover, clients read the newer master's answer.
            return;
        }
        if self.announced && answer.report.begun_ns.is_some() {
            self.notifier.ready(&self.reloaded_words(&answer.result));
        }
        if let Err(error) = answer.write_down(self.in_force.data_dir()) {
            tracing::error!(%error, "cannot write the result of the reload");
        }
        for path in ReloadOutcome::files(self.in_force.data_dir()) {
            store::give_access_to_read(self.in_force.conf(), &path);
        }
    }

    fn reloaded_words(&self, result: &Reloaded) -> String {
        let words = self.status_words();
        match result {
            Reloaded::Taken { .. } => words,
            Reloaded::Refused { faults, .. } => {
                format!(
                    "{words}; the last reload was refused, {} faults: see the log",
                    faults.len()
                )
            }
        }
    }

    // Upgrades: this master is the older one.

    /// Starts the binary that now has this one's name, to take over.
    fn begin_upgrade(&mut self) {
        if self.children.is_ending() {
            tracing::warn!("no new binary is started: this master is about to stop");
        } else if self.upgrades.is_begun() || self.older.is_some() {
            tracing::warn!("no new binary is started: one is taking over already");
        } else if self.reloads.is_preparing() || self.moves.is_ending() {
            tracing::info!("the new binary is started after the reload");
            self.upgrades.want();
        } else {
            let (account, lock) = (self.account.as_ref(), self.lock.as_ref());
            let (listeners, bells) = (&self.listeners, self.bells.as_ref());
            let estate = Estate { account, lock, listeners, bells };
            self.upgrades.begin(&estate, self.in_force.generation());
        }
    }

    /// Begins an upgrade that waited for a reload.
    fn begin_wanted_upgrade(&mut self) {
        let is_free = !self.reloads.is_preparing() && !self.moves.is_ending();
        if is_free && self.upgrades.take_wanted() {
            self.begin_upgrade();
        }
    }

    fn follow_upgrade(&mut self, events: &mut VecDeque<Event>) {
        if let Some(end) = self.upgrades.follow(self.in_force.generation()) {
            self.end_upgrade(end, events);
        }
    }

    fn end_upgrade(&mut self, end: UpgradeEnd, events: &mut VecDeque<Event>) {
        match &end {
            UpgradeEnd::Serving(upgrade) => self.hand_over(upgrade.pid(), events),
            UpgradeEnd::Failed(upgrade) => self.go_on(upgrade.taken_from()),
        }
    }

    /// Continues after the new binary failed. `taken_from` is the generation in force when it was
    /// told to take over.
    fn go_on(&mut self, taken_from: Option<u64>) {
        let found = self.in_force.runtime().generation();
        if taken_from.is_none_or(|generation| generation == found) {
            return;
        }
        // The new binary published its configuration, which this one may not even understand.
        match self.in_force.publish_again() {
            Ok(generation) => {
                self.children.say_all(ToChild::Generation);
                tracing::warn!(generation, "the previous configuration is in force again");
            }
            Err(error) => tracing::error!(
                error = with_causes(&error),
                "the new binary's configuration stays in force: reload"
            ),
        }
    }

    fn hand_over(&mut self, pid: Pid, events: &mut VecDeque<Event>) {
        tracing::info!(
            child = %pid,
            "the new binary serves; this one finishes its requests"
        );
        if let Some(Err(error)) = self.lock.as_mut().map(|lock| lock.sign(pid)) {
            tracing::error!(%error, "cannot write the new master's id into the lock file");
        }
        // systemd must know the new main process before that process sends anything.
        self.notifier.main_process(pid);
        // This master must not block the end of the new one or its next start.
        self.children.forget_listeners();
        self.listeners = ListeningSockets::default();
        (self.lock, self.live_lock) = (None, None);
        self.notifier.fall_silent();
        self.reloads.forget();
        events.push_back(Event::End(Ending::HandOver));
    }

    // Taking over: this master is the newer one.

    /// Reports that all processes serve: to the older master and, once that one has let go, to
    /// systemd.
    fn announce(&mut self) {
        if self.announced {
            return;
        }
        // A master that is about to stop requests nothing more.
        let complete = self.children.is_complete() && !self.children.is_ending();
        if let Some(older) = &mut self.older {
            if complete {
                older.say_serving();
            }
            if !older.has_let_go() {
                return;
            }
            self.succeed();
        }
        if complete {
            self.announced = true;
            self.notifier.ready(&self.status_words());
        }
    }

    /// Becomes the only master, as the older one has let go or died.
    fn succeed(&mut self) {
        self.older = None;
        // A log rotation in the meantime was signalled to the older master only.
        self.reopen_all();
        if let Some(Err(error)) = self.lock.as_mut().map(|lock| lock.sign(Pid::this())) {
            tracing::error!(%error, "cannot write this master's id into the lock file");
        }
        if let Err(error) = ReloadOutcome::forget(self.in_force.data_dir()) {
            tracing::warn!(%error, "cannot remove the older master's result of a reload");
        }
    }
}
