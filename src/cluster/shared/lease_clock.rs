//! The time and the incarnation of the host, by which leases are judged.
//!
//! Invariant: one thread sets them and reads them. No wall clock takes part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use frs_limit::BootClock;

use crate::lease::Incarnation;

/// Stands for the incarnation while it is not known whether the host's directory is the newest of
/// its copies. No lease may be spent then.
pub(super) const UNPROVEN: Incarnation = Incarnation::MAX;

/// The time and the incarnation of the host, for all leased limits of a table.
#[derive(Debug, Default)]
pub struct LeaseClock {
    /// The clock of the boot.
    pub boot: Arc<BootClock>,
    incarnation: AtomicU64,
    /// The incarnation of the host, even while its leases are unproven.
    own: AtomicU64,
    /// The incarnation of the host that serves the files. 0: not known.
    host: AtomicU64,
    has_news: AtomicBool,
}

impl LeaseClock {
    /// Sets the incarnation whose leases count, and whether they are unproven. 0: any incarnation,
    /// for tools.
    pub fn set_incarnation(&self, own: Incarnation, is_unproven: bool) {
        let incarnation = if is_unproven { UNPROVEN } else { own };
        // Relaxed: one thread sets it and reads it.
        self.incarnation.store(incarnation, Ordering::Relaxed);
        self.own.store(own, Ordering::Relaxed);
    }

    /// Sets the incarnation of the host that serves the files, for tools.
    pub fn set_host(&self, host: Incarnation) {
        self.host.store(host, Ordering::Relaxed);
    }

    /// The incarnation of the host that serves the files.
    pub(super) fn host(&self) -> Incarnation {
        self.host.load(Ordering::Relaxed)
    }

    /// Milliseconds of CLOCK_BOOTTIME.
    #[inline]
    pub fn boot_ms(&self) -> u64 {
        self.boot.boot_ms()
    }

    /// The incarnation whose leases may be spent.
    #[inline]
    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation.load(Ordering::Relaxed)
    }

    /// The incarnation whose leases are not void.
    #[inline]
    pub(super) fn own(&self) -> Incarnation {
        self.own.load(Ordering::Relaxed)
    }

    /// Whether an item since the last `take_news` must be reported to the ledger at once. Such an
    /// item has used something without a lease that no message in flight will report, or has
    /// returned uses that other hosts may wait for.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Relaxed)
    }

    /// The same, and resets it to false.
    pub fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::Relaxed)
    }

    /// Records such an item.
    #[inline]
    pub(super) fn note_news(&self) {
        // Relaxed, as for the time.
        self.has_news.store(true, Ordering::Relaxed);
    }
}
