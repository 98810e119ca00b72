//! `token`: a token bucket, exact, without drift.
//!
//! Invariant: the state is (level, last). `level` counts the tokens taken out of the full bucket,
//! in units of 1/86,400,000 token. A whole number of units comes back in each millisecond, whatever
//! the unit of the rate. The state is fresh exactly if `level` is 0, and then `last` is 0 too.

use frs_conf::TOKEN_UNITS as UNITS;

use super::bucket::Bucket;
use super::policy::{Policy, Properties, own_words};
use super::state_word::{WordNames, WordUnit};
use super::{Figures, Terms};

/// The state, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Level {
    /// Units taken out.
    pub level: u64,
    /// The time of this level, in milliseconds since the epoch.
    pub last: u64,
}

impl Level {
    pub const FRESH: Level = Level { level: 0, last: 0 };

    #[inline]
    pub const fn of(state: &[u64]) -> Level {
        Level { level: state[0], last: state[1] }
    }

    #[inline]
    pub const fn store(self, state: &mut [u64]) {
        state[0] = self.level;
        state[1] = self.last;
    }

    pub const fn or_fresh(self) -> Level {
        if self.level == 0 { Level::FRESH } else { self }
    }
}

/// The level at `now`, after the refill since. The level becomes fresh if the clock was set back by
/// at least the time that the bucket takes to fill.
#[inline]
fn rolled(limit: &Bucket, level: Level, now: u64) -> Level {
    let Some(elapsed_ms) = now.checked_sub(level.last) else {
        let is_near = level.last - now < limit.fill_ms();
        return if is_near { level.or_fresh() } else { Level::FRESH };
    };
    let drained = limit.drain.saturating_mul(elapsed_ms);
    Level { level: level.level.saturating_sub(drained), last: now }.or_fresh()
}

impl Policy for Bucket {
    fn shape(&self) -> [u64; 2] {
        [6, 0]
    }

    fn words(&self) -> WordNames {
        WordNames::only(&[("level", WordUnit::TokenParts), ("last", WordUnit::Time)])
    }

    fn properties(&self) -> Properties {
        Properties::PLAIN
    }

    #[inline]
    fn roll(&self, state: &mut [u64], now: u64, _: &Terms) {
        rolled(self, Level::of(state), now).store(state);
    }

    #[inline]
    fn admits(&self, state: &[u64], _: u64, count: u32, _: &Terms) -> bool {
        self.excess(Level::of(state).level, count) == 0
    }

    /// A forced count may take more than the burst.
    #[inline]
    fn charge(&self, state: &mut [u64], now: u64, count: i32, _: &Terms) {
        let Level { level, last } = Level::of(state);
        let units = u64::from(count.unsigned_abs()) * UNITS;
        let last = if level == 0 { now } else { last };
        let level =
            if count < 0 { level.saturating_sub(units) } else { level.saturating_add(units) };
        Level { level, last }.or_fresh().store(state);
    }

    #[inline]
    fn figures(&self, state: &[u64], _: u64, _: &Terms) -> Figures {
        let level = Level::of(state).level;
        let remaining = self.capacity().saturating_sub(level) / UNITS;
        Figures {
            used: self.burst - remaining,
            max: self.burst,
            remaining,
            reset_ms: Some(level.div_ceil(self.drain)),
        }
    }

    fn retry_ms(&self, state: &[u64], _: u64, count: u32, _: &Terms) -> Option<u64> {
        let fits = u64::from(count) <= self.burst;
        let level = Level::of(state).level;
        // The excess is then at most the level, a u64.
        fits.then(|| self.excess(level, count).div_ceil(self.drain.into()) as u64)
    }

    #[inline]
    fn window_ms(&self, _: &[u64], _: &Terms) -> Option<u64> {
        Some(self.fill_ms())
    }

    fn quota(&self, _: &Terms) -> Option<(u64, Option<u64>)> {
        Some((self.burst, Some(self.fill_ms())))
    }

    /// Forced uses may have raised the level to `u64::MAX`. A clock that was set back by up to the
    /// time to fill the bucket may have stamped the last use.
    fn life_ms(&self) -> Option<u64> {
        u64::MAX.div_ceil(self.drain).checked_add(self.fill_ms())
    }

    /// Equals the bound of `life_ms` for a level of `u64::MAX`.
    fn end_ms(&self, state: &[u64], last_use_ms: u64) -> Option<u64> {
        let Level { level, last } = Level::of(state);
        let drained_ms = level.div_ceil(self.drain);
        let from_ms = last.max(last_use_ms);
        Some(from_ms.saturating_add(drained_ms).saturating_add(self.fill_ms()))
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
