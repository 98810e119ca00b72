//! A token bucket: how fast its tokens come back, and how many it holds.
//!
//! Invariant: the units of a full bucket fit into a u64, and at least one unit comes back in a
//! millisecond.

use frs_conf::{TOKEN_UNITS as UNITS, Token};

/// Prepared settings, in units of 1/86,400,000 token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Tokens of a full bucket. Their units fit into a u64.
    pub burst: u64,
    /// Units that come back in a millisecond, from 1.
    pub drain: u64,
}

impl Bucket {
    /// A burst or rate that exceeds a u64 in units is reduced to fit.
    pub fn new(limit: &Token) -> Bucket {
        let drain = limit.rate.saturating_mul(UNITS / limit.per_ms.clamp(1, UNITS));
        Bucket { burst: limit.burst.min(u64::MAX / UNITS), drain: drain.max(1) }
    }

    /// A bucket of exactly this rate. `None`: a period that does not divide a day makes no whole
    /// number of units flow back in a millisecond; or rate or burst are 0, or exceed a u64 in
    /// units.
    pub fn exact(rate: u64, per_ms: u64, burst: u64) -> Option<Bucket> {
        let is_whole = per_ms > 0 && UNITS.is_multiple_of(per_ms);
        let drain = if is_whole { rate.checked_mul(UNITS / per_ms)? } else { 0 };
        let bucket = Bucket { burst: 1, drain };
        if drain == 0 { None } else { bucket.with_burst(burst) }
    }

    /// The same with another burst. `None`: the bucket is empty, or exceeds a u64 in units.
    pub fn with_burst(&self, burst: u64) -> Option<Bucket> {
        (1..=u64::MAX / UNITS).contains(&burst).then_some(Bucket { burst, ..*self })
    }

    /// The same with the burst of another limit.
    pub const fn with_burst_of(&self, other: &Bucket) -> Bucket {
        Bucket { burst: other.burst, ..*self }
    }

    /// The same at the slowest rate with this longest period.
    pub fn slowest(&self, max_period_ms: u64) -> Bucket {
        let slowest = (UNITS / max_period_ms.max(1)).max(1);
        Bucket { drain: self.drain.min(slowest), ..*self }
    }

    /// Units of a full bucket.
    pub const fn capacity(&self) -> u64 {
        self.burst * UNITS
    }

    /// Milliseconds to fill an empty bucket.
    #[inline]
    pub const fn fill_ms(&self) -> u64 {
        self.capacity().div_ceil(self.drain)
    }

    /// Units that are missing for `count`. A u128, because a level may be as large as `u64::MAX`.
    #[inline]
    pub fn excess(&self, level: u64, count: u32) -> u128 {
        let wanted = u128::from(level) + u128::from(count) * u128::from(UNITS);
        wanted.saturating_sub(self.capacity().into())
    }
}
