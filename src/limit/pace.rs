//! The pace of a limit whose unit is time: configured, or brought by the call.
//!
//! Invariant: a full bucket takes at most 2^62 ns to fill.

use std::num::NonZero;

/// Nanoseconds of a millisecond.
pub(super) const MS: u64 = 1_000_000;
/// The longest time that a bucket may take to fill, in nanoseconds: 146 years.
pub(super) const MAX_CAPACITY: u64 = frs_conf::MAX_GCRA_NS;

/// How fast uses come back, and how many a full bucket holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pace {
    /// The emission interval: nanoseconds until one use comes back.
    pub(super) emission: NonZero<u64>,
    /// Uses of a full bucket, at least 1.
    pub(super) burst: u64,
}

impl Pace {
    /// The pace under which a state counts longest.
    pub(super) const SLOWEST: Pace = Pace { emission: NonZero::<u64>::MIN, burst: MAX_CAPACITY };

    /// `count` uses in each `period`, in nanoseconds, and `burst` at once. The emission interval is
    /// rounded down. `None` if the interval is below a nanosecond, or if the bucket is empty or
    /// takes longer than 2^62 ns to fill.
    pub fn new(count: u64, period: u64, burst: u64) -> Option<Pace> {
        let emission = NonZero::new(period.checked_div(count)?)?;
        let capacity = emission.get().checked_mul(burst)?;
        (burst > 0 && capacity <= MAX_CAPACITY).then_some(Pace { emission, burst })
    }

    /// The same with another burst. `None`: the bucket is empty, or takes too long to fill.
    pub(super) fn with_burst(&self, burst: u64) -> Option<Pace> {
        let capacity = self.emission.get().checked_mul(burst)?;
        (burst > 0 && capacity <= MAX_CAPACITY).then_some(Pace { burst, ..*self })
    }

    /// The same with the burst of another one, as far as the bucket fills in time.
    pub(super) fn with_burst_of(&self, other: &Pace) -> Pace {
        let most = (MAX_CAPACITY / self.emission).max(1);
        Pace { burst: other.burst.min(most), ..*self }
    }

    /// Nanoseconds until one use comes back.
    pub fn emission(&self) -> u64 {
        self.emission.get()
    }

    /// Uses of a full bucket.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// Nanoseconds to fill an empty bucket.
    pub fn capacity(&self) -> u64 {
        self.emission.get().saturating_mul(self.burst)
    }

    /// Nanoseconds that `count` uses take to come back.
    pub fn cost(&self, count: u32) -> u128 {
        u128::from(self.emission.get()) * u128::from(count)
    }

    /// Milliseconds to fill an empty bucket.
    #[inline]
    pub(super) fn fill_ms(&self) -> u64 {
        self.capacity().div_ceil(MS)
    }

    /// Nanoseconds that are missing for `count` at a level.
    pub(super) fn excess(&self, level: u64, count: u32) -> u128 {
        (u128::from(level) + self.cost(count)).saturating_sub(self.capacity().into())
    }
}
