//! Reasons why a server does not start or go on, and why a reload is refused.

use frs_base::causes::with_causes;
use std::io;
use std::path::PathBuf;

use super::conf_trust::Untrusted;
use super::preparing_child::PrepareError;
use super::reload_rules::RestartNeed;
use crate::net::listeners::ListenError;
use crate::process::control::Cause;
use crate::process::data_lock::LockError;
use crate::process::live_lock::LiveLockError;
use crate::tls::identity::TlsError;
use frs_conf::active::ActiveError;
use frs_conf::{EpochError, Faults, OverlayError, SecretError, TokenError};
use frs_store::{self as store, Unserved};

/// Why the master cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum MasterError {
    /// The configuration has faults.
    #[error("{0}")]
    Faults(#[from] Faults),
    /// A change in the older binary's admin plane does not end.
    #[error("a change of the configuration does not end: {0}")]
    Change(io::Error),
    /// The reason may be a change of map.xml that the admin plane did not finish.
    #[error(
        "{source}\nmap.xml: it may hold a change that was interrupted: \"old\" in {} is the text \
         before it",
        path.display()
    )]
    AfterEdit {
        /// The original error.
        source: Box<MasterError>,
        /// The file of the change.
        path: PathBuf,
    },
    /// This machine cannot run the configuration; one line for each reason.
    #[error("{}", .0.join("\n"))]
    Machine(Vec<String>),
    /// Another master holds the data directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The live files belong to another data directory.
    #[error(transparent)]
    LiveLock(#[from] LiveLockError),
    /// The server cannot listen on an address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A file that all processes need was damaged while the server ran.
    #[error("{0}: the server could not start processes any more, and has ended: start it again")]
    Damaged(store::Error),
    /// The server ends in order, but its files cannot be written to the disk.
    #[error(
        "not all that was counted could be written to the disk (group {}), and it is not marked \
         clean: after a loss of power, what was used since the last complete flush may be missing",
        .0.join(", group ")
    )]
    NotOnDisk(Vec<String>),
    /// The store cannot be prepared.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// Groups cannot be served: none at all, or some although all were required.
    #[error("{}", unserved_lines(.0))]
    Unserved(Vec<Unserved>),
    /// The configuration cannot be published.
    #[error("{}", with_causes(.0))]
    Active(#[from] ActiveError),
    /// The overlay with earlier switches and resets cannot be read or written.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// Root would read a configuration that another user may write.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// A data directory cannot be made, or is not to be trusted.
    #[error("{}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The server cannot switch to the user.
    #[error("<user>{user}</user>: {source}")]
    User {
        /// The user.
        user: String,
        /// The reason.
        source: io::Error,
    },
    /// The log's file cannot be opened.
    #[error("<log file>: {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The descriptors or variables left to this process are unusable.
    #[error("what this process was started with: {0}")]
    Inherited(io::Error),
    /// A file of the cluster's secrets cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The user of the server's processes cannot read the token of a `<resp>`.
    #[error("<resp>: {0}: the server's user must be able to read it")]
    Token(#[from] TokenError),
    /// The tokens, or the certificates, cannot be kept for the server's processes.
    #[error("cannot keep the tokens of <resp> and the files of <tls> for the processes: {0}")]
    Boards(io::Error),
    /// The files of a `<tls>` cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The doorbells of the mailboxes cannot be made.
    #[error("cannot make the doorbells of the cluster's courier: {0}")]
    Bells(io::Error),
    /// The configuration cannot replace the older binary's while that one serves.
    #[error("{}", lines(.0))]
    Changes(Vec<RestartNeed>),
    /// There are too few free slots beside the older binary's processes.
    #[error(
        "{used} of {most} slots are in use, {needed} are needed beside them: wait until older \
         processes have ended, or restart"
    )]
    Slots {
        /// Slots in use.
        used: usize,
        /// Slots needed in addition.
        needed: usize,
        /// The total number of slots.
        most: usize,
    },
    /// The older master does not let go.
    #[error("cannot take over from the older master: {0}")]
    TakeOver(io::Error),
    /// A call to the kernel failed that the master needs.
    #[error("the master's loop failed: {0}")]
    Loop(#[from] io::Error),
}

/// Why a new configuration is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReloadError {
    #[error("{0}")]
    Faults(#[from] Faults),
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    #[error("{}", lines(.0))]
    Changes(Vec<RestartNeed>),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    #[error("{}", unserved_lines(.0))]
    Unserved(Vec<Unserved>),
    #[error("{}", with_causes(.0))]
    Active(#[from] ActiveError),
    #[error("{0}")]
    Overlay(#[from] OverlayError),
    #[error(transparent)]
    Epoch(#[from] EpochError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("<resp>: {0}: the server's user must be able to read it")]
    Token(#[from] TokenError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{}", .0.join("\n"))]
    OutOfDate(Vec<String>),
    #[error("a new binary is taking over: try again when it has")]
    TakingOver,
    #[error("the reload failed: {0}")]
    Io(#[from] io::Error),
    #[error("the server is about to stop")]
    Ending,
}

impl ReloadError {
    /// The cause of the refusal, by its remedy.
    pub fn cause(&self) -> Cause {
        match self {
            ReloadError::Prepare(PrepareError::Refused(refused)) => refused.cause,
            ReloadError::Changes(changes) if changes.iter().all(RestartNeed::is_of_a_move) => {
                Cause::Moving
            }
            ReloadError::TakingOver | ReloadError::Ending => Cause::NotNow,
            error if lacks_room(error) => Cause::NoRoom,
            _ => Cause::Fault,
        }
    }
}

/// Whether the disk is full, or the user's quota is used up.
fn lacks_room(error: &ReloadError) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    let first = error as &dyn std::error::Error;
    let mut all = std::iter::successors(Some(first), |error| error.source());
    all.any(|error| {
        let error = error.downcast_ref::<io::Error>();
        error.is_some_and(|error| matches!(error.kind(), StorageFull | QuotaExceeded))
    })
}

fn lines(changes: &[RestartNeed]) -> String {
    changes.iter().map(RestartNeed::to_string).collect::<Vec<_>>().join("\n")
}

/// One line for each group that cannot be served.
pub(super) fn unserved_lines(unserved: &[Unserved]) -> String {
    let line = |Unserved { group, reason }: &Unserved| {
        // Most reasons concern a file, some concern the group.
        let start = format!("group {group}");
        if reason.starts_with(&start) { reason.clone() } else { format!("{start}: {reason}") }
    };
    unserved.iter().map(line).collect::<Vec<_>>().join("\n")
}
