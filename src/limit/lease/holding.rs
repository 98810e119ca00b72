//! What may be spent of a lease, and what is spent beyond it.
//!
//! Invariant: a use is debited before it is admitted. Only a live lease of this host's incarnation
//! is spent, and only up to its allowance; what is used beyond any lease is noted until the ledger
//! has heard of it.

use super::{Incarnation, Kind};

/// What a host knows of its lease of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lease {
    /// The host that has bound itself; another one's lease is void.
    pub incarnation: Incarnation,
    /// The number of the last binding, of the one counter of the host; 0: none.
    pub seq: u64,
    /// The window's start by the ledger's clock; 0: not known.
    pub window: u64,
    /// The host may spend up to this in the window.
    pub allowance: u64,
    /// While the window is not known: the first seq since which no answer was heard; 0: none was
    /// sent.
    pub unheard_since: u64,
    /// When the lease ends; `u64::MAX`: never.
    pub end_ms: u64,
    /// When the last binding was first sent.
    pub sent_ms: u64,
    /// When the host may ask again, or must repeat its message.
    pub again_ms: u64,
    /// A message has been sent and not been answered.
    pub in_flight: bool,
    /// The pool is empty and nobody else holds a use.
    pub is_exhausted: bool,
    /// Messages since a need was last granted; 15: or more.
    pub tries: u8,
    /// When the last use was.
    pub used_ms: u64,
    /// Uses beyond any lease since the last binding; negative: given back.
    pub extra: i64,
    /// Uses beyond any lease in the message that is in flight.
    pub sent_extra: i64,
    /// Uses that the host does not have, as the ledger last said: those in the pool, and unspent
    /// ones of other hosts. Of an exhausted pool these are all in it. Where nothing is refused:
    /// those of [`super::TOLD_MAX`] that no host has used.
    pub elsewhere: u64,
    /// Uses that are for parked requests.
    pub held: u32,
    /// Until when they are.
    pub held_until_ms: u64,
    /// When the ledger last answered.
    pub heard_ms: u64,
    /// When the ledger's window is over for certain, and the uses in it count no more;
    /// `u64::MAX`: never.
    pub gone_ms: u64,
    /// When the window ends in which the host allows itself some uses without a lease: while it is
    /// cut off, or where an answer is late.
    pub alone_end_ms: u64,
    /// These uses.
    pub alone_used: u64,
    /// Of a sliding counter: uses in the window before. Of a sliding limit: uses that the ledger
    /// has had taken out of its log. A ledger that has lost it is told.
    pub noted: u64,
    /// Uses were given back where none were unspent: other hosts may have been refused for it.
    pub has_given_back: bool,
    /// It is not known whether the host's directory is the newest of its copies. In no word.
    pub is_unproven: bool,
}

/// A lease, and what the policy in front of it has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Holding {
    /// The lease.
    pub lease: Lease,
    /// Uses in the lease's window as the policy counts them: of a sliding limit those that are in
    /// the log now, of a token bucket those of all time.
    pub used: u64,
}

impl Holding {
    /// What a node holds for this host. The lease of another incarnation is void: its allowance,
    /// its seq and its marks, and what it has used, which the ledger counts for that one. Only what
    /// the ledger may not have heard of stays.
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

    /// Uses that are for parked requests.
    #[inline(always)]
    pub fn held(&self, now_ms: u64) -> u64 {
        let is_over = now_ms >= self.lease.held_until_ms;
        if is_over { 0 } else { u64::from(self.lease.held).min(self.unspent(now_ms)) }
    }

    /// Uses that a new request may spend. A parked one may spend all that is unspent.
    #[inline(always)]
    pub fn spendable(&self, now_ms: u64) -> u64 {
        self.unspent(now_ms) - self.held(now_ms)
    }

    /// Holds uses for parked requests, in place of those held before.
    pub fn hold(&mut self, count: u64, until_ms: u64) {
        self.lease.held = u32::try_from(count).unwrap_or(u32::MAX);
        self.lease.held_until_ms = until_ms;
    }

