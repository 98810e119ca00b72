//! The older master's side of an upgrade: a newly started binary takes over.
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
//! The newer master is not a child of the older one. The process that started the older master (or
//! init) adopts it at once, and learns of its end. If a main process is not systemd's own child,
//! systemd neither notices its death nor waits for its end before it kills the rest of the service.
//!
//! Invariant: until `serving`, clients of the lock and systemd know the older master. It serves as
//! before, and goes on if the newer one fails at any point in any way. After `serving` it touches
//! neither lock, files nor sockets.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use super::detached::{DetachedProcess, fork_away};
use super::inherit::{HANDOVER, Handover};
use frs_base::clock;
use frs_base::sys::process::{self, Channel, Delivery, Pid, Signal};

pub(super) const PREPARED: &[u8] = b"prepared";
pub(super) const YOURS: &[u8] = b"yours";
pub(super) const SERVING: &[u8] = b"serving";

/// Time limit for the new binary to check and prepare everything. New groups take time.
const PREPARE: Duration = Duration::from_secs(60);
/// Time limit for its workers to serve.
const TAKE_OVER: Duration = Duration::from_secs(20);
/// Time limit for a new binary that has given up to end.
const END: Duration = Duration::from_secs(2);
/// Exit status of a child that could not become the new binary.
const EXIT_NO_BINARY: i32 = 127;

/// A new binary that is taking over.
pub(super) struct Upgrade {
    process: DetachedProcess,
    channel: Channel,
    stage: UpgradeStage,
    until: Instant,
    /// The generation in force when it was started or told to take over.
    generation: u64,
    /// It closed its end of the channel: it is ending, and may log the reason first.
    closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpgradeStage {
    /// It checks and prepares. Nothing has changed.
    Preparing,
    /// It publishes its configuration and starts its workers.
    TakingOver,
}

impl Upgrade {
    /// Its process.
    pub fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// The generation in force when it was told to take over; none if it was not told.
    pub fn taken_from(&self) -> Option<u64> {
        (self.stage == UpgradeStage::TakingOver).then_some(self.generation)
    }

