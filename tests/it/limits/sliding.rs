//! `sliding`: its documented cases by name, and all its figures against a simple log.

use std::collections::VecDeque;

use frs_conf::Limit;
use frs_limit::LimitFigures;
use frs_limit::Worth;
use proptest::prelude::*;

use super::record::{DAY, HOUR, MINUTE, Record, SECOND, T0, brief, sliding};

/// used of each limit
fn used(record: &Record, now: u64) -> Vec<u64> {
    record.details(now, 0).iter().map(|detail| detail.figures.used).collect()
}

#[test]
fn a_use_leaves_after_exactly_an_interval() {
    let mut record = Record::new(&[sliding(MINUTE, 3)]);
    assert_eq!(brief(&record.query(T0, 1)), (0, 3, Some(0), None));
    assert_eq!(brief(&record.update(T0, 1)), (1, 2, Some(MINUTE), None));
    assert_eq!(brief(&record.update(T0 + 20_000, 2)), (3, 0, Some(MINUTE), None));
    assert_eq!(brief(&record.update(T0 + 59_999, 1)), (3, 0, Some(20_001), Some(1)));
    assert_eq!(brief(&record.query(T0 + MINUTE, 1)), (2, 1, Some(20_000), None));
    assert_eq!(brief(&record.update(T0 + MINUTE, 1)), (3, 0, Some(MINUTE), None));
    assert_eq!(record.query(T0 + MINUTE, 3).retry_ms, Some(MINUTE));
    assert_eq!(record.query(T0 + MINUTE, 2).retry_ms, Some(20_000));
    assert_eq!(record.query(T0 + MINUTE, 2).window_ms, Some(MINUTE));
    assert!(!record.is_fresh(T0 + 2 * MINUTE - 1));
    assert!(record.is_fresh(T0 + 2 * MINUTE));
}

#[test]
fn two_uses_in_one_millisecond_are_two() {
    let mut record = Record::new(&[sliding(SECOND, 3)]);
    record.update(T0, 1);
    assert_eq!(record.update(T0, 1).figures.used, 2);
    assert!(record.update(T0, 2).limited);
    assert_eq!(record.update(T0, 1).figures.used, 3);
    assert_eq!(record.query(T0 + 999, 1).figures.used, 3);
    assert_eq!(record.query(T0 + 1000, 1).figures.used, 0);
}

#[test]
fn there_are_never_more_than_max_in_any_interval() {
    let mut record = Record::new(&[sliding(100, 7)]);
    let admitted: Vec<u64> =
        (0..1000).map(|step| T0 + 3 * step).filter(|&now| !record.update(now, 1).limited).collect();
    assert!(admitted.windows(8).all(|eight| eight[7] - eight[0] >= 100));
    assert!(admitted.len() >= 7 * 29);
}

#[test]
fn one_ring_of_50_serves_15_a_minute_and_50_a_day() {
    let mut record = Record::new(&[sliding(MINUTE, 15), sliding(DAY, 50)]);
    assert_eq!(record.words(), 2 + 25);
    for minute in 0..3 {
        let now = T0 + minute * MINUTE;
        for _ in 0..15 {
            assert!(!record.update(now, 1).limited);
        }
        let refused = record.update(now + 30_000, 1);
        assert_eq!((refused.limit, refused.figures.max), (1, 15));
        assert_eq!(refused.retry_ms, Some(30_000));
    }
    let now = T0 + 3 * MINUTE;
    assert_eq!(used(&record, now), [0, 45]);
    assert!(!record.update(now, 5).limited);
    assert_eq!(used(&record, now), [5, 50]);
    let refused = record.update(now, 1);
    assert_eq!((refused.limit, refused.retry_ms), (2, Some(DAY - 3 * MINUTE)));
    assert_eq!(used(&record, now + MINUTE), [0, 50]);
    assert!(!record.update(T0 + DAY, 15).limited);
    assert_eq!(used(&record, T0 + DAY), [15, 50]);
}