    /// Spends uses of the lease that nobody else waits for. False: there are fewer.
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
    /// If so many are not unspent.
    pub fn spend(&mut self, count: u64, now_ms: u64) {
        assert!(count <= self.unspent(now_ms), "{count} uses of {self:?} at {now_ms}");
        self.used += count;
        self.lease.used_ms = now_ms;
    }

    /// Counts uses that are admitted whatever the lease says: by force, by `on-miss="admit"`, by
    /// `on-down`. The ledger is to hear of them at once ([`Holding::must_report`]).
    pub fn overspend(&mut self, kind: &Kind, count: u64, now_ms: u64) {
        let is_live = self.is_live(now_ms);
        // The log of a sliding limit counts them whether or not there is a lease.
        if is_live || matches!(kind, Kind::Sliding { .. }) {
            self.used = self.used.saturating_add(count);
        }
        if !is_live {
            // What was given back in a window that is over makes no room for it.
            self.lease.extra = self.lease.extra.max(0).saturating_add_unsigned(count);
        }
        self.lease.used_ms = now_ms;
    }

    /// Counts uses that the host allows itself without a lease, in a window that ends then if none
    /// runs.
    pub fn note_alone(&mut self, count: u64, end_ms: u64, now_ms: u64) {
        let lease = &mut self.lease;
        if now_ms >= lease.alone_end_ms {
            (lease.alone_end_ms, lease.alone_used) = (end_ms, 0);
        }
        lease.alone_used = lease.alone_used.saturating_add(count);
    }

    /// Gives uses back: own ones of this window first, then those of other hosts.
    pub fn give_back(&mut self, kind: &Kind, count: u64, now_ms: u64) {
        let is_live = self.is_live(now_ms);
        let has_own = match kind {
            // Tokens that the ledger knows to be spent flow back already.
            Kind::Token { .. } => false,
            // The log holds them without a lease, too.
            Kind::Sliding { .. } => true,
            _ => is_live,
        };
        let own = if has_own { count.min(self.used) } else { 0 };
        self.lease.has_given_back |= own > 0 && self.unspent(now_ms) == 0;
        self.used -= own;
        if is_live {
            self.lease.extra = self.lease.extra.saturating_sub_unsigned(count - own);
        } else {
            // The window is over: only uses that the ledger has not heard of can be given back.
            let untold = count.min(self.lease.extra.max(0).unsigned_abs());
            self.lease.extra = self.lease.extra.max(0).saturating_sub_unsigned(untold);
            self.lease.alone_used = self.lease.alone_used.saturating_sub(untold);
        }
    }

    /// Can the host give back so many uses without asking the ledger first which window it is?
    pub fn takes_back(&self, kind: &Kind, count: u64, now_ms: u64) -> bool {
        let is_logged = matches!(kind, Kind::Sliding { .. }) && count <= self.used;
        self.is_live(now_ms) || is_logged || count <= self.lease.extra.max(0).unsigned_abs()
    }

    /// Takes uses out of the log that other hosts have given back: `count` since the ledger has
    /// known this one.
    pub(super) fn take_back(&mut self, count: u64) {
        let new = count.saturating_sub(self.lease.noted);
        let taken = new.min(self.used);
        self.used -= taken;
        self.lease.noted = count.max(self.lease.noted);
        self.lease.has_given_back |= taken > 0;
        // Uses that have left the log since are another host's.
        self.lease.extra = self.lease.extra.saturating_sub_unsigned(new - taken);
    }

    /// What was given back in a window counts in no other.
    pub(super) fn forget_given_back(&mut self) {
        self.lease.extra = self.lease.extra.max(0);
    }

    /// Has the ledger yet to hear of uses beyond the lease?
    pub fn must_report(&self, now_ms: u64) -> bool {
        self.lease.extra != 0 || self.counts(now_ms) && self.used > self.lease.allowance
    }

    /// May the node be forgotten? Not while it has a lease that may count after a failover, a
    /// message in flight, or uses that the ledger has not heard of.
    pub fn is_evictable(&self, now_ms: u64) -> bool {
        let lease = &self.lease;
        let is_over = !self.counts(now_ms);
        let is_empty = lease.allowance == 0 && self.used == 0 && lease.extra == 0;
        !lease.in_flight && lease.extra <= 0 && (is_over || is_empty)
    }
}
