//! `sliding-counter`: at most about M in any I, with two counters, for any M.
//!
//! A window of the same length that ends now overlaps a part of the previous window. The same part
//! of the previous window's uses counts, as if they had come evenly. The rule is that of the
//! sliding counters at Cloudflare ("How we built rate limiting capable of scaling to millions of
//! domains", 2017), here without rounding.
//!
//! Invariant: the state is (start, cur, prev). It is fresh exactly if both counters are 0, and then
//! `start` is 0 too.

use frs_conf::SlidingCounter;

use super::policy::{Policy, Properties, own_words};
use super::state_word::{WordNames, WordUnit};
use super::{Figures, MAX_USED, Terms, use_more};

/// The state, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counters {
    /// When the current window began, in milliseconds since the epoch. A multiple of the window's
    /// length.
    pub start: u64,
    /// Uses in the current window.
    pub cur: u64,
    /// Uses in the previous window.
    pub prev: u64,
}

impl Counters {
    const FRESH: Counters = Counters { start: 0, cur: 0, prev: 0 };

    #[inline]
    const fn of(state: &[u64]) -> Counters {
        Counters { start: state[0], cur: state[1], prev: state[2] }
    }

    #[inline]
    const fn store(self, state: &mut [u64]) {
        state[0] = self.start;
        state[1] = self.cur;
        state[2] = self.prev;
    }

    const fn or_fresh(self) -> Counters {
        if self.cur == 0 && self.prev == 0 { Counters::FRESH } else { self }
    }

    /// Milliseconds of the previous window that still count; all of them if the clock was set back
    /// before `start`.
    const fn ahead(self, limit: &SlidingCounter, now: u64) -> u64 {
        limit.interval_ms.saturating_sub(now.saturating_sub(self.start))
    }

    /// The weighted uses, in uses times milliseconds. At most 2^118.
    const fn weighed(self, limit: &SlidingCounter, now: u64) -> u128 {
        self.cur as u128 * limit.interval_ms as u128
            + self.prev as u128 * self.ahead(limit, now) as u128
    }
}

/// The state at `now`, for the window that contains `now`. If the clock was set back by an interval
/// or more, the state becomes fresh.
#[inline]
fn rolled(limit: &SlidingCounter, counters: Counters, now: u64) -> Counters {
    let Counters { start, cur, prev } = counters;
    let (cur, prev) = (cur.min(MAX_USED), prev.min(MAX_USED));
    if start % limit.interval_ms != 0 {
        return Counters::FRESH;
    }
    if now.abs_diff(start) < limit.interval_ms {
        return Counters { start, cur, prev }.or_fresh();
    }
    if now < start || (now - start) / limit.interval_ms > 1 {
        return Counters::FRESH;
    }
    Counters { start: start + limit.interval_ms, cur: 0, prev: cur }.or_fresh()
}

impl Policy for SlidingCounter {
    fn shape(&self) -> [u64; 2] {
        [5, self.interval_ms]
    }

    fn words(&self) -> WordNames {
        use WordUnit::{Time, Uses};
        WordNames::only(&[("start", Time), ("cur", Uses), ("prev", Uses)])
    }

    fn properties(&self) -> Properties {
        Properties::PLAIN
    }

    #[inline]
    fn roll(&self, state: &mut [u64], now: u64, _: &Terms) {
        rolled(self, Counters::of(state), now).store(state);
    }

    #[inline]
    fn admits(&self, state: &[u64], now: u64, count: u32, _: &Terms) -> bool {
        let interval_ms = u128::from(self.interval_ms);
        let asked = u128::from(count) * interval_ms;
        Counters::of(state).weighed(self, now) + asked <= u128::from(self.max) * interval_ms
    }

    /// A negative count reduces the current window only.
    #[inline]
    fn charge(&self, state: &mut [u64], now: u64, count: i32, _: &Terms) {
        let counters = Counters::of(state);
        let is_fresh = counters == Counters::FRESH;
        let start = if is_fresh { now - now % self.interval_ms } else { counters.start };
        let cur = use_more(counters.cur, count);
        Counters { start, cur, prev: counters.prev }.or_fresh().store(state);
    }

    #[inline]
    fn figures(&self, state: &[u64], now: u64, _: &Terms) -> Figures {
        let counters = Counters::of(state);
        let used = counters.weighed(self, now).div_ceil(self.interval_ms.into());
        let used = used.min(MAX_USED.into()) as u64;
        Figures {
            used,
            max: self.max,
            remaining: self.max.saturating_sub(used),
            reset_ms: Some(reset_ms(self, counters, now)),
        }
    }

    /// The count fits in this window, as the weight of the previous window falls, or else in the
    /// next window, as the weight of this window falls.
    fn retry_ms(&self, state: &[u64], now: u64, count: u32, _: &Terms) -> Option<u64> {
        let counters = Counters::of(state);
        let room = self.max.checked_sub(count.into())?;
        let ahead_ms = counters.ahead(self, now);
        let left = room.checked_sub(counters.cur);
        Some(match left.map(|left| counting_ms(self, left, counters.prev)) {
            Some(fits_ms) if fits_ms > 0 => ahead_ms.saturating_sub(fits_ms),
            _ => {
                let fits_ms = counting_ms(self, room, counters.cur);
                ahead_ms.saturating_add(self.interval_ms - fits_ms)
            }
        })
    }

    #[inline]
    fn window_ms(&self, _: &[u64], _: &Terms) -> Option<u64> {
        Some(self.interval_ms)
    }

    fn quota(&self, _: &Terms) -> Option<(u64, Option<u64>)> {
        Some((self.max, Some(self.interval_ms)))
    }

    /// A clock that was set back by up to an interval may have stamped the last use before the
    /// start. Hence the bound is one interval longer than the two windows take.
    fn life_ms(&self) -> Option<u64> {
        Some(self.interval_ms.saturating_mul(3))
    }

    own_words!();

    fn is_kept(&self, _: &[u64]) -> bool {
        false
    }

    #[inline]
    fn counts_since(&self, state: &[u64], made_ms: u64) -> bool {
        state[0] <= made_ms
    }
}

/// The most milliseconds of a previous window with `used` uses that may still count if only `room`
/// of these uses fit.
fn counting_ms(limit: &SlidingCounter, room: u64, used: u64) -> u64 {
    let interval_ms = u128::from(limit.interval_ms);
    let fits_ms = (u128::from(room) * interval_ms).checked_div(used.into());
    fits_ms.map_or(interval_ms, |fits_ms| fits_ms.min(interval_ms)) as u64
}

/// Milliseconds until both counters are 0.
#[inline]
const fn reset_ms(limit: &SlidingCounter, counters: Counters, now: u64) -> u64 {
    let ahead_ms = counters.ahead(limit, now);
    match (counters.cur, counters.prev) {
        (0, 0) => 0,
        (0, _) => ahead_ms,
        _ => ahead_ms.saturating_add(limit.interval_ms),
    }
}

#[cfg(test)]
mod tests;