#[test]
fn giving_back_takes_the_last_use() {
    let mut record = Record::new(&[sliding(100, 5)]);
    for ms in [0, 10, 20] {
        record.update(T0 + ms, 1);
    }
    let back = record.update(T0 + 30, -1);
    assert_eq!(brief(&back), (2, 3, Some(80), None));
    assert_eq!(used(&record, T0 + 100), [1]);
    assert_eq!(record.update(T0 + 40, -9).figures.used, 0);
    assert!(record.is_fresh(T0 + 40));
    assert_eq!(record.update(T0 + 40, -1).figures.used, 0);
}

#[test]
fn force_charges_beyond_a_max_up_to_the_largest_one() {
    let mut record = Record::new(&[sliding(SECOND, 3), sliding(MINUTE, 10)]);
    assert!(!record.force(T0, 3).limited);
    let forced = record.force(T0, 5);
    assert_eq!((forced.limited, forced.limit, brief(&forced).0), (true, 1, 8));
    assert_eq!(used(&record, T0), [8, 8]);
    record.force(T0 + 1, i32::MAX);
    assert_eq!(used(&record, T0 + 1), [10, 10]);
    assert_eq!(record.details(T0 + 1, 0)[0].retry_ms, Some(SECOND));
    let later = T0 + 1 + SECOND;
    assert_eq!(used(&record, later), [0, 10]);
    assert_eq!(record.query(later, 1).retry_ms, Some(MINUTE - SECOND));
}

#[test]
fn max_0_admits_only_a_check() {
    let mut record = Record::new(&[sliding(SECOND, 0)]);
    assert_eq!(record.words(), 2);
    assert!(!record.update(T0, 0).limited);
    let refused = record.update(T0, 1);
    assert_eq!((refused.limited, refused.retry_ms), (true, None));
    record.force(T0, 5);
    assert!(record.is_fresh(T0));
}

#[test]
fn count_0_is_a_check_that_fails_above_the_maximum() {
    let mut record = Record::new(&[sliding(SECOND, 2), sliding(MINUTE, 9)]);
    record.force(T0, 2);
    assert!(!record.update(T0, 0).limited);
    record.force(T0 + 5, 1);
    let refused = record.update(T0 + 5, 0);
    assert_eq!((refused.limited, refused.retry_ms), (true, Some(SECOND - 5)));
}

#[test]
fn a_count_above_max_never_passes() {
    let record = Record::new(&[sliding(SECOND, 4)]);
    assert_eq!(record.query(T0, 4).retry_ms, None);
    assert!(!record.query(T0, 4).limited);
    let never = record.query(T0, 5);
    assert_eq!((never.limited, never.retry_ms), (true, None));
}

#[test]
fn a_refused_use_changes_no_word() {
    let mut record = Record::new(&[sliding(SECOND, 2)]);
    record.update(T0, 2);
    let before = record.node.clone();
    assert!(record.update(T0 + 500, 1).limited);
    record.query(T0 + 5 * SECOND, 1);
    assert_eq!(record.node, before);
}

#[test]
fn a_use_of_a_full_log_changes_two_words() {
    let mut record = Record::new(&[sliding(SECOND, 2000), sliding(20 * SECOND, 4000)]);
    record.force(T0, 4000);
    for ms in 1..100 {
        let before = record.node.clone();
        record.force(T0 + ms, 1);
        let changed = before.iter().zip(&record.node).filter(|(old, new)| old != new).count();
        assert_eq!(changed, 2);
    }
}

#[test]
fn a_smaller_ring_keeps_the_newest_uses() {
    let mut record = Record::new(&[sliding(HOUR, 9)]);
    for minute in 0..12 {
        record.force(T0 + minute * MINUTE, 1);
    }
    let now = T0 + 12 * MINUTE;
    record.reload(&[sliding(HOUR, 4)]);
    assert_eq!(used(&record, now), [4]);
    let refused = record.query(now, 1);
    assert_eq!(refused.retry_ms, Some(HOUR + 8 * MINUTE - 12 * MINUTE));
    assert!(!record.update(T0 + HOUR + 8 * MINUTE, 1).limited);
    assert!(record.update(T0 + HOUR + 8 * MINUTE, 1).limited);
}

