//! The spending of a lease, and uses beyond it.
//!
//! Invariant: a use is debited before it is admitted. Only a live lease of this host's incarnation
//! is spent, and only up to its allowance. Uses beyond any lease are noted until they are reported
//! to the ledger.

use super::{Incarnation, Kind};

/// A host's lease of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lease {
    /// The incarnation of the host that has bound itself. The lease of another incarnation is void.
    pub incarnation: Incarnation,
    /// The number of the last binding, from the host's one counter; 0: none.
    pub seq: u64,
    /// The window's start by the ledger's clock; 0: not known.
    pub window: u64,
    /// The host may spend up to this in the window.
    pub allowance: u64,
    /// While the window is not known: the first seq without an answer; 0: nothing was sent.
    pub unanswered_since: u64,
    /// When the lease ends; `u64::MAX`: never.
    pub end_ms: u64,
    /// When the last binding was first sent.
    pub sent_ms: u64,
    /// When the host may send a new request, or must repeat its message.
    pub again_ms: u64,
    /// A message has been sent and not been answered.
    pub in_flight: bool,
    /// The pool cannot cover the last need, and no other host has unspent uses.
    pub is_exhausted: bool,
    /// Messages since a need was last granted; 15: or more.
    pub tries: u8,
    /// The time of the last use.
    pub used_ms: u64,
    /// Uses beyond any lease since the last binding; negative: returned.
    pub extra: i64,
    /// Uses beyond any lease in the message that is in flight.
    pub sent_extra: i64,
    /// Uses that the host does not have, by the ledger's last answer: uses in the pool, and unspent
    /// uses of other hosts. If the pool is exhausted, all of them are in the pool. For a limit that
    /// refuses nothing: those of [`crate::tally::TALLY_MAX`] that no host has used.
    pub obtainable: u64,
    /// Uses reserved for parked requests.
    pub reserved: u32,
    /// When the reservation ends.
    pub reserved_until_ms: u64,
    /// When the ledger last answered.
    pub answered_ms: u64,
    /// When the ledger's window is certainly over and its uses count no more; `u64::MAX`: never.
    pub gone_ms: u64,
    /// End of the host's own window, in which it admits some uses without a lease while it is cut
    /// off or while an answer is late.
    pub alone_end_ms: u64,
    /// Uses without a lease in that window.
    pub alone_used: u64,
    /// For a sliding counter: uses in the previous window. For a sliding limit: uses that the
    /// ledger has had taken out of the host's log. The host reports them to a ledger that has lost
    /// them.
    pub noted: u64,
    /// Uses were returned while none were unspent: other hosts may have been refused meanwhile.
    pub has_returned: bool,
    /// It is not known whether the host's directory is the newest of its copies. Not stored in the
    /// words.
    pub is_unproven: bool,
}

/// A lease, and the count of its policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Holding {
    /// The lease.
    pub lease: Lease,
    /// Uses in the lease's window as the policy counts them: for a sliding limit the uses now in
    /// the log, for a token bucket the uses of all time.
    pub used: u64,
}

impl Holding {
    /// The holding of a node as this host may use it. The lease of another incarnation is void: its
    /// allowance, its seq, its marks, and its uses, which the ledger counts for that incarnation.
    /// Only uses that may be unreported stay.
    pub fn of_host(self, incarnation: Incarnation) -> Holding {
        let lease = self.lease;
        if lease.incarnation == incarnation {
            return self;
        }
        let extra = lease.extra.max(0).saturating_add(lease.sent_extra.max(0));
        Holding { lease: Lease { incarnation, extra, ..Lease::default() }, used: 0 }
    }

    /// Is there a window that the host may spend in?
    #[inline(always)]
    pub fn is_live(&self, now_ms: u64) -> bool {
        self.lease.window != 0 && now_ms < self.lease.end_ms
    }

    /// Do its uses count in a window of the ledger?
    pub fn counts(&self, now_ms: u64) -> bool {
        self.lease.window != 0 && now_ms < self.lease.gone_ms
    }

    /// Uses of the allowance that are left.
    #[inline(always)]
    pub fn unspent(&self, now_ms: u64) -> u64 {
        let may_spend = self.is_live(now_ms) && !self.lease.is_unproven;
        if may_spend { self.lease.allowance.saturating_sub(self.used) } else { 0 }
    }

    /// Unspent uses that are reserved for parked requests.
    #[inline(always)]
    pub fn reserved(&self, now_ms: u64) -> u64 {
        let is_over = now_ms >= self.lease.reserved_until_ms;
        if is_over { 0 } else { u64::from(self.lease.reserved).min(self.unspent(now_ms)) }
    }

    /// Uses that a new request may spend. A parked one may spend all that is unspent.
    #[inline(always)]
    pub fn spendable(&self, now_ms: u64) -> u64 {
        self.unspent(now_ms) - self.reserved(now_ms)
    }

