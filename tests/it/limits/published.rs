//! Cases that other limiters publish in tables and tests, checked against these rules.
//!
//! The numbers are theirs, each with its source. Comments say where their limits differ.

use frs_conf::{Interval, Limit, Policy, Scope};
use frs_limit::Verdict;

use super::record::{DAY, HOUR, MINUTE, Record, SECOND, T0, brief, token};

/// Time, count, and then the expected remaining, reset, retry and limited.
type Row = (u64, i32, u64, u64, Option<u64>, bool);

/// A table of the generic cell rate algorithm: 1 per second, 4 beyond the first at once. Their
/// burst is one less than the bucket's. Their retry of -1 means none.
///
/// Sources: throttled, `rate_test.go`, TestRateLimit (<https://github.com/throttled/throttled>),
/// and with the same numbers redis-cell, `src/cell/mod.rs`, it_rate_limits
/// (<https://github.com/brandur/redis-cell>).
const GCRA: [Row; 15] = [
    (0, 6, 5, 0, None, true),
    (0, 1, 4, 1000, None, false),
    (0, 1, 3, 2000, None, false),
    (0, 1, 2, 3000, None, false),
    (0, 1, 1, 4000, None, false),
    (0, 1, 0, 5000, None, false),
    (0, 1, 0, 5000, Some(1000), true),
    (3000, 1, 2, 3000, None, false),
    (3100, 1, 1, 3900, None, false),
    (4000, 1, 1, 4000, None, false),
    (8000, 1, 4, 1000, None, false),
    (9500, 1, 4, 1000, None, false),
    (9500, 0, 4, 1000, None, false),
    (9500, 2, 2, 3000, None, false),
    (9500, 5, 2, 3000, Some(3000), true),
];

#[test]
fn throttled_and_redis_cell_the_table_of_their_cell_rate_limiters() {
    for start in [0, T0] {
        let mut record = Record::new(&[token(1, SECOND, 5)]);
        for (row, (ms, count, remaining, reset_ms, retry_ms, limited)) in GCRA.iter().enumerate() {
            let verdict = record.update(start + ms, *count);
            let shown = (5 - remaining, *remaining, Some(*reset_ms), *retry_ms);
            assert_eq!((verdict.limited, brief(&verdict)), (*limited, shown), "row {row}");
            assert_eq!(verdict.figures.max, 5, "row {row}");
        }
    }
}

/// Source: redis-cell, README.md, "Response" (<https://github.com/brandur/redis-cell>).
#[test]
fn redis_cell_the_answer_in_its_readme() {
    let mut record = Record::new(&[token(30, MINUTE, 16)]);
    let verdict = record.update(T0, 1);
    assert_eq!((verdict.limited, verdict.figures.max), (false, 16));
    assert_eq!(brief(&verdict), (1, 15, Some(2 * SECOND), None));
}

/// Source: redis-cell, `src/cell/mod.rs`, it_creates_rates_from_days, _hours, _minutes, _periods
/// and _seconds (<https://github.com/brandur/redis-cell>).
#[test]
fn redis_cell_the_time_between_two_tokens_of_a_rate() {
    let rates = [
        (24, DAY, HOUR),
        (6, HOUR, 10 * MINUTE),
        (6, MINUTE, 10 * SECOND),
        // Their limit is 6 in 2 minutes.
        (3, MINUTE, 20 * SECOND),
        (5, SECOND, 200),
    ];
    for (rate, per_ms, between_ms) in rates {
        let mut record = Record::new(&[token(rate, per_ms, 1)]);
        record.update(T0, 1);
        assert_eq!(record.update(T0, 1).retry_ms, Some(between_ms));
    }
}

/// The tests of governor's direct limiter, with their names. In governor a rate of N per second has
/// a burst of N.
///
/// Source: governor, `governor/tests/direct.rs` (<https://github.com/boinkor-net/governor>).
mod governor {
    use super::*;

    fn per_second(rate: u64) -> Record {
        Record::new(&[token(rate, SECOND, rate)])
    }

    fn passes(verdict: &Verdict) -> bool {
        !verdict.limited
    }

    /// Each call has milliseconds from the start, and whether `count` passes then.
    fn check(record: &mut Record, count: i32, calls: &[(u64, bool)]) {
        for &(ms, expected) in calls {
            assert_eq!(passes(&record.update(T0 + ms, count)), expected, "at {ms}");
        }
    }

    #[test]
    fn accepts_first_cell() {
        check(&mut per_second(5), 1, &[(0, true)]);
    }

    #[test]
    fn accepts_cells_check_n_only() {
        let record = per_second(3);
        assert!(passes(&record.query(T0, 3)));
        assert!(passes(&record.query(T0, 3)));
    }

    #[test]
    fn rejects_too_many() {
        let calls = [(0, true), (1, true), (2, false), (1002, true), (1003, true), (1004, false)];
        check(&mut per_second(2), 1, &calls);
    }

    #[test]
    fn rejects_too_many_with_consume_and_check_only() {
        let mut record = per_second(2);
        for (ms, expected) in
            [(0, true), (1, true), (2, false), (1002, true), (1003, true), (1004, false)]
        {
            assert_eq!(passes(&record.query(T0 + ms, 1)), expected);
            if expected {
                record.force(T0 + ms, 1);
            }
        }
    }

    #[test]
    fn does_not_allow_one_extra_cell_after_longer_interval() {
        let mut record = per_second(5);
        for second in [0, 2] {
            let at = second * SECOND;
            let calls = [true, true, true, true, true, false].map(|passes| (at, passes));
            check(&mut record, 1, &calls);
        }
    }

