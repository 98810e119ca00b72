//! Why a server does not start or go on, and why a reload is refused.

use std::io;
use std::path::PathBuf;

use super::needs_restart::RestartNeed;
use super::preparing_child::PrepareError;
use crate::net::listeners::ListenError;
use crate::process::lock::LockError;
use frs::conf::active::ActiveError;
use frs::conf::{Faults, OverlayError};
use frs::store::{self, Unserved};

/// Why the master cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum MasterError {
    /// The configuration is faulty.
    #[error("{0}")]
    Faults(#[from] Faults),
    /// The admin plane of the older binary does not come to an end with a change.
    #[error("a change of the configuration does not end: {0}")]
    Change(io::Error),
    /// This machine cannot do what the configuration asks; one line each.
    #[error("{}", .0.join("\n"))]
    Machine(Vec<String>),
    /// The data directory is another master's.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The store is not to be had.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// What all its processes need was damaged while it served.
    #[error("{0}: the server could not start processes any more, and has ended: start it again")]
    Damaged(store::Error),
    /// It cannot be prepared.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// Groups cannot be served: none at all, or it was asked to start with all of them only.
    #[error("{}", unserved_lines(.0))]
    Unserved(Vec<Unserved>),
    /// The configuration cannot be published.
    #[error("{}", with_sources(.0))]
    Active(#[from] ActiveError),
    /// What was switched and reset before is not known.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// The directory of the data cannot be made.
    #[error("{}: {source}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The user cannot be dropped to.
    #[error("<user>{user}</user>: {source}")]
    User {
        /// Who.
        user: String,
        /// Why.
        source: io::Error,
    },
    /// The log's file cannot be opened.
    #[error("<log file>: {}: {source}", path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What an earlier master wrote down for its commands cannot be removed; the file is named.
    #[error("{0}")]
    Outcome(io::Error),
    /// What whoever started this process left it is not to be had.
    #[error("what this process was started with: {0}")]
    Inherited(io::Error),
    /// The configuration cannot take the place of the older binary's while that one serves.
    #[error("{}", lines(.0))]
    Changes(Vec<RestartNeed>),
    /// Beside the older binary's processes there is no room.
    #[error(
        "{used} of {most} slots are in use, {needed} are needed beside them: wait until older \
         processes have ended, or restart"
    )]
    Slots {
        /// In use.
        used: usize,
        /// Needed beside them.
        needed: usize,
        /// All there are.
        most: usize,
    },
    /// The older master does not let go.
    #[error("cannot take over from the older master: {0}")]
    TakeOver(io::Error),
    /// A call to the kernel failed that the master cannot do without.
    #[error("the master's loop failed: {0}")]
    Loop(#[from] io::Error),
}

/// Why a new configuration is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReloadError {
    #[error("{0}")]
    Faults(#[from] Faults),
    #[error("{}", lines(.0))]
    Changes(Vec<RestartNeed>),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    #[error("{}", unserved_lines(.0))]
    Unserved(Vec<Unserved>),
    #[error("{}", with_sources(.0))]
    Active(#[from] ActiveError),
    #[error("{0}")]
    Overlay(#[from] OverlayError),
    #[error("a new binary is taking over: try again when it has")]
    TakingOver,
    #[error("the reload failed: {0}")]
    Io(#[from] io::Error),
    #[error("the server is about to stop")]
    Ending,
}

fn lines(changes: &[RestartNeed]) -> String {
    changes.iter().map(RestartNeed::to_string).collect::<Vec<_>>().join("\n")
}

/// An error and its sources on one line.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

/// One line for each group that cannot be served.
pub(super) fn unserved_lines(unserved: &[Unserved]) -> String {
    let line = |Unserved { group, reason }: &Unserved| {
        // Most reasons are about a file, some about the group.
        let start = format!("group {group}");
        if reason.starts_with(&start) { reason.clone() } else { format!("{start}: {reason}") }
    };
    unserved.iter().map(line).collect::<Vec<_>>().join("\n")
}
