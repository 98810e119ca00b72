//! A newly started binary takes over: what the older master does for it, and what it does itself.
//!
//! ```text
//! older master                     newer master
//! fork, exec ────────────────────▶ adopts listeners and lock; checks configuration, layout, slots;
//!                                  prepares the store
//!            ◀── prepared ────────
//!            ── yours ───────────▶ publishes its configuration, starts its own workers, which
//!                                  accept beside the older ones
//!            ◀── serving ─────────
//! writes the newer one's id into the lock, tells systemd; closes lock, listeners and channel
//!            ── (closed) ────────▶ is the master
//! ends its keeper, lets its workers drain
//! ```
//!
//! The newer one is no child of the older: it is adopted at once by whoever started that one (or by
//! init), which is then told of its end. systemd would neither notice the death of a main process
//! that is not its child nor wait for its end before it kills what is left of the service.
//!
//! Invariant: until `serving` the older master is the one that all others know, serves as ever, and
//! goes on if the newer one fails, whenever and however that is; after it the older one touches
//! neither lock, files nor sockets.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use super::detached::{DetachedProcess, fork_away};
use super::error::with_sources;
use super::inherit::{HANDOVER, Handover};
use super::run::Master;
use super::supervise::{Ending, Event};
use crate::net::listeners::Listeners;
use crate::process::account::Account;
use crate::process::outcome::Outcome;
use frs::base::clock;
use frs::base::sys::process::{self, Channel, Delivery, Pid, PollFd, PollFlags, Signal};

const PREPARED: &[u8] = b"prepared";
const YOURS: &[u8] = b"yours";
const SERVING: &[u8] = b"serving";

/// The new binary has checked and prepared everything within this: new groups take their time.
const PREPARE: Duration = Duration::from_secs(60);
/// Its workers serve within this.
const TAKE_OVER: Duration = Duration::from_secs(20);
/// The older master answers within this, whatever it is at.
const ANSWER: Duration = Duration::from_secs(10);
/// One that has given up ends within this.
const END: Duration = Duration::from_secs(2);
/// Exit status of a child that could not become the new binary.
const EXIT_NO_BINARY: i32 = 127;

/// How this process was started, so that it can be started again.
pub(super) struct Program {
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
}

impl Program {
    /// This one: its name is looked up anew, so that it is whatever was installed under it since.
    pub fn this(environment: Vec<(&'static str, OsString)>) -> Program {
        Program { arguments: std::env::args_os().collect(), environment }
    }

    /// Becomes it; returns only if that fails.
    fn exec(&self, handover: &Handover) -> io::Error {
        let mut arguments = self.arguments.iter();
        let Some(name) = arguments.next() else {
            return io::Error::new(io::ErrorKind::NotFound, "this process has no name");
        };
        // What it ignores is for the new binary to say.
        if let Err(error) = process::stop_ignoring(Signal::SIGXFSZ) {
            return error;
        }
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        Command::new(name)
            .args(arguments)
            .envs(environment)
            .env(HANDOVER, handover.words())
            .arg0(name)
            .exec()
    }
}

/// A new binary on its way.
pub(super) struct Upgrade {
    process: DetachedProcess,
    channel: Channel,
    stage: Stage,
    until: Instant,
    /// In force when it was told to go on.
    generation: u64,
    /// It has closed its end of the channel: it ends, and may say why before it does.
    closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It checks and prepares; nothing has changed.
    Preparing,
    /// It puts its configuration in force and starts its workers.
    TakingOver,
}

impl Upgrade {
    /// What to wait on: what it says, and its end.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let channel = (!self.closed).then_some(self.channel.as_fd());
        channel.into_iter().chain(std::iter::once(self.process.as_fd()))
    }

    /// When it is late.
    pub fn until(&self) -> Instant {
        self.until
    }
}

impl Master {
    /// Starts the binary that has this one's name now, to take over.
    pub(super) fn begin_upgrade(&mut self) {
        if self.supervisor.is_ending() {
            tracing::warn!("no new binary is started: this master is about to stop");
        } else if self.upgrade.is_some() || self.predecessor.is_some() {
            tracing::warn!("no new binary is started: one is taking over already");
        } else if self.is_preparing_reload() {
            tracing::info!("the new binary is started after the reload");
            self.upgrade_wanted = true;
        } else {
            match self.start_binary() {
                Ok(upgrade) => {
                    let pid = upgrade.process.pid();
                    tracing::info!(child = %pid, "a new binary is started to take over");
                    self.upgrade = Some(upgrade);
                }
                Err(error) => tracing::error!(%error, "cannot start a new binary"),
            }
        }
    }

