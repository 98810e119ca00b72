//! `gcra`: a token bucket whose unit is time, with limits that may come with the call.
//!
//! Invariant: the state is (level, last), and none of it depends on the limit. `level` is the time,
//! in nanoseconds, until everything that was taken has come back, so a limit that changes from call
//! to call judges what others have charged. The state is fresh exactly if `level` is 0, and then
//! `last` is 0 too.

use std::num::NonZero;

use frs_conf as conf;

use super::Figures;
use super::token::Level;

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;
/// The longest time that a bucket may take to fill, in nanoseconds: 146 years.
const MAX_CAPACITY: u64 = conf::MAX_GCRA_NS;

/// How fast uses come back, and how many may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pace {
    /// The emission interval: nanoseconds until one use comes back.
    emission: NonZero<u64>,
    /// Uses of a full bucket, at least 1.
    burst: u64,
}

impl Pace {
    /// `count` uses in each `period`, in nanoseconds, and `burst` at once. The emission interval is
    /// rounded down. `None`: it is below a nanosecond, or the bucket is empty, or takes longer than
    /// 2^62 ns to fill.
    pub fn new(count: u64, period: u64, burst: u64) -> Option<Pace> {
        let emission = NonZero::new(period.checked_div(count)?)?;
        let capacity = emission.get().checked_mul(burst)?;
        (burst > 0 && capacity <= MAX_CAPACITY).then_some(Pace { emission, burst })
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

    /// Nanoseconds that are missing for `count` at a level.
    fn excess(&self, level: u64, count: u32) -> u128 {
        (u128::from(level) + self.cost(count)).saturating_sub(self.capacity().into())
    }
}

/// Prepared settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gcra {
    pace: Pace,
    is_per_call: bool,
}

impl Gcra {
    /// An emission interval below a nanosecond is one, and a burst that takes too long to fill is
    /// reduced.
    pub fn new(limit: &conf::Gcra) -> Gcra {
        let period = limit.per_ms.saturating_mul(MS);
        let emission = NonZero::new(period / limit.rate.max(1)).unwrap_or(NonZero::<u64>::MIN);
        let burst = limit.burst.clamp(1, (MAX_CAPACITY / emission).max(1));
        Gcra { pace: Pace { emission, burst }, is_per_call: limit.max_period_ms.is_some() }
    }

    /// The pace for an item that may bring its own.
    #[inline]
    pub fn pace(&self, own: Option<Pace>) -> Pace {
        own.filter(|_| self.is_per_call).unwrap_or(self.pace)
    }
}

/// The state at `now`, after what has come back since. If the clock was set back by at least the
/// time that the bucket takes to fill, the state becomes fresh.
#[inline]
pub(super) fn roll(pace: &Pace, Level { level, last }: Level, now: u64) -> Level {
    let Some(elapsed_ms) = now.checked_sub(last) else {
        let is_near = (last - now).saturating_mul(MS) < pace.capacity();
        return if is_near { Level { level, last }.or_fresh() } else { Level::FRESH };
    };
    let level = level.saturating_sub(elapsed_ms.saturating_mul(MS));
    Level { level, last: now }.or_fresh()
}

/// Whether a rolled state admits `count`, 0 or more.
#[inline]
pub(super) fn admits(pace: &Pace, level: Level, count: u32) -> bool {
    pace.excess(level.level, count) == 0
}

/// A rolled state after `count` more, even beyond the burst.
#[inline]
pub(super) fn charge(pace: &Pace, level: Level, now: u64, count: i32) -> Level {
    let cost = u64::try_from(pace.cost(count.unsigned_abs())).unwrap_or(u64::MAX);
    let last = if level.level == 0 { now } else { level.last };
    let level =
        if count < 0 { level.level.saturating_sub(cost) } else { level.level.saturating_add(cost) };
    Level { level, last }.or_fresh()
}

/// The figures of a rolled state.
#[inline]
pub(super) fn figures(pace: &Pace, level: Level) -> Figures {
    let remaining = pace.capacity().saturating_sub(level.level) / pace.emission;
    Figures {
        used: pace.burst - remaining,
        max: pace.burst,
        remaining,
        reset_ms: Some(level.level.div_ceil(MS)),
    }
}

/// Milliseconds until a rolled state that refuses `count` would admit it.
pub(super) fn retry_ms(pace: &Pace, level: Level, count: u32) -> Option<u64> {
    let fits = u64::from(count) <= pace.burst;
    // The excess is then at most the level, a u64.
    fits.then(|| pace.excess(level.level, count).div_ceil(MS.into()) as u64)
}

/// Milliseconds to fill an empty bucket.
#[inline]
pub(super) fn fill_ms(pace: &Pace) -> u64 {
    pace.capacity().div_ceil(MS)
}

/// An upper bound of the milliseconds from a state's last use until it is fresh, whatever limit its
/// calls have brought. The last use may have been stamped by a clock that was set back by up to
/// that time.
pub(super) const fn life_ms() -> u64 {
    2 * u64::MAX.div_ceil(MS)
}

/// From when on a state is fresh, which nothing has changed since. The clock may be set back
/// meanwhile, by up to the time that the bucket takes to fill; that of a call takes as long as its
/// level at least.
pub(super) fn end_ms(limit: &Gcra, level: Level, last_use_ms: u64) -> u64 {
    let level_ms = level.level.div_ceil(MS);
    let of_call_ms = if limit.is_per_call { level_ms } else { 0 };
    let fill_ms = fill_ms(&limit.pace).max(of_call_ms);
    level.last.max(last_use_ms).saturating_add(level_ms).saturating_add(fill_ms)
}

#[cfg(test)]
mod tests;