    #[test]
    fn consume_n_borrow_from_future() {
        let mut record = per_second(2);
        assert!(passes(&record.query(T0, 2)));
        record.force(T0, 2);
        assert!(!passes(&record.query(T0, 2)));
        record.force(T0, 2);
        assert!(!passes(&record.query(T0, 2)));
        assert!(!passes(&record.query(T0 + 1000, 2)));
        assert!(passes(&record.query(T0 + 2000, 2)));
    }

    #[test]
    fn consume_borrow_from_future() {
        let mut record = per_second(1);
        assert!(passes(&record.query(T0, 1)));
        record.force(T0, 1);
        record.force(T0, 1);
        assert!(!passes(&record.query(T0, 1)));
        assert!(!passes(&record.query(T0 + 1000, 1)));
        assert!(passes(&record.query(T0 + 2000, 1)));
    }

    #[test]
    fn never_allows_more_than_capacity_all() {
        let calls = [(0, true), (0, true), (1, false), (1001, true), (1002, true), (1003, false)];
        check(&mut per_second(4), 2, &calls);
    }

    #[test]
    fn rejects_too_many_all() {
        check(&mut per_second(5), 15, &[(0, false), (3000, false)]);
    }

    #[test]
    fn all_capacity_check_rejects_excess() {
        let mut record = per_second(5);
        for count in [15, 7, 6] {
            let refused = record.update(T0, count);
            assert_eq!((refused.limited, refused.retry_ms), (true, None));
        }
        assert!(passes(&record.update(T0, 5)));
    }

    #[test]
    fn correct_wait_time() {
        let mut record = per_second(5);
        let mut now = T0;
        for _ in 0..20 {
            now += 1;
            if let Some(retry_ms) = record.update(now, 1).retry_ms {
                assert!(record.query(now + retry_ms - 1, 1).limited);
                now += retry_ms;
                assert!(passes(&record.update(now, 1)));
            }
        }
        // 5 at once, then 15 at 5 per second since the first.
        assert_eq!(now, T0 + 1 + 15 * 200);
    }

    #[test]
    fn actual_threadsafety() {
        let mut calls = vec![(0, true); 20];
        calls.extend([(2, false), (1000, true)]);
        check(&mut per_second(20), 1, &calls);
    }

    #[test]
    fn stresstest_large_quotas() {
        let mut record = per_second(1_000_000_001);
        for call in 1..=1000 {
            assert_eq!(record.update(T0, 1).figures.remaining, 1_000_000_001 - call);
        }
    }

    fn remaining_of(record: &mut Record, now: u64, count: i32) -> Option<u64> {
        let verdict = record.update(now, count);
        passes(&verdict).then_some(verdict.figures.remaining)
    }

    /// Source: as above, `governor/tests/middleware.rs`.
    #[test]
    fn state_information() {
        let mut record = per_second(4);
        for expected in [Some(3), Some(2), Some(1), Some(0), None] {
            assert_eq!(remaining_of(&mut record, T0, 1), expected);
        }
    }

    /// Source: as above, `governor/tests/middleware.rs`. In that test a sixth call passes after the
    /// pause, and its comment says that this is wrong. Here it is refused.
    #[test]
    fn state_snapshot_tracks_quota_accurately() {
        let mut record = Record::new(&[token(5, MINUTE, 5)]);
        for (count, expected) in [(1, Some(4)), (3, Some(1)), (1, Some(0)), (1, None)] {
            assert_eq!(remaining_of(&mut record, T0, count), expected);
        }
        for expected in [Some(4), Some(3), Some(2), Some(1), Some(0), None] {
            assert_eq!(remaining_of(&mut record, T0 + 2 * MINUTE, 1), expected);
        }
    }
}

/// 25 calls under 20 a minute, and 15 calls under 20 a minute and 10 an hour, which are two limits
/// of one record here. In Envoy the first of the two also counts what the second refuses: 9 left
/// after the 11th call, 5 after the 15th. Here refused calls are not counted, and 10 stay.
///
/// Source: Envoy's ratelimit, `test/integration/integration_test.go`, TestBasicConfig
/// (<https://github.com/envoyproxy/ratelimit>).
mod envoy_ratelimit {
    use super::*;

    fn window(interval_ms: u64, max: u64) -> Limit {
        Limit::new(Scope::Key, Policy::Interval(Interval { interval_ms, max, debt: 0 }))
    }

    #[test]
    fn twenty_a_minute() {
        let mut record = Record::new(&[window(MINUTE, 20)]);
        for call in 1..=25 {
            let verdict = record.update(T0, 1);
            assert_eq!(verdict.limited, call > 20);
            assert_eq!(verdict.figures.remaining, 20_u64.saturating_sub(call));
        }
    }

    #[test]
    fn twenty_a_minute_keep_10_where_10_an_hour_refuse() {
        let mut record = Record::new(&[window(MINUTE, 20), window(HOUR, 10)]);
        for call in 1..=15 {
            let verdict = record.update(T0, 1);
            assert_eq!((verdict.limited, verdict.limit), (call > 10, 2));
            let details = record.details(T0, 1);
            let remaining = details.iter().map(|detail| detail.figures.remaining);
            let charged = call.min(10);
            assert_eq!(remaining.collect::<Vec<u64>>(), [20 - charged, 10 - charged]);
        }
    }
}
