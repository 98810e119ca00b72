//! Limits that refuse nothing: the ledger is told of the uses of a host, and tells those of all.
//!
//! Invariant: a host holds what it has used and nothing more, so what the ledger has granted to all
//! hosts is what all of them have used. A message is repeated as it was, so it does not matter
//! which one the ledger has counted.

use super::{Binding, Granted, Heard, Holding, Keep, Kind, Lease, Next, Settings, Take, Taken};

/// Between two messages that tell of the uses of a limit that refuses nothing.
const TELL_MS: u64 = 1000;

/// So long after its last use a host looks at what the others have told by then.
const LOOK_BACK_MS: u64 = 3 * TELL_MS;

/// One that was not answered by then waits for the next use.
const LAST_LOOK_MS: u64 = 10_000;

/// What a ledger is told as the maximum of a limit that refuses nothing, but for a token bucket.
/// Of all of them the node keeps how much of so many uses no host has used.
pub const TOLD_MAX: u64 = 1 << 50;

impl Holding {
    /// Is the ledger of a limit that refuses nothing to hear what was used, or the host to hear
    /// what others have used? What was used in a window that both know is in the floor, and only
    /// what was used before the host knew one is extra.
    pub fn is_tell_due(&self, now_ms: u64) -> bool {
        let Lease { used_ms, sent_ms, heard_ms, in_flight, .. } = self.lease;
        let told_ms = sent_ms.saturating_add(TELL_MS);
        if in_flight || sent_ms > 0 && now_ms < told_ms {
            return false;
        }
        // Where the answer was late, others may come to tell later still. Late looks back end.
        let is_late = heard_ms >= told_ms && sent_ms < used_ms.saturating_add(LAST_LOOK_MS);
        let last_ms = if is_late { heard_ms } else { used_ms };
        let [from_ms, to_ms] = [LOOK_BACK_MS, LAST_LOOK_MS].map(|ms| last_ms.saturating_add(ms));
        let looks_back = heard_ms < from_ms && (from_ms..to_ms).contains(&now_ms);
        self.is_untold(now_ms) || self.counts(now_ms) && looks_back
    }

    /// Has the ledger of a limit that refuses nothing yet to hear of a use, or of one given back?
    pub fn is_untold(&self, now_ms: u64) -> bool {
        let Holding { lease, used } = *self;
        lease.extra != 0 || self.counts(now_ms) && used != lease.allowance
    }

    /// What other hosts have used, as last heard. None: of tokens and of two windows together it
    /// cannot be told from what this one has.
    pub fn used_elsewhere(&self, kind: &Kind) -> Option<u64> {
        let of_all = TOLD_MAX.saturating_sub(self.lease.elsewhere);
        let is_apart = !matches!(kind, Kind::Token { .. } | Kind::SlidingCounter { .. });
        is_apart.then(|| of_all.saturating_sub(self.lease.allowance))
    }

    /// Binds the host to what it has used, and returns the message that tells it.
    pub fn tell(&mut self, settings: &Settings, seq: u64, now_ms: u64) -> Take {
        self.hold_used();
        let keep = Keep::Held;
        self.bind(settings, &Binding { seq, now_ms, keep, need: 0, want: 0 })
    }

    /// As [`Holding::claim`].
    pub fn claim_told(&mut self, settings: &Settings, seq: u64, now_ms: u64) -> Option<Take> {
        self.hold_used();
        self.claim(settings, seq, now_ms)
    }

    /// The message that is in flight once more, as it was.
    pub fn repeat_told(&mut self, now_ms: u64) -> Take {
        let mut take = self.repeat(now_ms, 0, 0);
        if take.claim.window != 0 {
            (take.claim.floor, take.claim.spent) = (self.lease.allowance, self.lease.allowance);
        }
        take
    }

    /// As [`Holding::hear`]. What was used and given back since the message counts on, also where
    /// the ledger names a window that overlaps that of the message.
    pub fn hear_told(&mut self, settings: &Settings, heard: &Heard) -> Next {
        let Holding { lease: Lease { window, allowance, sent_extra, .. }, used } = *self;
        let next = self.hear(settings, heard);
        if let Taken::Granted(Granted { pool, .. }) = heard.taken
            && next != Next::Ignored
        {
            // Of a bucket that is more than empty the pool is below 0.
            let of_all = i128::from(settings.max) - i128::from(pool);
            let of_all = u64::try_from(of_all.max(0)).unwrap_or(TOLD_MAX);
            self.lease.elsewhere = TOLD_MAX.saturating_sub(of_all);
        }
        let reported = sent_extra.max(0) as u64;
        if let Taken::Granted(Granted { base: Some(base), .. }) = heard.taken
            && next != Next::Ignored
            && window != 0
            && base == allowance.saturating_add(reported)
        {
            self.used = used.saturating_add(reported);
        }
        next
    }

    /// The allowance becomes what is used, and what all hosts have used stays as it is known.
    fn hold_used(&mut self) {
        let Holding { lease, used } = self;
        if lease.window != 0 {
            let all = lease.elsewhere.saturating_add(lease.allowance);
            (lease.elsewhere, lease.allowance) = (all.saturating_sub(*used), *used);
        }
    }
}