#[test]
fn a_larger_ring_keeps_all_uses() {
    let mut record = Record::new(&[sliding(HOUR, 4)]);
    for minute in 0..7 {
        record.force(T0 + minute * MINUTE, 1);
    }
    record.reload(&[sliding(HOUR, 4000)]);
    let now = T0 + 7 * MINUTE;
    assert_eq!(used(&record, now), [4]);
    assert!(!record.update(now, 3996).limited);
    assert!(record.update(now, 1).limited);
    assert_eq!(record.query(now, 1).retry_ms, Some(HOUR - 4 * MINUTE));
}

#[test]
fn a_log_of_45_days_is_exact_for_a_year() {
    let limits = [Written { interval_ms: 45 * DAY, max: 40 }, Written { interval_ms: DAY, max: 3 }];
    let mut pair = Pair::new(&limits);
    let steps = [5 * HOUR + 1, 7, 26 * HOUR, 3 * DAY, 11 * HOUR, 30 * DAY, 50 * DAY, HOUR];
    let mut now = T0;
    for step in 0..3000 {
        now += steps[step * step / 7 % 5];
        if step % 500 == 499 {
            now += steps[5 + step / 500 % 3];
        }
        pair.update(now, 1);
        pair.check_used(now);
    }
    assert!(now > T0 + 365 * DAY);
}

#[test]
fn a_clock_set_back_counts_uses_within_an_interval_on_either_side() {
    let mut record = Record::new(&[sliding(SECOND, 3)]);
    record.update(T0, 1);
    assert_eq!(brief(&record.query(T0 - 999, 1)), (1, 2, Some(1999), None));
    assert_eq!(brief(&record.query(T0 - 1000, 1)), (0, 3, Some(0), None));
    assert_eq!(record.update(T0 - 999, 2).figures.used, 3);
    // The oldest use is the one that came last.
    assert_eq!(record.query(T0 - 500, 1).retry_ms, Some(501));
    assert_eq!(record.query(T0 - 500, 3).retry_ms, Some(1500));
    assert!(!record.update(T0 + 1, 2).limited);
}

#[test]
fn a_clock_set_far_back_starts_afresh_and_nothing_comes_back_with_it() {
    let mut record = Record::new(&[sliding(SECOND, 2)]);
    record.update(T0, 2);
    let back = T0 - DAY;
    assert!(!record.update(back, 1).limited);
    // The step back dropped the future uses.
    assert_eq!(used(&record, T0), [0]);
}

#[test]
fn a_clock_set_forward_forgets_and_set_right_again_counts_from_there() {
    let mut record = Record::new(&[sliding(MINUTE, 2), sliding(HOUR, 3)]);
    record.update(T0, 2);
    let ahead = T0 + DAY;
    assert!(!record.update(ahead, 2).limited);
    assert_eq!(used(&record, T0 + 1), [0, 0]);
    assert!(!record.update(T0 + 1, 2).limited);
    assert!(record.update(T0 + 2, 1).limited);
}

#[test]
fn no_step_of_the_clock_locks_out_for_longer_than_two_intervals() {
    for step_ms in (0..4000).step_by(7) {
        let mut record = Record::new(&[sliding(SECOND, 2)]);
        record.update(T0, 1);
        record.update(T0 + 1, 1);
        let now = T0 + 1 - step_ms;
        let retry_ms = record.query(now, 2).retry_ms.unwrap_or(0);
        assert!(retry_ms < 2 * SECOND);
        assert!(!record.query(now + retry_ms, 2).limited);
    }
}

#[test]
fn retry_looks_past_uses_that_are_counted_only_later() {
    // Set back by ten seconds under a log of one minute: two each second are still to return.
    let mut record = Record::new(&[sliding(SECOND, 2), sliding(MINUTE, 50)]);
    for half in 0..20 {
        assert!(!record.update(T0 + half * 500, 1).limited);
    }
    let now = T0 - 1500;
    assert_eq!(record.details(now, 1)[0].figures.used, 0);
    let now = T0;
    let details = record.details(now, 1);
    assert_eq!(details[0].figures.used, 2);
    let retry_ms = details[0].retry_ms.unwrap();
    assert!((1..retry_ms).all(|ms| record.query(now + ms, 1).limited));
    assert!(!record.query(now + retry_ms, 1).limited);
}

