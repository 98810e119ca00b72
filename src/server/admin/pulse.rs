//! The pulse shows the admin plane what the keeper is doing.
//!
//! Invariant: it is one word, which the keeper writes and the plane reads. Neither waits for the
//! other.

use std::sync::atomic::{AtomicU64, Ordering};

use frs_base::clock;

/// The keeper's activity, for health checks.
#[derive(Debug, Default)]
pub struct Pulse {
    /// When the current flush began, on the monotonic clock; 0: none is in progress.
    flushing_since_ns: AtomicU64,
}

impl Pulse {
    /// A flush begins or has ended.
    pub fn set_flushing(&self, flushing: bool) {
        let since_ns = if flushing { clock::monotonic_ns() } else { 0 };
        self.flushing_since_ns.store(since_ns, Ordering::Relaxed);
    }

    /// How long the current flush has lasted.
    pub fn flushing_ms(&self) -> Option<u64> {
        match self.flushing_since_ns.load(Ordering::Relaxed) {
            0 => None,
            since_ns => Some(clock::monotonic_ns().saturating_sub(since_ns) / 1_000_000),
        }
    }
}