    /// Begins one that had to wait for a reload.
    pub(super) fn begin_wanted_upgrade(&mut self) {
        if self.upgrade_wanted && !self.is_preparing_reload() {
            self.upgrade_wanted = false;
            self.begin_upgrade();
        }
    }

    /// Does the newer one publish, so that this one may not: it has read what lies over the
    /// configuration.
    pub(super) fn is_giving_away(&self) -> bool {
        self.upgrade.as_ref().is_some_and(|upgrade| upgrade.stage == Stage::TakingOver)
    }

    fn start_binary(&self) -> io::Result<Upgrade> {
        let (channel, theirs) = Channel::pair()?;
        let Some(process) = fork_away()? else {
            let error = self.become_binary(&theirs);
            tracing::error!(%error, "cannot become the new binary");
            std::process::exit(EXIT_NO_BINARY);
        };
        Ok(Upgrade {
            process,
            channel,
            stage: Stage::Preparing,
            until: clock::instant() + PREPARE,
            generation: self.generation,
            closed: false,
        })
    }

    fn become_binary(&self, channel: &Channel) -> io::Error {
        match self.leave_open(channel) {
            Ok(handover) => self.program.exec(&handover),
            Err(error) => error,
        }
    }

    /// In the child: leaves what is handed over open over the exec, and names it.
    fn leave_open(&self, channel: &Channel) -> io::Result<Handover> {
        self.account.as_ref().map_or(Ok(()), Account::raise)?;
        let lock = self.lock.as_ref().ok_or_else(|| io::Error::other("the lock is not held"))?;
        let (own, lent) = self.listeners.all();
        let ties = [channel.as_fd(), lock.as_fd()];
        ties.iter().chain(&own).chain(&lent).try_for_each(|fd| process::pass_on(*fd))?;
        let raw = |fds: Vec<BorrowedFd<'_>>| -> Vec<RawFd> {
            fds.iter().map(AsRawFd::as_raw_fd).collect()
        };
        Ok(Handover {
            pid: Pid::this().as_raw(),
            channel: channel.as_fd().as_raw_fd(),
            lock: lock.as_fd().as_raw_fd(),
            own: raw(own),
            lent: raw(lent),
        })
    }

    /// Takes an upgrade on its way a step further, if it can be.
    pub(super) fn follow_upgrade(&mut self, events: &mut VecDeque<Event>) {
        let Some(mut upgrade) = self.upgrade.take() else { return };
        let failure = loop {
            // Whatever it has said before: there is nobody any more to hand over to.
            if upgrade.process.has_ended().unwrap_or(false) {
                break "it has ended".to_owned();
            }
            match (upgrade.channel.receive(), upgrade.stage) {
                (Ok(Delivery::Message(word, _)), Stage::Preparing) if word == PREPARED => {
                    upgrade.stage = Stage::TakingOver;
                    upgrade.generation = self.generation;
                    upgrade.until = clock::instant() + TAKE_OVER;
                    if let Err(error) = upgrade.channel.send(YOURS, &[]) {
                        break format!("it does not listen: {error}");
                    }
                }
                (Ok(Delivery::Message(word, _)), Stage::TakingOver) if word == SERVING => {
                    return self.hand_over(&upgrade, events);
                }
                (Ok(Delivery::Message(..)), stage) => break format!("nonsense while {stage:?}"),
                (Ok(Delivery::Closed), _) if !upgrade.closed => {
                    upgrade.closed = true;
                    upgrade.until = clock::instant() + END;
                }
                (Ok(_), _) if upgrade.until > clock::instant() => {
                    self.upgrade = Some(upgrade);
                    return;
                }
                (Ok(_), stage) => break format!("too long {stage:?}"),
                (Err(error), _) => break error.to_string(),
            }
        };
        self.go_on(&upgrade, &failure);
    }

    /// Breaks an upgrade off: the server is to end.
    pub(super) fn abandon_upgrade(&mut self) {
        self.upgrade_wanted = false;
        if let Some(upgrade) = self.upgrade.take() {
            self.go_on(&upgrade, "the server is to end");
        }
    }

    /// The new binary has failed: this master goes on.
    fn go_on(&mut self, upgrade: &Upgrade, reason: &str) {
        let pid = upgrade.process.pid();
        match upgrade.process.kill(END) {
            Ok(true) => {}
            Ok(false) => tracing::warn!(child = %pid, "the new binary does not end"),
            Err(error) => tracing::warn!(child = %pid, %error, "cannot end the new binary"),
        }
        tracing::error!(
            child = %pid,
            reason,
            "the new binary does not take over; this one goes on"
        );
        let is_other = self.runtime.generation() != upgrade.generation;
        if upgrade.stage == Stage::TakingOver && is_other {
            // It has put its configuration in force, which this one may not even understand.
            match self.publish_again() {
                Ok(generation) => {
                    tracing::warn!(generation, "the configuration from before is in force again");
                }
                Err(error) => tracing::error!(
                    error = with_sources(&error),
                    "the new binary's configuration stays in force: reload"
                ),
            }
        }
    }

    fn hand_over(&mut self, upgrade: &Upgrade, events: &mut VecDeque<Event>) {
        let pid = upgrade.process.pid();
        tracing::info!(
            child = %pid,
            "the new binary serves; this one finishes what it has begun"
        );
        if let Some(Err(error)) = self.lock.as_mut().map(|lock| lock.sign(pid)) {
            tracing::error!(%error, "cannot write the new master's id into the lock file");
        }
        // First systemd learns whom to listen to, then there is something to hear.
        self.notifier.main_process(pid);
        // Nothing of this one may stand in the way of the new one's end, or of its next start.
        self.lines.values_mut().for_each(|line| line.forget_listeners());
        self.listeners = Listeners::default();
        self.lock = None;
        self.notifier.fall_silent();
        self.reload = None;
        self.acknowledging.clear();
        self.asks.clear();
        events.push_back(Event::End(Ending::HandOver));
    }

    /// Says that all processes serve: to the older master, and once that one has let go, to systemd.
    pub(super) fn announce(&mut self) {
        if self.announced {
            return;
        }
        // One that is about to stop asks for nothing more.
        let complete = self.supervisor.is_complete() && !self.supervisor.is_ending();
        if let Some(predecessor) = &self.predecessor {
            if complete && !std::mem::replace(&mut self.said_serving, true) {
                let said = predecessor.send(SERVING, &[]);
                tracing::debug!(?said, "this master's processes serve");
            }
            if matches!(predecessor.receive(), Ok(Delivery::Nothing)) {
                return;
            }
            self.succeed();
        }
        if complete {
            self.announced = true;
            self.notifier.ready(&self.status_words());
        }
    }

    /// The older master has let go, or has died.
    fn succeed(&mut self) {
        self.predecessor = None;
        // Who has rotated it meanwhile has told the older master only.
        self.reopen_all();
        if let Some(Err(error)) = self.lock.as_mut().map(|lock| lock.sign(Pid::this())) {
            tracing::error!(%error, "cannot write this master's id into the lock file");
        }
        if let Err(error) = Outcome::forget(&self.conf.srv.data.dir) {
            tracing::warn!(%error, "cannot remove what the older master said of a reload");
        }
    }
}

/// In the new binary, when nothing is left that it could fail for: asks for the server. It is its
/// own, too, if the older master has died.
pub(super) fn ask_for(predecessor: &Channel) -> io::Result<()> {
    predecessor.send(PREPARED, &[]).or_else(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(true),
        _ => Err(error),
    })?;
    let until = clock::instant() + ANSWER;
    loop {
        match predecessor.receive()? {
            Delivery::Message(word, _) if word == YOURS => return Ok(()),
            Delivery::Message(..) => return Err(io::ErrorKind::InvalidData.into()),
            Delivery::Closed => return Ok(()),
            Delivery::Nothing => {}
        }
        let left = until.saturating_duration_since(clock::instant());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        process::poll(&mut [PollFd::new(predecessor.as_fd(), PollFlags::POLLIN)], Some(left))?;
    }
}
