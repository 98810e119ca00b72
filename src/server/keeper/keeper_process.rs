//! The loop of the keeper runs the duty that is due next, and receives the master's messages.
//!
//! Invariant: each duty works in small parts, so none waits long for another, however large the
//! groups are. The keeper serves no request, so its waits for a disk delay no client.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::checkpoints::{CheckpointPlan, Checkpoints};
use super::flusher::Flusher;
use super::mover::Mover;
use super::sweeper::Sweeper;
use crate::admin::{AdminArgs, AdminError, AdminPlane, PlaneListeners};
use crate::process::child::ChildContext;
use crate::process::log;
use crate::process::message::{self, Received, ToChild, ToMaster};
use frs_base::clock;
use frs_base::sys::process::{self, PollFd, PollFlags};
use frs_engine::{Role, Service};

/// The number of examinations of slots after a death. While large maps are torn down, the kernel
/// may release the lock of a dead process some 100 ms after its end.
const RECOVERY_ATTEMPTS: u32 = 20;
/// The pause between two examinations after a death.
const RECOVERY_PAUSE: Duration = Duration::from_millis(100);
/// The interval between examinations for dead programs, whose deaths no process reports.
const RECOVERY_EVERY: Duration = Duration::from_secs(1);

/// The interval between checks whether the last checkpoint is complete.
const LAST_PASS_LOOK: Duration = Duration::from_millis(5);
/// The pause between two requests for huge pages, each for a part of the groups.
const HUGE_PAUSE: Duration = Duration::from_millis(50);

