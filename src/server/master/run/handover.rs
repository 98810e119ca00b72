//! Upgrades: hands the server over to a newer master, or takes it over from an older one.
//!
//! Invariant: a master that has handed over touches neither lock, files nor sockets. A newer one
//! touches them only after that.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::Master;
use crate::account::Account;
use crate::master::error::ReloadError;
use crate::master::inherit::Handover;
use crate::master::reload_queue::refusal;
use crate::master::supervise::{Ending, Event};
use crate::master::upgrade::UpgradeEnd;
use crate::net::listeners::{AllSockets, ListeningSockets};
use crate::process::message::ToChild;
use frs_base::causes::with_causes;
use frs_base::clock;
use frs_base::sys::process::{self, Channel, Pid};

impl Master {
    /// Starts the binary that now has this one's name, to take over.
    pub(super) fn begin_upgrade(&mut self) {
        if self.children.is_ending() {
            tracing::warn!("no new binary is started: this master is about to stop");
        } else if self.upgrades.is_begun() || self.older.is_some() {
            tracing::warn!("no new binary is started: one is taking over already");
        } else if self.reloads.is_busy() || self.moves.is_ending() {
            tracing::info!("the new binary is started after the reload");
            self.reloads.note_upgrade();
        } else {
            let generation = self.in_force.generation();
            let started = self.upgrades.start(generation, |channel| self.leave_open(channel));
            self.upgrades.begin(started);
        }
    }

    /// In the new process: keeps the descriptors to hand over open across the exec, and names them.
    fn leave_open(&self, channel: &Channel) -> io::Result<Handover> {
        self.account.as_ref().map_or(Ok(()), Account::raise)?;
        let lock = self.lock.as_ref().ok_or_else(|| io::Error::other("the lock is not held"))?;
        let AllSockets { own, lent } = self.listeners.all();
        let ties = [channel.as_fd(), lock.as_fd()];
        let bells = self.cluster.as_ref().map(|ties| ties.bells.fds()).unwrap_or_default();
        let in_force = &self.in_force;
        let tickets =
            (!in_force.conf().srv.tls.is_empty()).then(|| in_force.boards().tls.tickets.as_fd());
        let mut all = ties.iter().chain(&tickets).chain(&bells).chain(&own).chain(&lent);
        all.try_for_each(|fd| process::pass_on(*fd))?;
        let raw = |fds: Vec<BorrowedFd<'_>>| fds.iter().map(AsRawFd::as_raw_fd).collect();
        Ok(Handover {
            pid: Pid::this().as_raw(),
            channel: channel.as_fd().as_raw_fd(),
            lock: lock.as_fd().as_raw_fd(),
            tickets: tickets.map(|fd| fd.as_raw_fd()),
            bells: raw(bells),
            own: raw(own),
            lent: raw(lent),
        })
    }

    /// Begins an upgrade that waited for reloads, and then the reloads behind it. They are refused
    /// if a new binary takes over.
    pub(super) fn begin_waiting_upgrade(&mut self) {
        let is_free = !self.reloads.is_busy() && !self.moves.is_ending();
        if is_free && let Some(behind) = self.reloads.take_upgrade() {
            self.begin_upgrade();
            self.reloads.put_back(behind);
            self.begin_requests();
        }
    }

    pub(super) fn follow_upgrade(&mut self, events: &mut VecDeque<Event>) {
        match &self.upgrades.follow(self.in_force.generation()) {
            Some(UpgradeEnd::Serving(upgrade)) => self.hand_over(upgrade.pid(), events),
            Some(UpgradeEnd::Failed(upgrade)) => self.go_on(upgrade.taken_from()),
            None => {}
        }
    }

    /// Continues after the new binary failed. `taken_from` is the generation in force when it was
    /// told to take over.
    pub(super) fn go_on(&mut self, taken_from: Option<u64>) {
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
        self.answer_all();
        self.control.close();
        (self.lock, self.live_lock) = (None, None);
        self.notifier.fall_silent();
        events.push_back(Event::End(Ending::HandOver));
    }

    /// Answers all requests before another master goes on.
    fn answer_all(&mut self) {
        let (children, runtime) = (&self.children, self.in_force.runtime());
        let laggards = |generation| children.laggards(&runtime.slots(), generation);
        let (waiting, answers) = self.reloads.end(laggards);
        let now = clock::instant();
        for (report, result) in &answers {
            report.askers.iter().for_each(|&asker| self.control.answer(asker, result, now));
        }
        let refused = refusal(&ReloadError::TakingOver);
        waiting.iter().for_each(|&asker| self.control.answer(asker, &refused, now));
    }

    /// Reports that all processes serve: to the older master and, once that one has let go, to
    /// systemd.
    pub(super) fn announce(&mut self) {
        if self.announced {
            return;
        }
        // A master that is about to stop requests nothing more.
        let complete = self.children.supervisor.is_complete() && !self.children.is_ending();
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
    }
}
