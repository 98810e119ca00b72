//! `gcra`: a token bucket whose unit is time.
//!
//! Invariant: the state is (level, last), and neither word depends on the settings. `level` is the
//! time, in nanoseconds, until all charged uses have come back, so limits that change from call to
//! call judge the same state. The state is fresh exactly if `level` is 0, and then `last` is 0 too.

use std::num::NonZero;

use frs_conf as conf;

use super::pace::{MAX_CAPACITY, MS, Pace};
use super::policy::{Policy, Properties, own_words};
use super::state_word::{WordNames, WordUnit};
use super::token::Level;
use super::{Figures, Terms};

/// Prepared settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gcra {
    pub pace: Pace,
}

impl Gcra {
    /// Raises an emission interval below a nanosecond to one, and reduces a burst that takes too
    /// long to fill.
    pub fn new(limit: &conf::Gcra) -> Gcra {
        let period = limit.per_ms.saturating_mul(MS);
        let emission = NonZero::new(period / limit.rate.max(1)).unwrap_or(NonZero::<u64>::MIN);
        let burst = limit.burst.clamp(1, (MAX_CAPACITY / emission).max(1));
        Gcra { pace: Pace { emission, burst } }
    }

    /// A limit of this pace.
    pub const fn of(pace: Pace) -> Gcra {
        Gcra { pace }
    }

    /// When an unrolled state is fresh if calls bring their pace: the time to fill a bucket is then
    /// at least the level.
    pub fn end_for_calls_ms(&self, state: &[u64], last_use_ms: u64) -> u64 {
        let Level { level, last } = Level::of(state);
        let level_ms = level.div_ceil(MS);
        let fill_ms = self.pace.fill_ms().max(level_ms);
        last.max(last_use_ms).saturating_add(level_ms).saturating_add(fill_ms)
    }
}

/// The level at `now`, less the uses that have come back since. The level becomes fresh if the
/// clock was set back by at least the time that the bucket takes to fill.
#[inline]
fn rolled(pace: &Pace, Level { level, last }: Level, now: u64) -> Level {
    let Some(elapsed_ms) = now.checked_sub(last) else {
        let is_near = (last - now).saturating_mul(MS) < pace.capacity();
        return if is_near { Level { level, last }.or_fresh() } else { Level::FRESH };
    };
    let level = level.saturating_sub(elapsed_ms.saturating_mul(MS));
    Level { level, last: now }.or_fresh()
}

impl Policy for Gcra {
    fn shape(&self) -> [u64; 2] {
        [8, 0]
    }

    fn words(&self) -> WordNames {
        WordNames::only(&[("level", WordUnit::Nanoseconds), ("last", WordUnit::Time)])
    }

    fn properties(&self) -> Properties {
        Properties::PLAIN
    }

    #[inline]
    fn roll(&self, state: &mut [u64], now: u64, _: &Terms) {
        rolled(&self.pace, Level::of(state), now).store(state);
    }

    #[inline]
    fn admits(&self, state: &[u64], _: u64, count: u32, _: &Terms) -> bool {
        self.pace.excess(Level::of(state).level, count) == 0
    }

    /// A forced count may take more than the burst.
    #[inline]
    fn charge(&self, state: &mut [u64], now: u64, count: i32, _: &Terms) {
        let Level { level, last } = Level::of(state);
        let cost = self.pace.cost(count.unsigned_abs());
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let last = if level == 0 { now } else { last };
        let level = if count < 0 { level.saturating_sub(cost) } else { level.saturating_add(cost) };
        Level { level, last }.or_fresh().store(state);
    }

    #[inline]
    fn figures(&self, state: &[u64], _: u64, _: &Terms) -> Figures {
        let (pace, level) = (self.pace, Level::of(state).level);
        let remaining = pace.capacity().saturating_sub(level) / pace.emission;
        Figures {
            used: pace.burst - remaining,
            max: pace.burst,
            remaining,
            reset_ms: Some(level.div_ceil(MS)),
        }
    }

    fn retry_ms(&self, state: &[u64], _: u64, count: u32, _: &Terms) -> Option<u64> {
        let (pace, level) = (self.pace, Level::of(state).level);
        let fits = u64::from(count) <= pace.burst;
        // The excess is then at most the level, a u64.
        fits.then(|| pace.excess(level, count).div_ceil(MS.into()) as u64)
    }

    #[inline]
    fn window_ms(&self, _: &[u64], _: &Terms) -> Option<u64> {
        Some(self.pace.fill_ms())
    }

    fn quota(&self, _: &Terms) -> Option<(u64, Option<u64>)> {
        let pace = self.pace;
        Some((pace.burst, Some(pace.fill_ms())))
    }

    #[inline]
    fn level_ns(&self, state: &[u64]) -> u64 {
        Level::of(state).level
    }

    /// The bound holds for any pace that calls bring. It is doubled because a clock that was set
    /// back by up to the same time may have stamped the last use.
    fn life_ms(&self) -> Option<u64> {
        Some(2 * u64::MAX.div_ceil(MS))
    }

    /// Allows for a clock that is set back meanwhile by up to the time that the bucket takes to
    /// fill.
    fn end_ms(&self, state: &[u64], last_use_ms: u64) -> Option<u64> {
        let Level { level, last } = Level::of(state);
        let level_ms = level.div_ceil(MS);
        let from_ms = last.max(last_use_ms);
        Some(from_ms.saturating_add(level_ms).saturating_add(self.pace.fill_ms()))
    }

    own_words!();

    fn is_kept(&self, _: &[u64]) -> bool {
        false
    }

    #[inline]
    fn counts_since(&self, _: &[u64], _: u64) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