/// The reason why the keeper cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The keeper cannot attach to the store.
    #[error("cannot attach to the store: {0}")]
    Attach(#[from] frs_store::Error),
    /// A system call that the keeper needs failed.
    #[error("the keeper's loop failed: {0}")]
    Loop(#[from] io::Error),
    /// The admin plane, a thread of the keeper, does not start.
    #[error(transparent)]
    Admin(#[from] AdminError),
}

/// Serves as keeper until the master asks it to end.
///
/// # Errors
/// The keeper cannot go on. The master replaces it.
pub fn run(mut child: ChildContext) -> Result<(), KeeperError> {
    let inherited = &mut child.inherited;
    let service = frs_cluster::attach(&inherited.data_dir, Role::Keeper)?;
    let sweeper = Sweeper::new(clock::instant());
    let listeners = PlaneListeners {
        admins: std::mem::take(&mut inherited.share.admins),
        metrics: std::mem::take(&mut inherited.share.metrics),
    };
    let admin = match inherited.control.take().filter(|_| !listeners.is_empty()) {
        None => None,
        Some(control) => {
            let tls = inherited.tls.take().ok_or_else(|| io::Error::other("no certificates"))?;
            let (master, swept) = (inherited.master, sweeper.found());
            let conf_dir = inherited.conf_dir.clone();
            let data_dir = inherited.data_dir.clone();
            let tokens = inherited.tokens.share()?;
            let args = AdminArgs { control, master, conf_dir, data_dir, swept, tokens, tls };
            Some(AdminPlane::start(listeners, args)?)
        }
    };
    message::send_ready(&inherited.channel)?;
    let now = clock::instant();
    let mover = Mover::new(&service.conf().map.groups, now);
    let checkpoints = Checkpoints::start(&child.inherited.data_dir);
    checkpoints.take(CheckpointPlan::of(service.conf()));
    let mut keeper = Keeper {
        flusher: Flusher::new(&service, now),
        mover,
        checkpoints,
        child,
        service,
        admin,
        next_huge: Some(now),
        // The previous keeper may have died of the slot that it had to recover.
        next_recovery: now,
        attempts_left: RECOVERY_ATTEMPTS,
        sweeper,
    };
    Ok(keeper.run()?)
}

struct Keeper {
    child: ChildContext,
    service: Service,
    admin: Option<AdminPlane>,
    flusher: Flusher,
    /// `None` once huge pages were requested for all groups that can use them.
    next_huge: Option<Instant>,
    next_recovery: Instant,
    attempts_left: u32,
    sweeper: Sweeper,
    checkpoints: Checkpoints,
    mover: Mover,
}

impl Keeper {
    fn run(&mut self) -> io::Result<()> {
        loop {
            self.wait()?;
            if self.child.signals.next()?.is_some() || !self.receive()? {
                return Ok(());
            }
            if self.service.begin_tick() {
                log::set_level(self.service.conf().srv.log.level);
                self.flusher.take(&self.service, clock::instant());
                self.next_huge = Some(clock::instant());
                let groups = &self.service.conf().map.groups;
                self.sweeper.take(groups, clock::instant());
                self.mover.take(groups, clock::instant());
                self.checkpoints.take(CheckpointPlan::of(self.service.conf()));
            }
            if self.checkpoints.is_last_done() {
                return Ok(());
            }
            self.admin.as_ref().map_or(Ok(()), AdminPlane::check)?;
            self.recover();
            let pulse = self.admin.as_ref().map(|admin| &*admin.pulse);
            self.flusher.tick(&mut self.service, pulse, clock::instant());
            self.ask_for_huge_pages();
            self.sweeper.tick(&mut self.service, clock::instant(), clock::now());
            self.move_nodes()?;
        }
    }

    fn wait(&self) -> io::Result<()> {
        let (recovery, sweep) = (Some(self.next_recovery), Some(self.sweeper.due()));
        let duties = [recovery, self.flusher.due(), self.next_huge, sweep, self.mover.due()];
        let next = duties.into_iter().flatten().min().unwrap_or(self.next_recovery);
        let mut timeout = next.saturating_duration_since(clock::instant());
        if self.checkpoints.is_last_asked() {
            timeout = timeout.min(LAST_PASS_LOOK);
        }
        let mut fds = [
            PollFd::new(self.child.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.child.inherited.channel.as_fd(), PollFlags::POLLIN),
        ];
        process::poll(&mut fds, Some(timeout))?;
        Ok(())
    }

    /// Receives the master's messages. Returns false if the master is gone.
    fn receive(&mut self) -> io::Result<bool> {
        loop {
            match message::receive(&self.child.inherited.channel)? {
                Received::Message(ToChild::Recover, _) => {
                    self.next_recovery = clock::instant();
                    self.attempts_left = RECOVERY_ATTEMPTS;
                }
                // The admin plane takes the new configuration, too.
                Received::Message(ToChild::Generation, _) => {
                    self.admin.as_ref().map_or(Ok(()), AdminPlane::wake)?;
                }
                Received::Message(ToChild::LastPass, _) => self.checkpoints.make_last(),
                Received::Message(ToChild::ReopenLog, _) => log::reopen(),
                Received::Message(..) => {}
                Received::Nothing => return Ok(true),
                Received::MasterGone => {
                    tracing::warn!("the master has ended: the keeper ends");
                    return Ok(false);
                }
            }
        }
    }

    fn recover(&mut self) {
        let now = clock::instant();
        if self.next_recovery > now {
            return;
        }
        let recovered = self.service.recover_dead();
        if recovered > 0 {
            tracing::info!(recovered, "recovered the slots of dead processes");
        }
        self.attempts_left = self.attempts_left.saturating_sub(1);
        let soon = self.attempts_left > 0;
        self.next_recovery = now + if soon { RECOVERY_PAUSE } else { RECOVERY_EVERY };
    }

    /// Works in parts with pauses, because a recovery must not wait for all of a large group.
    fn ask_for_huge_pages(&mut self) {
        if self.next_huge.is_some_and(|at| at <= clock::instant()) {
            let asked = self.service.ask_for_huge_pages();
            self.next_huge = asked.then(|| clock::instant() + HUGE_PAUSE);
        }
    }

    fn move_nodes(&mut self) -> io::Result<()> {
        let (service, flusher) = (&mut self.service, &mut self.flusher);
        let moved = self.mover.tick(service, flusher, clock::instant(), clock::now());
        let Some(moved) = moved else { return Ok(()) };
        match message::send(&self.child.inherited.channel, ToMaster::Moved(moved)) {
            // The mover reports the group again.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            // The loop notices that the master is gone.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent,
        }
    }
}
