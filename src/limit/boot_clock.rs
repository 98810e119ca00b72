//! The time by which shared limits count: no wall clock takes part.
//!
//! Invariant: one thread sets it and reads it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The time of all shared limits of a table, in milliseconds of CLOCK_BOOTTIME.
#[derive(Debug, Default)]
pub struct BootClock(AtomicU64);

impl BootClock {
    /// Sets the time.
    #[inline]
    pub fn set_now(&self, boot_ms: u64) {
        // Relaxed: one thread sets it and reads it.
        self.0.store(boot_ms, Ordering::Relaxed);
    }

    /// Milliseconds of CLOCK_BOOTTIME.
    #[inline]
    pub fn boot_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
