//! What the keeper is at, as its admin plane sees it.
//!
//! Invariant: one word, which the keeper writes and the plane reads: neither waits for the other.

use std::sync::atomic::{AtomicU64, Ordering};

use frs::base::clock;

/// What the keeper is at, for those who ask whether it is well.
#[derive(Debug, Default)]
pub struct Pulse {
    /// When the flush on its way was begun, on the monotonic clock; 0: none is.
    flushing_since_ns: AtomicU64,
}

impl Pulse {
    /// A flush begins, or has ended.
    pub fn set_flushing(&self, flushing: bool) {
        let since_ns = if flushing { clock::monotonic_ns() } else { 0 };
        self.flushing_since_ns.store(since_ns, Ordering::Relaxed);
    }

    /// For how long one has been going on.
    pub fn flushing_ms(&self) -> Option<u64> {
        match self.flushing_since_ns.load(Ordering::Relaxed) {
            0 => None,
            since_ns => Some(clock::monotonic_ns().saturating_sub(since_ns) / 1_000_000),
        }
    }
}
