//! The bindings of a host, and the messages that carry them.
//!
//! Invariant: the node holds the binding before the message is sent. From then on the host spends
//! at most what the message says, until an answer to this seq comes.

use super::{Claim, Holding, Kind, Settings, Take};

/// The unspent uses that a host keeps when it binds itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// All: it requests more, or claims after a failover.
    All,
    /// A quarter, or the uses reserved for parked requests if these are more: another host has
    /// recalled the lease.
    Quarter,
    /// Only the uses reserved for parked requests: the host has been idle.
    Reserved,
}

/// A binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The next number of the host's counter.
    pub seq: u64,
    /// The time, CLOCK_BOOTTIME.
    pub now_ms: u64,
    /// The unspent uses that the host keeps.
    pub keep: Keep,
    /// Uses that waiting requests need beyond the unspent uses here.
    pub need: u64,
    /// The most uses that the host would take.
    pub request: u64,
}

impl Holding {
    /// Binds the host, and returns the message to send.
    ///
    /// # Panics
    /// If the number is not higher than the one before.
    pub fn bind(&mut self, settings: &Settings, binding: &Binding) -> Take {
        assert!(binding.seq > self.lease.seq, "{binding:?} after {self:?}");
        let is_token = matches!(settings.kind, Kind::Token { .. });
        if is_token && self.lease.window != 0 && !self.counts(binding.now_ms) {
            // Tokens that have flowed back are not claimed: a ledger that has forgotten the host
            // would take them out of its bucket again.
            (self.lease.window, self.lease.allowance, self.used) = (0, 0, 0);
        }
        let floor = self.floor(binding);
        if !self.counts(binding.now_ms) {
            self.forget_returned();
        }
        let lease = &mut self.lease;
        if lease.window != 0 && matches!(settings.kind, Kind::Sliding { .. }) {
            // The log holds all uses, so the floor reports them.
            (lease.extra, lease.sent_extra) = (lease.extra.min(0), 0);
        }
        // Uses beyond the allowance are claimed, but do not raise it: they leave the log in time.
        lease.allowance = lease.allowance.min(floor);
        lease.seq = binding.seq;
        if lease.window == 0 && lease.unanswered_since == 0 {
            lease.unanswered_since = binding.seq;
        }
        lease.sent_ms = binding.now_ms;
        // Uses beyond leases are counted twice rather than never; returns are counted once at most.
        lease.sent_extra = lease.sent_extra.max(0).saturating_add(lease.extra);
        lease.extra = 0;
        lease.in_flight = true;
        (lease.is_exhausted, lease.has_returned) = (false, false);
        lease.tries = lease.tries.saturating_add(1);
        lease.again_ms = binding.now_ms.saturating_add(lease.pause_ms());
        self.message(self.lease.sent_extra, binding)
    }

    /// Repeats the message in flight, with the current need.
    pub fn repeat(&mut self, now_ms: u64, need: u64, request: u64) -> Take {
        self.lease.tries = self.lease.tries.saturating_add(1);
        self.lease.again_ms = now_ms.saturating_add(self.lease.pause_ms());
        let binding = Binding { seq: self.lease.seq, now_ms, keep: Keep::All, need, request };
        // The first copy may have been counted in a window that has turned since.
        let is_known = self.counts(now_ms);
        let extra = self.lease.sent_extra;
        self.message(if is_known { extra } else { extra.max(0) }, &binding)
    }

    /// Claims the lease from a new master; `None` if there is nothing to claim. From then on an
    /// answer of the old master is void, because it is to another seq.
    pub fn claim(&mut self, settings: &Settings, seq: u64, now_ms: u64) -> Option<Take> {
        let lease = &self.lease;
        let counts = self.counts(now_ms);
        let binding = Binding { seq, now_ms, keep: Keep::All, need: 0, request: 0 };
        (counts || lease.in_flight || lease.extra != 0).then(|| self.bind(settings, &binding))
    }

    fn floor(&self, binding: &Binding) -> u64 {
        if self.lease.window == 0 {
            return 0;
        }
        let now_ms = binding.now_ms;
        let unspent = self.unspent(now_ms);
        let kept = match binding.keep {
            Keep::All => unspent,
            Keep::Quarter => (unspent / 4).max(self.reserved(now_ms)),
            Keep::Reserved => self.reserved(now_ms),
        };
        self.used.saturating_add(kept)
    }

    fn message(&self, extra: i64, binding: &Binding) -> Take {
        let Holding { lease, used } = *self;
        let (floor, spent) = match lease.window {
            0 => (lease.unanswered_since, 0),
            _ => (lease.allowance.max(used), used),
        };
        let noted = if lease.window == 0 { 0 } else { lease.noted };
        let claim = Claim { window: lease.window, floor, spent, extra, noted };
        let Binding { seq, need, request, .. } = *binding;
        Take { host: lease.incarnation, seq, claim, need, request: request.max(need) }
    }
}
