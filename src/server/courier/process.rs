//! The courier as a child of the master.
//!
//! Invariant: the courier attaches to the store itself, after the fork. It ends when the master
//! asks it to, or is gone. An error ends the process, and the master replaces it.

use super::run::{self, CourierArgs, CourierError};
use crate::process::child::ChildContext;

/// Serves until asked to end.
///
/// # Errors
/// The master replaces this courier with another.
pub fn run(mut child: ChildContext) -> Result<(), CourierError> {
    let (bells, secrets) = (child.bells.take(), child.secrets.take());
    let (bells, secrets) = bells.zip(secrets).ok_or(CourierError::NoCluster)?;
    run::run(CourierArgs { child, bells, secrets: *secrets })
}
