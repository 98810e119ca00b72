//! `sliding-counter`: at most about M in any I, with two counters, for any M.
//!
//! A window of the same length that ends now still covers a part of the window before the current
//! one. That part of its uses counts, as if they had come evenly. The rule is the one of the
//! sliding counters at Cloudflare ("How we built rate limiting capable of scaling to millions of
//! domains", 2017), here without rounding.
//!
//! Invariant: the state is (start, cur, prev). It is fresh exactly if both counters are 0, and then
//! `start` is 0 too.

use frs_conf as conf;
use frs_conf::SlidingCounter;

use super::calendar::Calendar;
use super::past::Remembered;
use super::policy::{AnyPolicy, Policy, is_zero};
use super::state_word::{WordNames, WordUnit};
use super::{Figures, MAX_USED, Terms, use_more};

/// The state, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counters {
    /// When the current window began, in milliseconds since the epoch. A multiple of the window's
    /// length.
    pub start: u64,
    /// Uses in it.
    pub cur: u64,
    /// Uses in the one before.
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

    /// Milliseconds of the window before that still count. If the clock was set back before the
    /// start, all of them.
    const fn ahead(self, limit: &SlidingCounter, now: u64) -> u64 {
        limit.interval_ms.saturating_sub(now.saturating_sub(self.start))
    }

    /// What counts, in uses times milliseconds. At most 2^118.
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
    fn resized(&self, settings: &conf::Policy) -> AnyPolicy {
        AnyPolicy::new(settings)
    }

    fn with_history(&self, _: &Remembered) -> Option<AnyPolicy> {
        None
    }

    #[inline]
    fn remembered(&self) -> Option<&Remembered> {
        None
    }

    fn calendar(&self) -> Option<&Calendar> {
        None
    }

    fn calendar_mut(&mut self) -> Option<&mut Calendar> {
        None
    }

    fn shape(&self) -> [u64; 2] {
        [5, self.interval_ms]
    }

    fn words(&self) -> WordNames {
        use WordUnit::{Time, Uses};
        WordNames::only(&[("start", Time), ("cur", Uses), ("prev", Uses)])
    }

    fn is_logged(&self) -> bool {
        false
    }

    fn notes_members(&self) -> bool {
        false
    }

    fn only_counts(&self) -> bool {
        false
    }

    fn lends(&self) -> bool {
        false
    }

    fn error_thousandths(&self) -> Option<u16> {
        None
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

    /// In this window, as less and less of the one before counts, else in the next, as less and
    /// less of this one does.
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

    #[inline]
    fn is_fresh(&self, state: &[u64]) -> bool {
        is_zero(state)
    }

    fn is_kept(&self, _: &[u64]) -> bool {
        false
    }

    fn clear(&self, state: &mut [u64]) -> bool {
        state.fill(0);
        true
    }
}

/// The most milliseconds for which a window of `used` uses may count if there is room for `room`.
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
mod tests {
    use super::*;
    use crate::Spending;

    const TERMS: Terms = Terms::of(Spending::New);

    fn roll(limit: &SlidingCounter, counters: Counters, now: u64) -> Counters {
        let mut state = state(counters);
        limit.roll(&mut state, now, &TERMS);
        Counters::of(&state)
    }

    fn charge(limit: &SlidingCounter, counters: Counters, now: u64, count: i32) -> Counters {
        let mut state = state(counters);
        limit.charge(&mut state, now, count, &TERMS);
        Counters::of(&state)
    }

    fn state(counters: Counters) -> [u64; 3] {
        [counters.start, counters.cur, counters.prev]
    }

    fn admits(limit: &SlidingCounter, counters: Counters, now: u64, count: u32) -> bool {
        limit.admits(&state(counters), now, count, &TERMS)
    }

    fn figures(limit: &SlidingCounter, counters: Counters, now: u64) -> Figures {
        limit.figures(&state(counters), now, &TERMS)
    }

    fn retry_ms(limit: &SlidingCounter, counters: Counters, now: u64, count: u32) -> Option<u64> {
        limit.retry_ms(&state(counters), now, count, &TERMS)
    }

    fn life_ms(limit: &SlidingCounter) -> u64 {
        limit.life_ms().unwrap()
    }

    fn limit(interval_ms: u64, max: u64) -> SlidingCounter {
        SlidingCounter { interval_ms, max }
    }

    /// Every small state of an interval, at every millisecond of its window and a little before.
    fn each_state(interval_ms: u64, check: impl Fn(Counters, u64)) {
        let start = 1000 * interval_ms;
        for (cur, prev) in (0..64).map(|n| (n / 8, n % 8)) {
            for now in start..start + interval_ms {
                check(Counters { start, cur, prev }.or_fresh(), now);
            }
        }
    }

    /// The numerator of what counts, over the interval.
    fn numerator(interval_ms: u64, counters: Counters, now: u64) -> u64 {
        let covered_ms = interval_ms - (now - counters.start);
        counters.cur * interval_ms + counters.prev * covered_ms
    }

