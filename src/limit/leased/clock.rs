//! The time and the incarnation of the host, by which leases are judged.
//!
//! Invariant: one thread sets them and reads them. No wall clock takes part.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::lease::Incarnation;

/// In place of an incarnation, while it is not known whether the host's directory is the newest of
/// its copies: no lease may be spent.
pub(super) const UNPROVEN: Incarnation = Incarnation::MAX;

/// The time and the incarnation of the host, for all leased limits of a table.
#[derive(Debug, Default)]
pub struct LeaseClock {
    boot_ms: AtomicU64,
    incarnation: AtomicU64,
    /// The same, while its leases are unproven, too.
    own: AtomicU64,
    has_news: AtomicBool,
}

impl LeaseClock {
    /// Sets the time.
    #[inline]
    pub fn set_now(&self, boot_ms: u64) {
        // Relaxed: one thread sets it and reads it.
        self.boot_ms.store(boot_ms, Ordering::Relaxed);
    }

    /// Sets whose leases count, and whether they are unproven; 0: those of any, for tools.
    pub fn set_incarnation(&self, own: Incarnation, is_unproven: bool) {
        let incarnation = if is_unproven { UNPROVEN } else { own };
        self.incarnation.store(incarnation, Ordering::Relaxed);
        self.own.store(own, Ordering::Relaxed);
    }

    /// Milliseconds of CLOCK_BOOTTIME.
    #[inline]
    pub fn boot_ms(&self) -> u64 {
        self.boot_ms.load(Ordering::Relaxed)
    }

    /// Whose leases may be spent.
    #[inline]
    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation.load(Ordering::Relaxed)
    }

    /// Whose leases are not void.
    #[inline]
    pub(super) fn own(&self) -> Incarnation {
        self.own.load(Ordering::Relaxed)
    }

    /// Whether the ledger is to hear at once of an item since this was last taken: it has used
    /// something without a lease, which no message on its way will tell, or has given back what
    /// others may wait for.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Relaxed)
    }

    /// The same; from now on none has.
    pub fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::Relaxed)
    }

    /// Notes such an item.
    #[inline]
    pub(super) fn note_news(&self) {
        // Relaxed: as the time.
        self.has_news.store(true, Ordering::Relaxed);
    }
}