    /// Reserves uses for parked requests, in place of the previous reservation.
    pub fn reserve(&mut self, count: u64, until_ms: u64) {
        self.lease.reserved = u32::try_from(count).unwrap_or(u32::MAX);
        self.lease.reserved_until_ms = until_ms;
    }

    /// Spends uses of the lease that are not reserved. Returns false and spends nothing if there
    /// are fewer.
    #[inline(always)]
    pub fn hit(&mut self, count: u64, now_ms: u64) -> bool {
        let is_there = count <= self.spendable(now_ms);
        if is_there {
            self.used += count;
            self.lease.used_ms = now_ms;
        }
        is_there
    }

    /// Spends uses of the lease.
    ///
    /// # Panics
    /// If fewer than `count` uses are unspent.
    pub fn spend(&mut self, count: u64, now_ms: u64) {
        assert!(count <= self.unspent(now_ms), "{count} uses of {self:?} at {now_ms}");
        self.used += count;
        self.lease.used_ms = now_ms;
    }

    /// Counts uses that are admitted whatever the lease says: by force, by `on-miss="admit"`, by
    /// `on-down`. They must be reported to the ledger at once ([`Holding::must_report`]).
    pub fn overspend(&mut self, kind: &Kind, count: u64, now_ms: u64) {
        let is_live = self.is_live(now_ms);
        // The log of a sliding limit counts them whether or not there is a lease.
        if is_live || matches!(kind, Kind::Sliding { .. }) {
            self.used = self.used.saturating_add(count);
        }
        if !is_live {
            // Uses returned in an ended window make no room for these uses.
            self.lease.extra = self.lease.extra.max(0).saturating_add_unsigned(count);
        }
        self.lease.used_ms = now_ms;
    }

    /// Counts uses that the host admits without a lease. If no window of its own runs, opens one
    /// until `end_ms`.
    pub fn note_alone(&mut self, count: u64, end_ms: u64, now_ms: u64) {
        let lease = &mut self.lease;
        if now_ms >= lease.alone_end_ms {
            (lease.alone_end_ms, lease.alone_used) = (end_ms, 0);
        }
        lease.alone_used = lease.alone_used.saturating_add(count);
    }

    /// Returns uses: first the host's own uses of this window, then uses of other hosts.
    pub fn return_uses(&mut self, kind: &Kind, count: u64, now_ms: u64) {
        let is_live = self.is_live(now_ms);
        let has_own = match kind {
            // Spent tokens that the ledger knows of flow back already.
            Kind::Token { .. } => false,
            // The log holds its uses even without a lease.
            Kind::Sliding { .. } => true,
            _ => is_live,
        };
        let own = if has_own { count.min(self.used) } else { 0 };
        self.lease.has_returned |= own > 0 && self.unspent(now_ms) == 0;
        self.used -= own;
        if is_live {
            self.lease.extra = self.lease.extra.saturating_sub_unsigned(count - own);
        } else {
            // The window is over: only unreported uses can be returned.
            let untold = count.min(self.lease.extra.max(0).unsigned_abs());
            self.lease.extra = self.lease.extra.max(0).saturating_sub_unsigned(untold);
            self.lease.alone_used = self.lease.alone_used.saturating_sub(untold);
        }
    }

    /// Can the host return this many uses without asking the ledger for the current window first?
    pub fn takes_back(&self, kind: &Kind, count: u64, now_ms: u64) -> bool {
        let is_logged = matches!(kind, Kind::Sliding { .. }) && count <= self.used;
        self.is_live(now_ms) || is_logged || count <= self.lease.extra.max(0).unsigned_abs()
    }

    /// Takes uses out of the log that other hosts have returned. `count` is their number since the
    /// ledger has known this host.
    pub(super) fn take_back(&mut self, count: u64) {
        let new = count.saturating_sub(self.lease.noted);
        let taken = new.min(self.used);
        self.used -= taken;
        self.lease.noted = count.max(self.lease.noted);
        self.lease.has_returned |= taken > 0;
        // The rest has left this log since: it must come out of another host's log.
        self.lease.extra = self.lease.extra.saturating_sub_unsigned(new - taken);
    }

    /// Uses returned in a window count in no other window.
    pub(super) fn forget_returned(&mut self) {
        self.lease.extra = self.lease.extra.max(0);
    }

    /// Are there unreported uses beyond the lease?
    pub fn must_report(&self, now_ms: u64) -> bool {
        self.lease.extra != 0 || self.counts(now_ms) && self.used > self.lease.allowance
    }

    /// May the node be evicted? Not while it has a lease that may count after a failover, a message
    /// in flight, or unreported uses.
    pub fn is_evictable(&self, now_ms: u64) -> bool {
        let lease = &self.lease;
        let is_over = !self.counts(now_ms);
        let is_empty = lease.allowance == 0 && self.used == 0 && lease.extra == 0;
        !lease.in_flight && lease.extra <= 0 && (is_over || is_empty)
    }
}
