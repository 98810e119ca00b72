//! Why the admin plane does not start.

use std::io;

/// Why the admin plane does not start.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The admin plane cannot attach to the store.
    #[error("cannot attach to the store: {0}")]
    Attach(#[from] frs_store::Error),
    /// A call to the kernel failed that the admin plane needs.
    #[error("cannot start the admin plane: {0}")]
    Start(#[from] io::Error),
}