#[test]
fn a_log_of_4096_is_exact() {
    let mut record = Record::new(&[sliding(HOUR, 4096)]);
    assert_eq!(record.words(), 2050);
    for ms in 0..4096 {
        assert!(!record.update(T0 + ms, 1).limited);
    }
    let now = T0 + 4096;
    assert_eq!(brief(&record.update(now, 1)), (4096, 0, Some(HOUR - 1), Some(HOUR - 4096)));
    assert_eq!(record.query(now, 100).retry_ms, Some(HOUR - 4096 + 99));
    assert_eq!(record.query(now, 4096).retry_ms, Some(HOUR - 1));
    for ms in 0..4096 {
        assert!(!record.update(T0 + HOUR + ms, 1).limited);
        assert!(record.update(T0 + HOUR + ms, 1).limited);
    }
}

#[test]
fn a_log_of_4096_in_no_order_is_exact() {
    let mut record = Record::new(&[sliding(HOUR, 4096)]);
    // Each time of 4096 once, since 2731 is prime to it.
    for step in 0..4096 {
        assert!(!record.update(T0 + step * 2731 % 4096, 1).limited);
    }
    for count in [1, 2, 1000, 4095, 4096] {
        let refused = record.query(T0 + 4096, count);
        assert_eq!(refused.retry_ms, Some(HOUR - 4096 + count as u64 - 1));
        assert_eq!(refused.figures.reset_ms, Some(HOUR - 1));
    }
}

#[test]
fn a_node_last_used_a_longest_life_ago_is_expired() {
    let mut record = Record::new(&[sliding(SECOND, 2), sliding(MINUTE, 5)]);
    assert_eq!(record.rank(T0), Worth::Expired);
    record.update(T0, 1);
    assert_eq!(record.rank(T0), Worth::Idle);
    record.update(T0, 1);
    assert_eq!(record.rank(T0), Worth::Limiting);
    assert_eq!(record.rank(T0 + MINUTE), Worth::Expired);
    // The worst case: the clock was set back at the last use.
    let last_use = T0 - MINUTE + 1;
    record.update(last_use, 1);
    let life_ms = record.longest_life_ms().unwrap();
    assert_eq!(life_ms, 2 * MINUTE);
    assert_eq!(record.rank(last_use + life_ms - 2), Worth::Idle);
    assert_eq!(record.rank(last_use + life_ms), Worth::Expired);
}

/// A limit as written.
#[derive(Debug, Clone, Copy)]
struct Written {
    interval_ms: u64,
    max: u64,
}

/// Limits as written, and the log that judges them here.
struct Pair {
    limits: Vec<Written>,
    record: Record,
    log: VecDeque<u64>,
}

impl Pair {
    fn new(limits: &[Written]) -> Pair {
        let of = |limit: &Written| sliding(limit.interval_ms, limit.max);
        let sliding: Vec<Limit> = limits.iter().map(of).collect();
        Pair { limits: limits.to_vec(), record: Record::new(&sliding), log: VecDeque::new() }
    }

    fn rolled(&self, now: u64) -> VecDeque<u64> {
        let longest_ms = self.limits.iter().map(|limit| limit.interval_ms).max().unwrap();
        self.log.iter().copied().filter(|time| time.abs_diff(now) < longest_ms).collect()
    }

    fn admits(&self, now: u64, count: i32) -> bool {
        let log = self.rolled(now);
        self.limits.iter().all(|&limit| count < 0 || has_room(&log, limit, now, count))
    }

    fn charge(&mut self, now: u64, count: i32) {
        let held = self.limits.iter().map(|limit| limit.max).max().unwrap() as usize;
        self.log = self.rolled(now);
        for _ in 0..count {
            self.log.push_back(now);
        }
        self.log.truncate(self.log.len().saturating_sub(count.min(0).unsigned_abs() as usize));
        self.log.drain(..self.log.len().saturating_sub(held));
    }

