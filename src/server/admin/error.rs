//! The error of a failed start of the admin plane.

use std::io;

/// The reason why the admin plane does not start.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The admin plane cannot attach to the store.
    #[error("cannot attach to the store: {0}")]
    Attach(#[from] frs_store::Error),
    /// A system call that the admin plane needs failed.
    #[error("cannot start the admin plane: {0}")]
    Start(#[from] io::Error),
}
