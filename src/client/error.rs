//! Errors of calls that give no answer.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use frs_base::causes::with_causes;
use frs_engine::ItemError;
use frs_store as store;

/// Why a call gave no answer. Nothing was charged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The item could not be judged.
    #[error("the item was not judged: {0}")]
    Item(#[from] ItemError),
    /// This process has no attachment and cannot get one now. A later call tries again.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The batch has more items than `max-items` or, if it is atomic, `max-atomic-items` of
    /// srv.xml.
    #[error("a batch of {items} items: srv.xml allows {most}")]
    TooMany {
        /// Items in the batch.
        items: usize,
        /// Items allowed.
        most: usize,
    },
    /// A limit that several machines share lacks a lease, and the call may not wait for it. The
    /// lease is asked for, and a later call finds it.
    #[error("the lease of a shared limit has yet to come, and this call does not wait")]
    WouldWait,
}

/// An error of the layers below.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// An error of the store with its causes as one text. It has no source, so a program that shows the
/// sources of an error repeats nothing.
#[derive(Debug, thiserror::Error)]
#[error("{}", with_causes(.0))]
struct Told(store::Error);

/// Why a program could not attach.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No server has prepared the directory, or the server has ended.
    #[error(
        "no server runs on the data directory {}: start one, or name the directory of the one that \
         runs",
        data_dir.display()
    )]
    NoServer {
        /// The data directory.
        data_dir: PathBuf,
        /// The cause.
        source: Source,
    },
    /// The user of this process has no permission to read and write the files.
    #[error(
        "the data directory {} belongs to another user: run this program as the server's user, or \
         in the group that <data mode group> of srv.xml lets in",
        data_dir.display()
    )]
    Denied {
        /// The data directory.
        data_dir: PathBuf,
        /// The error of the denied access.
        source: Source,
    },
    /// All places for programs are in use.
    #[error(
        "all {most} places for programs are taken in the data directory {}: end one, or raise \
         max-programs of <data> in srv.xml",
        data_dir.display()
    )]
    Full {
        /// The data directory.
        data_dir: PathBuf,
        /// The number of places.
        most: u32,
    },
    /// The files are not those that this version needs, or the process lacks descriptors or memory.
    #[error("cannot attach to the data directory {}", data_dir.display())]
    Failed {
        /// The data directory.
        data_dir: PathBuf,
        /// The error of the failed step.
        source: Source,
    },
    /// There are too many forks between the process that made the client and this one. A new client
    /// works.
    #[error("a client works in {most} generations of forked children: attach a new one")]
    Forked {
        /// Generations of forked children that a client works in.
        most: usize,
    },
}

impl AttachError {
    pub(super) fn of(data_dir: &Path, error: store::Error) -> AttachError {
        let kind = match &error {
            store::Error::Io { source, .. } => Some(source.kind()),
            _ => None,
        };
        let (data_dir, none) = (data_dir.to_path_buf(), kind == Some(ErrorKind::NotFound));
        match error {
            store::Error::Programs { most, .. } => AttachError::Full { data_dir, most },
            error if none || matches!(error, store::Error::Unpublished { .. }) => {
                AttachError::NoServer { data_dir, source: Told(error).into() }
            }
            error if kind == Some(ErrorKind::PermissionDenied) => {
                AttachError::Denied { data_dir, source: Told(error).into() }
            }
            error => AttachError::Failed { data_dir, source: Told(error).into() },
        }
    }
}
