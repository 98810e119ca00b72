//! A worker from its attachment to its end.
//!
//! Invariant: the worker attaches to the store itself, after the fork. An error ends the process,
//! and the master replaces it.

use std::io;

use super::tick::Worker;
use crate::process::child::ChildContext;
use frs_engine::Role;

/// The reason why a worker cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The worker cannot attach to the store.
    #[error("cannot attach to the store: {0}")]
    Attach(#[from] frs_store::Error),
    /// A system call that the event loop depends on failed.
    #[error("the event loop failed: {0}")]
    Loop(#[from] io::Error),
}

/// Serves until the worker is asked to end.
///
/// # Errors
/// The worker cannot go on, and the master replaces it.
pub fn run(child: ChildContext) -> Result<(), WorkerError> {
    let service = frs_cluster::attach(&child.inherited.data_dir, Role::Worker)?;
    let needed = u64::from(service.conf().srv.http.max_connections) + 64;
    if child.files_max < needed {
        let limit = child.files_max;
        tracing::warn!(limit, needed, "the limit of open files is too low for max-connections");
    }
    Worker::new(child, service)?.run()?;
    Ok(())
}