    /// Kills it, so that this master goes on.
    fn give_up(&self, reason: &str) {
        let pid = self.pid();
        match self.process.kill(END) {
            Ok(true) => {}
            Ok(false) => tracing::warn!(child = %pid, "the new binary does not end"),
            Err(error) => tracing::warn!(child = %pid, %error, "cannot end the new binary"),
        }
        tracing::error!(
            child = %pid,
            reason,
            "the new binary does not take over; this one continues"
        );
    }
}

/// How an upgrade ended. Dropping the value closes the channel to the new binary. Everything that
/// the new binary must not meet must be done before that.
pub(super) enum UpgradeEnd {
    /// The new binary's processes serve: it owns everything.
    Serving(Upgrade),
    /// It was killed: this master goes on.
    Failed(Upgrade),
}

/// How this process was started, and the upgrade that is in progress. There is at most one.
pub(super) struct Upgrades {
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    current: Option<Upgrade>,
}

impl Upgrades {
    /// No upgrade. `environment` is for the next binary.
    pub fn new(environment: Vec<(&'static str, OsString)>) -> Upgrades {
        Upgrades { arguments: std::env::args_os().collect(), environment, current: None }
    }

    /// Descriptors to wait on: the new binary's messages, and its end.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.current.iter().flat_map(|upgrade| {
            let channel = (!upgrade.closed).then_some(upgrade.channel.as_fd());
            channel.into_iter().chain(std::iter::once(upgrade.process.as_fd()))
        })
    }

    /// When the new binary has exceeded its time limit.
    pub fn until(&self) -> Option<Instant> {
        self.current.as_ref().map(|upgrade| upgrade.until)
    }

    /// Whether an upgrade is in progress.
    pub fn is_begun(&self) -> bool {
        self.current.is_some()
    }

    /// Whether the newer master publishes, so that this one must not. The newer one has already
    /// read the overlay.
    pub fn is_giving_away(&self) -> bool {
        self.current.as_ref().is_some_and(|upgrade| upgrade.stage == UpgradeStage::TakingOver)
    }

    /// Begins an upgrade with a binary that was started.
    pub fn begin(&mut self, started: io::Result<Upgrade>) {
        match started {
            Ok(upgrade) => {
                tracing::info!(child = %upgrade.pid(), "a new binary is started to take over");
                self.current = Some(upgrade);
            }
            Err(error) => tracing::error!(%error, "cannot start a new binary"),
        }
    }

    /// Starts the binary that now has this one's name, to take over. `leave_open` runs in the new
    /// process: it keeps the descriptors to hand over open across the exec, and names them.
    pub fn start(
        &self,
        generation: u64,
        leave_open: impl FnOnce(&Channel) -> io::Result<Handover>,
    ) -> io::Result<Upgrade> {
        let (channel, theirs) = Channel::pair()?;
        let Some(process) = fork_away()? else {
            let error = match leave_open(&theirs) {
                Ok(handover) => self.exec(&handover),
                Err(error) => error,
            };
            tracing::error!(%error, "cannot become the new binary");
            std::process::exit(EXIT_NO_BINARY);
        };
        let (stage, until) = (UpgradeStage::Preparing, clock::instant() + PREPARE);
        Ok(Upgrade { process, channel, stage, until, generation, closed: false })
    }

    /// Becomes this program again; returns only on failure. The name is looked up again, so a
    /// binary installed under it since is used.
    fn exec(&self, handover: &Handover) -> io::Error {
        let mut arguments = self.arguments.iter();
        let Some(name) = arguments.next() else {
            return io::Error::new(io::ErrorKind::NotFound, "this process has no name");
        };
        // The new binary decides which signals it ignores.
        if let Err(error) = process::stop_ignoring(Signal::SIGXFSZ) {
            return error;
        }
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        Command::new(name)
            .args(arguments)
            .envs(environment)
            .env(HANDOVER, handover.text())
            .arg0(name)
            .exec()
    }

    /// Advances the upgrade, if possible; returns its end, if it has ended. `generation` is the one
    /// in force, which the binary is told to take over.
    pub fn follow(&mut self, generation: u64) -> Option<UpgradeEnd> {
        let mut upgrade = self.current.take()?;
        let failure = loop {
            // No process is left to hand over to, whatever it sent before.
            if upgrade.process.has_ended().unwrap_or(false) {
                break "it has ended".to_owned();
            }
            match (upgrade.channel.receive(), upgrade.stage) {
                (Ok(Delivery::Message(word, _)), UpgradeStage::Preparing) if word == PREPARED => {
                    upgrade.stage = UpgradeStage::TakingOver;
                    upgrade.generation = generation;
                    upgrade.until = clock::instant() + TAKE_OVER;
                    if let Err(error) = upgrade.channel.send(YOURS, &[]) {
                        break format!("it does not listen: {error}");
                    }
                }
                (Ok(Delivery::Message(word, _)), UpgradeStage::TakingOver) if word == SERVING => {
                    return Some(UpgradeEnd::Serving(upgrade));
                }
                (Ok(Delivery::Message(..)), stage) => break format!("nonsense while {stage:?}"),
                (Ok(Delivery::Closed), _) if !upgrade.closed => {
                    upgrade.closed = true;
                    upgrade.until = clock::instant() + END;
                }
                (Ok(_), _) if upgrade.until > clock::instant() => {
                    self.current = Some(upgrade);
                    return None;
                }
                (Ok(_), stage) => break format!("too long {stage:?}"),
                (Err(error), _) => break error.to_string(),
            }
        };
        upgrade.give_up(&failure);
        Some(UpgradeEnd::Failed(upgrade))
    }

    /// Breaks off an upgrade, as the server ends.
    pub fn abandon(&mut self) -> Option<Upgrade> {
        self.current.take().inspect(|upgrade| upgrade.give_up("the server is to end"))
    }
}
