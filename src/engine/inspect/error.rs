//! Why a data directory, or a key in it, cannot be read.

use std::path::PathBuf;

use frs_base::causes::with_causes;
use frs_conf::OverlayError;
use frs_conf::active::ActiveError;
use frs_conf::key::BadKey;
use frs_store as store;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory holds no configuration, so its files have no known meaning.
    #[error(
        "{}: no server has published a configuration here: expected the data directory of a server",
        data_dir.display()
    )]
    NoConfiguration {
        /// The data directory.
        data_dir: PathBuf,
    },
    /// The published configuration cannot be read.
    #[error("{}", with_causes(.0))]
    Active(#[from] ActiveError),
    /// The overlay cannot be read. It determines which nodes count.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// A file of the store is not what it must be.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// map.xml names no such business.
    #[error("no business has the id or name {0:?}: map.xml names {1}")]
    UnknownBiz(String, String),
    /// The text is not a key of the business.
    #[error("{0:?} is no key of the business: {1}")]
    BadKey(String, BadKey),
    /// The progress callback broke the migration off.
    #[error("stopped before its end: another run continues it")]
    BrokenOff,
    /// runtime.mmap cannot be read.
    #[error("runtime.mmap cannot be read: {0}")]
    Runtime(String),
    /// The group of the business cannot be read.
    #[error("group {group}: {message}")]
    Group {
        /// The group.
        group: String,
        /// The reason.
        message: String,
    },
}
