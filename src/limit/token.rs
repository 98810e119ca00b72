//! `token`: a token bucket, exact, without drift.
//!
//! Invariant: the state is (level, last). `level` is what is taken out of the full bucket, in units
//! of 1/86,400,000 token, so that a whole number of units comes back in a millisecond, whatever the
//! unit of the rate. The state is fresh exactly if `level` is 0, and then `last` is 0 too.

use frs_conf::{TOKEN_UNITS as UNITS, Token};

use super::Figures;

/// Prepared settings, in units of 1/86,400,000 token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    /// Tokens of a full bucket. Their units fit into a u64.
    burst: u64,
    /// Units that come back in a millisecond, from 1.
    drain: u64,
}

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

    pub const fn or_fresh(self) -> Level {
        if self.level == 0 { Level::FRESH } else { self }
    }
}

impl Bucket {
    /// A burst or rate that exceeds a u64 in units is reduced to fit.
    pub fn new(limit: &Token) -> Bucket {
        let drain = limit.rate.saturating_mul(UNITS / limit.per_ms.clamp(1, UNITS));
        Bucket { burst: limit.burst.min(u64::MAX / UNITS), drain: drain.max(1) }
    }

    /// Tokens of a full bucket.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Units of a full bucket.
    const fn capacity(&self) -> u64 {
        self.burst * UNITS
    }
}

/// The state at `now`, after the refill since. If the clock was set back by at least the time that
/// a bucket takes to fill, the state becomes fresh.
#[inline]
pub(super) fn roll(limit: &Bucket, level: Level, now: u64) -> Level {
    let Some(elapsed_ms) = now.checked_sub(level.last) else {
        let is_near = level.last - now < fill_ms(limit);
        return if is_near { level.or_fresh() } else { Level::FRESH };
    };
    let drained = limit.drain.saturating_mul(elapsed_ms);
    Level { level: level.level.saturating_sub(drained), last: now }.or_fresh()
}

/// Whether a rolled state admits `count`, 0 or more.
#[inline]
pub(super) fn admits(limit: &Bucket, level: Level, count: u32) -> bool {
    excess(limit, level, count) == 0
}

/// A rolled state after `count` more, even beyond the burst.
#[inline]
pub(super) fn charge(level: Level, now: u64, count: i32) -> Level {
    let units = u64::from(count.unsigned_abs()) * UNITS;
    let last = if level.level == 0 { now } else { level.last };
    let level = if count < 0 {
        level.level.saturating_sub(units)
    } else {
        level.level.saturating_add(units)
    };
    Level { level, last }.or_fresh()
}

/// The figures of a rolled state.
#[inline]
pub(super) fn figures(limit: &Bucket, level: Level) -> Figures {
    let remaining = limit.capacity().saturating_sub(level.level) / UNITS;
    Figures {
        used: limit.burst - remaining,
        max: limit.burst,
        remaining,
        reset_ms: Some(level.level.div_ceil(limit.drain)),
    }
}

/// Milliseconds until a rolled state that refuses `count` would admit it.
pub(super) fn retry_ms(limit: &Bucket, level: Level, count: u32) -> Option<u64> {
    let fits = u64::from(count) <= limit.burst;
    // The excess is then at most what is taken out, a u64.
    fits.then(|| excess(limit, level, count).div_ceil(limit.drain.into()) as u64)
}

/// Milliseconds to fill an empty bucket.
#[inline]
pub(super) fn fill_ms(limit: &Bucket) -> u64 {
    limit.capacity().div_ceil(limit.drain)
}

/// An upper bound of the milliseconds from a state's last use until it is fresh.
///
/// Forced use may have taken out as much as a u64 holds. The last use may have been stamped by a
/// clock that was set back by up to the time to fill the bucket.
pub(super) fn life_ms(limit: &Bucket) -> Option<u64> {
    u64::MAX.div_ceil(limit.drain).checked_add(fill_ms(limit))
}

/// From when on a state is fresh, which nothing has changed since: as late as [`life_ms`] if as
/// much as a u64 holds was taken out.
pub(super) fn end_ms(limit: &Bucket, level: Level, last_use_ms: u64) -> u64 {
    let drained_ms = level.level.div_ceil(limit.drain);
    level.last.max(last_use_ms).saturating_add(drained_ms).saturating_add(fill_ms(limit))
}

/// Units that are missing for `count`. A u128, because a level may be as large as a u64 can be.
#[inline]
fn excess(limit: &Bucket, level: Level, count: u32) -> u128 {
    let wanted = u128::from(level.level) + u128::from(count) * u128::from(UNITS);
    wanted.saturating_sub(limit.capacity().into())
}

#[cfg(test)]
mod tests;
