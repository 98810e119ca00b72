//! The commands that ask a running master: reload, stop, status.
//!
//! Invariant: a command finds its master by the data directory's lock, never by a process id that
//! somebody left behind; of the files it reads nothing but where that directory is, so that a
//! server can be stopped, looked at and reloaded whatever else somebody has written into them.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::lock::{self, LockError};
use super::outcome::{Outcome, Reloaded};
use crate::clock;
use crate::conf::active::{self, ActiveError};
use crate::conf::{Conf, Faults, Listen};
use crate::service::Role;
use crate::store::{self, Runtime};
use crate::sys::process::{self, Pid, Signal};

/// The master answers a reload within this: two seconds for laggards, the rest for new groups.
const RELOAD: Duration = Duration::from_secs(60);
/// It ends within five seconds, but for writing files back.
const STOP: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// srv.xml, which says where the data directory is, does not say so.
    #[error("{0}\nso the data directory, and with it the server, cannot be found")]
    Faults(#[from] Faults),
    /// There is no master, or it cannot be found.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The master cannot be signalled.
    #[error("cannot signal the master (process {pid}): {source}")]
    Signal {
        /// The master.
        pid: Pid,
        /// Why not.
        source: io::Error,
    },
    /// The master's answer cannot be read.
    #[error("cannot read the master's answer: {0}")]
    Answer(io::Error),
    /// It ended meanwhile.
    #[error("the master (process {pid}) has ended")]
    Ended {
        /// The master.
        pid: Pid,
    },
    /// It does not answer.
    #[error("the master (process {pid}) has not answered for {} s", waited.as_secs())]
    Silent {
        /// The master.
        pid: Pid,
        /// For so long.
        waited: Duration,
    },
    /// The store's status cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The configuration in force cannot be read.
    #[error("{}", super::start::with_sources(.0))]
    Active(#[from] ActiveError),
}

/// Has the master read its configuration anew.
///
/// # Errors
/// There is no answer; a configuration that is refused is none.
pub fn reload(conf_dir: &Path) -> Result<Reloaded, CommandError> {
    let data_dir = Conf::data_dir(conf_dir)?;
    let pid = lock::holder(&data_dir)?;
    let asked_ns = process::monotonic_ns();
    signal(pid, Signal::SIGHUP)?;
    wait(&data_dir, pid, RELOAD, || {
        let outcome = Outcome::read(&data_dir).map_err(CommandError::Answer)?;
        let own =
            |outcome: &Outcome| outcome.master == pid.as_raw() && outcome.begun_ns >= asked_ns;
        Ok(outcome.filter(own).map(|outcome| outcome.result))
    })
}

/// Has the master stop, and waits until it has; its process id.
///
/// # Errors
/// There is no master, or it does not stop.
pub fn stop(conf_dir: &Path) -> Result<Pid, CommandError> {
    let data_dir = Conf::data_dir(conf_dir)?;
    let pid = lock::holder(&data_dir)?;
    signal(pid, Signal::SIGTERM)?;
    match wait(&data_dir, pid, STOP, || Ok(None)) {
        Err(CommandError::Ended { .. }) => Ok(pid),
        Err(error) => Err(error),
        Ok(pid) => Ok(pid),
    }
}

/// What a running server is like, in lines.
///
/// # Errors
/// There is no server, or its files cannot be read.
pub fn status(conf_dir: &Path) -> Result<String, CommandError> {
    let data_dir = Conf::data_dir(conf_dir)?;
    let pid = lock::holder(&data_dir)?;
    let runtime = Runtime::open_for_reading(&data_dir)?;
    let generation = runtime.generation();
    // Its addresses may differ from what the files say by now.
    let conf = active::read(&data_dir, generation)?;
    let mut text = format!("master       process {pid}\ngeneration   {generation}\n");
    for listen in &conf.srv.listen {
        text += &match listen {
            Listen::Tcp(address) => format!("listens on   {address}\n"),
            Listen::Unix(path) => format!("listens on   unix:{}\n", path.display()),
        };
    }
    for slot in runtime.slots() {
        let role = match slot.role {
            role if role == Role::Worker as u32 => "worker",
            role if role == Role::Keeper as u32 => "keeper",
            _ => "program",
        };
        let behind = if slot.generation < generation { ", behind" } else { "" };
        let dead = if slot.alive { "" } else { ", dead" };
        let (pid, acknowledged) = (slot.pid, slot.generation);
        text += &format!("{role:<12} process {pid}, generation {acknowledged}{behind}{dead}\n");
    }
    Ok(text)
}

fn signal(pid: Pid, signal: Signal) -> Result<(), CommandError> {
    process::signal(pid, signal).map_err(|source| CommandError::Signal { pid, source })
}

/// Looks for an answer until there is one, the master has ended, or time is up.
fn wait<T>(
    data_dir: &Path,
    pid: Pid,
    bound: Duration,
    mut look: impl FnMut() -> Result<Option<T>, CommandError>,
) -> Result<T, CommandError> {
    let begun: Instant = clock::instant();
    loop {
        // Asked before the look: an answer that it left is seen even if it ends right after.
        let holder = lock::holder(data_dir);
        if let Some(answer) = look()? {
            return Ok(answer);
        }
        match holder {
            Ok(holder) if holder == pid => {}
            Ok(_) | Err(LockError::Free { .. }) => return Err(CommandError::Ended { pid }),
            // Emptied as its last step: about to end.
            Err(LockError::Io { .. } | LockError::Held { .. }) => {}
        }
        let waited = begun.elapsed();
        if waited > bound {
            return Err(CommandError::Silent { pid, waited });
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