    #[test]
    fn it_admits_and_shows_what_exact_fractions_do() {
        for interval_ms in [1, 7, 10] {
            each_state(interval_ms, |counters, now| {
                let counted = if counters == Counters::FRESH {
                    0
                } else {
                    numerator(interval_ms, counters, now)
                };
                for max in 0..12 {
                    let limit = limit(interval_ms, max);
                    let figures = figures(&limit, counters, now);
                    assert_eq!(
                        figures.used,
                        counted / interval_ms + u64::from(counted % interval_ms > 0)
                    );
                    assert_eq!(figures.remaining, max.saturating_sub(figures.used));
                    for count in 0..12 {
                        let fits = counted + u64::from(count) * interval_ms <= max * interval_ms;
                        assert_eq!(admits(&limit, counters, now, count), fits);
                    }
                }
            });
        }
    }

    #[test]
    fn retry_is_the_first_ms_that_admits_in_this_window_or_the_next() {
        for interval_ms in [1, 7, 10] {
            each_state(interval_ms, |counters, now| {
                for (max, count) in (0..100).map(|n| (n / 10, (n % 10) as u32)) {
                    let limit = limit(interval_ms, max);
                    let admitted = |ms: &u64| {
                        let then = now + ms;
                        admits(&limit, roll(&limit, counters, then), then, count)
                    };
                    let first = (0..=2 * interval_ms).find(admitted);
                    assert_eq!(retry_ms(&limit, counters, now, count), first);
                    assert_eq!(first.is_none(), u64::from(count) > max);
                }
            });
        }
    }

    #[test]
    fn reset_is_the_first_ms_at_which_both_counters_are_0() {
        for interval_ms in [1, 7, 10] {
            each_state(interval_ms, |counters, now| {
                let limit = limit(interval_ms, 5);
                let is_fresh = |ms: &u64| roll(&limit, counters, now + ms) == Counters::FRESH;
                let first = (0..=2 * interval_ms).find(is_fresh);
                assert_eq!(figures(&limit, counters, now).reset_ms, first);
            });
        }
    }

    #[test]
    fn windows_begin_at_multiples_of_the_interval() {
        let limit = limit(1000, 5);
        let used = charge(&limit, Counters::FRESH, 12_345, 3);
        assert_eq!(used, Counters { start: 12_000, cur: 3, prev: 0 });
        assert_eq!(roll(&limit, used, 12_999), used);
        assert_eq!(roll(&limit, used, 13_000), Counters { start: 13_000, cur: 0, prev: 3 });
        assert_eq!(roll(&limit, used, 13_999), Counters { start: 13_000, cur: 0, prev: 3 });
        assert_eq!(roll(&limit, used, 14_000), Counters::FRESH);
    }

    #[test]
    fn a_start_that_is_no_multiple_of_the_interval_is_fresh() {
        let odd = Counters { start: 12_001, cur: 3, prev: 9 };
        assert_eq!(roll(&limit(1000, 5), odd, 12_345), Counters::FRESH);
        let first = Counters { start: 0, cur: 3, prev: 9 };
        assert_eq!(roll(&limit(1000, 5), first, 345), first);
    }

    #[test]
    fn giving_back_takes_from_the_current_window_alone() {
        let limit = limit(1000, 9);
        let used = Counters { start: 5000, cur: 2, prev: 4 };
        assert_eq!(charge(&limit, used, 5500, -9), Counters { start: 5000, cur: 0, prev: 4 });
        let alone = Counters { prev: 0, ..used };
        assert_eq!(charge(&limit, alone, 5500, -2), Counters::FRESH);
        assert_eq!(charge(&limit, Counters::FRESH, 5500, -1), Counters::FRESH);
        assert_eq!(charge(&limit, Counters::FRESH, 5500, 0), Counters::FRESH);
    }

    #[test]
    fn a_clock_set_back_by_less_than_the_interval_stands_still_at_the_start() {
        let limit = limit(1000, 5);
        let used = Counters { start: 5000, cur: 2, prev: 3 };
        assert_eq!(roll(&limit, used, 4001), used);
        assert_eq!(figures(&limit, used, 4001), figures(&limit, used, 5000));
        assert_eq!(retry_ms(&limit, used, 4001, 1), retry_ms(&limit, used, 5000, 1));
        assert_eq!(charge(&limit, used, 4001, 1), Counters { cur: 3, ..used });
        assert_eq!(roll(&limit, used, 4000), Counters::FRESH);
    }

    #[test]
    fn a_state_is_fresh_after_its_longest_life() {
        let limit = limit(1000, 5);
        let used = Counters { start: 5000, cur: 2, prev: 3 };
        let last_use = 4001;
        assert_ne!(roll(&limit, used, last_use + life_ms(&limit) - 2), Counters::FRESH);
        assert_eq!(roll(&limit, used, last_use + life_ms(&limit) - 1), Counters::FRESH);
    }

    #[test]
    fn nothing_overflows_at_the_bounds() {
        for interval_ms in [1, 1 << 53, u64::MAX] {
            let limit = limit(interval_ms, MAX_USED);
            for (start, counter) in [(0, u64::MAX), (u64::MAX, MAX_USED), (1 << 53, 1)] {
                for now in [0, 1, 1 << 53, u64::MAX - 1, u64::MAX] {
                    let state = roll(&limit, Counters { start, cur: counter, prev: counter }, now);
                    assert!(figures(&limit, state, now).used <= MAX_USED);
                    for count in [i32::MIN, -1, 0, 1, i32::MAX] {
                        admits(&limit, state, now, count.unsigned_abs());
                        retry_ms(&limit, state, now, count.unsigned_abs());
                        assert!(charge(&limit, state, now, count).cur <= MAX_USED);
                    }
                }
            }
        }
    }
}
