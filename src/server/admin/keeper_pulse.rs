//! The pulse shows the keeper's activity to the admin plane.
//!
//! Invariant: the pulse is one word that the keeper writes and the plane reads. Neither waits for
//! the other.

use std::sync::atomic::{AtomicU64, Ordering};

use frs_base::clock;

/// The keeper's activity, for health checks.
#[derive(Debug, Default)]
pub struct Pulse {
    /// The start of the current flush on the monotonic clock. 0 if no flush is in progress.
    flushing_since_ns: AtomicU64,
}

impl Pulse {
    /// Notes that a flush begins or has ended.
    pub fn set_flushing(&self, flushing: bool) {
        let since_ns = if flushing { clock::monotonic_ns() } else { 0 };
        self.flushing_since_ns.store(since_ns, Ordering::Relaxed);
    }

    /// How long the current flush has lasted. `None` if there is none.
    pub fn flushing_ms(&self) -> Option<u64> {
        match self.flushing_since_ns.load(Ordering::Relaxed) {
            0 => None,
            since_ns => Some(clock::monotonic_ns().saturating_sub(since_ns) / 1_000_000),
        }
    }
}
