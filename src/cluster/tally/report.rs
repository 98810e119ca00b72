//! Limits that refuse nothing: a host reports its uses to the ledger, and the ledger answers with
//! the uses of all hosts.
//!
//! Invariant: a host's allowance equals its uses, so the ledger's grants to all hosts equal the
//! uses of all hosts. A message is repeated unchanged, so it does not matter which copy the ledger
//! has counted.

use crate::lease::{
    Binding, Granted, Holding, Keep, Kind, Lease, Next, Received, Settings, Take, Taken,
};

/// Interval between two reports of a limit that refuses nothing.
const REPORT_MS: u64 = 1000;

/// Time after its last use when a host fetches the uses that other hosts have reported by then.
const LOOK_BACK_MS: u64 = 3 * REPORT_MS;

/// If that was not answered by then, the host waits for its next use.
const LAST_LOOK_MS: u64 = 10_000;

/// The maximum that a ledger gets for a limit that refuses nothing, except for a token bucket. For
/// all these limits a node stores how many of this many uses no host has used.
pub const TALLY_MAX: u64 = 1 << 50;

impl Holding {
    /// Is a message due, to report uses of a limit that refuses nothing or to fetch the uses of
    /// other hosts? Uses in a window that both know are in the floor. Only uses from before the
    /// host knew a window are in `extra`.
    pub fn is_tally_due(&self, now_ms: u64) -> bool {
        let Lease { used_ms, sent_ms, answered_ms, in_flight, .. } = self.lease;
        let next_ms = sent_ms.saturating_add(REPORT_MS);
        if in_flight || sent_ms > 0 && now_ms < next_ms {
            return false;
        }
        // If the answer was late, other hosts may report even later. Late fetches end too.
        let is_late = answered_ms >= next_ms && sent_ms < used_ms.saturating_add(LAST_LOOK_MS);
        let last_ms = if is_late { answered_ms } else { used_ms };
        let [from_ms, to_ms] = [LOOK_BACK_MS, LAST_LOOK_MS].map(|ms| last_ms.saturating_add(ms));
        let looks_back = answered_ms < from_ms && (from_ms..to_ms).contains(&now_ms);
        self.is_unreported(now_ms) || self.counts(now_ms) && looks_back
    }

    /// Does a limit that refuses nothing have unreported uses or returns?
    pub fn is_unreported(&self, now_ms: u64) -> bool {
        let Holding { lease, used } = *self;
        lease.extra != 0 || self.counts(now_ms) && used != lease.allowance
    }

    /// The uses of other hosts, by the last answer. `None` for tokens and for sliding counters,
    /// which do not separate them from the uses of this host.
    pub fn used_by_others(&self, kind: &Kind) -> Option<u64> {
        let of_all = TALLY_MAX.saturating_sub(self.lease.obtainable);
        let is_apart = !matches!(kind, Kind::Token { .. } | Kind::SlidingCounter { .. });
        is_apart.then(|| of_all.saturating_sub(self.lease.allowance))
    }

    /// Binds the host to its uses, and returns the message that reports them.
    pub fn report(&mut self, settings: &Settings, seq: u64, now_ms: u64) -> Take {
        self.report_all();
        let keep = Keep::Reserved;
        self.bind(settings, &Binding { seq, now_ms, keep, need: 0, request: 0 })
    }

    /// As [`Holding::claim`].
    pub fn claim_reported(&mut self, settings: &Settings, seq: u64, now_ms: u64) -> Option<Take> {
        self.report_all();
        self.claim(settings, seq, now_ms)
    }

    /// Repeats the message in flight, unchanged.
    pub fn repeat_report(&mut self, now_ms: u64) -> Take {
        let mut take = self.repeat(now_ms, 0, 0);
        if take.claim.window != 0 {
            (take.claim.floor, take.claim.spent) = (self.lease.allowance, self.lease.allowance);
        }
        take
    }

    /// As [`Holding::apply`]. Uses and returns since the message still count, even if the ledger
    /// names a window that overlaps the window of the message.
    pub fn apply_sum(&mut self, received: &Received) -> Next {
        let Holding { lease: Lease { window, allowance, sent_extra, .. }, used } = *self;
        let next = self.apply(received);
        if let Taken::Granted(Granted { pool, .. }) = received.taken
            && next != Next::Ignored
        {
            // The pool of an overdrawn bucket is below 0.
            let of_all = i128::from(received.settings.max) - i128::from(pool);
            let of_all = u64::try_from(of_all.max(0)).unwrap_or(TALLY_MAX);
            self.lease.obtainable = TALLY_MAX.saturating_sub(of_all);
        }
        let reported = sent_extra.max(0) as u64;
        if let Taken::Granted(Granted { base: Some(base), .. }) = received.taken
            && next != Next::Ignored
            && window != 0
            && base == allowance.saturating_add(reported)
        {
            self.used = used.saturating_add(reported);
        }
        next
    }

    /// Sets the allowance to the uses. The known uses of all hosts stay the same.
    fn report_all(&mut self) {
        let Holding { lease, used } = self;
        if lease.window != 0 {
            let all = lease.obtainable.saturating_add(lease.allowance);
            (lease.obtainable, lease.allowance) = (all.saturating_sub(*used), *used);
        }
    }
}