    fn update(&mut self, now: u64, count: i32) {
        let admitted = self.admits(now, count);
        assert_eq!(!self.record.update(now, count).limited, admitted);
        if admitted {
            self.charge(now, count);
        }
    }

    fn force(&mut self, now: u64, count: i32) {
        let admitted = self.admits(now, count);
        assert_eq!(!self.record.force(now, count).limited, admitted);
        self.charge(now, count);
    }

    fn check_used(&self, now: u64) {
        let log = self.rolled(now);
        let expected =
            self.limits.iter().map(|limit| counted(&log, limit.interval_ms, now).count() as u64);
        assert_eq!(used(&self.record, now), expected.collect::<Vec<_>>());
        assert_eq!(self.record.is_fresh(now), log.is_empty());
    }

    /// Checks all figures of each limit. It finds retry by trying each millisecond in turn.
    fn check(&self, now: u64, count: i32) {
        let log = self.rolled(now);
        for (detail, &limit) in self.record.details(now, count).iter().zip(&self.limits) {
            let LimitFigures { figures, .. } = detail;
            let Written { interval_ms, max } = limit;
            let newest = counted(&log, interval_ms, now).max();
            let used = counted(&log, interval_ms, now).count() as u64;
            assert_eq!((figures.used, figures.max), (used, max));
            assert_eq!(figures.remaining, max.saturating_sub(used));
            assert_eq!(figures.reset_ms, Some(newest.map_or(0, |time| time + interval_ms - now)));
            assert_eq!(detail.limited, !has_room(&log, limit, now, count));
            let retry_ms = if detail.limited && count as u64 <= max {
                (1..1000).find(|ms| has_room(&log, limit, now + ms, count))
            } else {
                None
            };
            assert_eq!(detail.retry_ms, retry_ms, "{log:?} {limit:?} {now} {count}");
        }
    }
}

fn counted(log: &VecDeque<u64>, interval_ms: u64, now: u64) -> impl Iterator<Item = u64> {
    log.iter().copied().filter(move |time| time.abs_diff(now) < interval_ms)
}

fn has_room(log: &VecDeque<u64>, limit: Written, now: u64, count: i32) -> bool {
    counted(log, limit.interval_ms, now).count() as u64 + count as u64 <= limit.max
}

#[test]
fn after_every_sequence_of_small_steps_all_that_is_shown_is_what_the_log_says() {
    const STEPS: [i64; 6] = [-6, -2, 0, 1, 3, 7];
    for sequence in 0..6_usize.pow(5) {
        let mut pair =
            Pair::new(&[Written { interval_ms: 3, max: 2 }, Written { interval_ms: 8, max: 4 }]);
        let mut now = T0;
        for nth in 0..5 {
            now = now.strict_add_signed(STEPS[sequence / 6_usize.pow(nth) % 6]);
            pair.update(now, 1);
        }
        for count in [0, 1, 3] {
            pair.check(now, count);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Update(i32),
    Force(i32),
    Query(i32),
}

fn steps() -> impl Strategy<Value = Vec<(i64, Step)>> {
    let clock = prop_oneof![6 => 0_i64..12, 1 => -12_i64..0, 1 => -60_i64..60];
    let step = prop_oneof![
        6 => (0..4).prop_map(Step::Update),
        1 => (-4..0).prop_map(Step::Update),
        1 => (-2..20).prop_map(Step::Force),
        2 => (0..9).prop_map(Step::Query),
    ];
    prop::collection::vec((clock, step), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn after_any_steps_all_that_is_shown_is_what_the_log_says(
        limits in prop::collection::vec(
            (1_u64..40, 0_u64..9).prop_map(|(interval_ms, max)| Written { interval_ms, max }),
            1..4,
        ),
        steps in steps(),
    ) {
        let mut pair = Pair::new(&limits);
        let mut now = T0;
        for (clock, step) in steps {
            now = now.strict_add_signed(clock);
            let count = match step {
                Step::Update(count) => { pair.update(now, count); count }
                Step::Force(count) => { pair.force(now, count); count }
                Step::Query(count) => count,
            };
            pair.check_used(now);
            pair.check(now, count.max(0));
            pair.check(now, 1);
        }
    }
}
