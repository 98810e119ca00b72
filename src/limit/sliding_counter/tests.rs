//! The counters against exact fractions, and against the first millisecond at which each condition
//! holds.

use super::*;

const TERMS: Terms = Terms::NEW;

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

/// The numerator of the weighted uses, over the interval.
fn numerator(interval_ms: u64, counters: Counters, now: u64) -> u64 {
    let covered_ms = interval_ms - (now - counters.start);
    counters.cur * interval_ms + counters.prev * covered_ms
}

#[test]
fn it_admits_and_shows_what_exact_fractions_do() {
    for interval_ms in [1, 7, 10] {
        each_state(interval_ms, |counters, now| {
            let counted =
                if counters == Counters::FRESH { 0 } else { numerator(interval_ms, counters, now) };
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
