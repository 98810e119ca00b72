//! `token`: its documented cases by name.

use frs_limit::Worth;

use super::record::{DAY, HOUR, MINUTE, Record, SECOND, T0, brief, token};

/// The periods in which a rate can be written, in milliseconds.
const PERS: [u64; 5] = [1, SECOND, MINUTE, HOUR, DAY];

#[test]
fn a_bucket_is_full_at_first_and_fills_at_its_rate() {
    let mut record = Record::new(&[token(10, SECOND, 5)]);
    assert_eq!(brief(&record.query(T0, 5)), (0, 5, Some(0), None));
    assert_eq!(brief(&record.update(T0, 5)), (5, 0, Some(500), None));
    let refused = record.update(T0 + 30, 1);
    assert_eq!((refused.limited, brief(&refused)), (true, (5, 0, Some(470), Some(70))));
    assert_eq!(record.query(T0 + 30, 5).retry_ms, Some(470));
    assert_eq!((refused.window_ms, refused.figures.max), (Some(500), 5));
    assert!(record.query(T0 + 99, 1).limited);
    assert_eq!(brief(&record.update(T0 + 100, 1)), (5, 0, Some(500), None));
    assert_eq!(brief(&record.query(T0 + 599, 0)), (1, 4, Some(1), None));
    assert!(!record.is_fresh(T0 + 599));
    assert!(record.is_fresh(T0 + 600));
}

#[test]
fn a_count_above_the_burst_never_passes() {
    let record = Record::new(&[token(10, SECOND, 5)]);
    let refused = record.query(T0, 6);
    assert_eq!((refused.limited, brief(&refused)), (true, (0, 5, Some(0), None)));
}

#[test]
fn part_of_a_token_is_none_and_is_not_lost() {
    let mut record = Record::new(&[token(3, SECOND, 2)]);
    record.update(T0, 2);
    for third in 1..=3000 {
        let ready = T0 + (third * SECOND).div_ceil(3);
        assert!(record.update(ready - 1, 1).limited, "{third}");
        assert!(!record.update(ready, 1).limited, "{third}");
    }
}

#[test]
fn a_query_or_an_update_of_0_between_loses_nothing() {
    let mut record = Record::new(&[token(7, MINUTE, 3)]);
    record.update(T0, 3);
    // The third token is complete after 25,714 2/7 ms.
    for ms in 0..25_714 {
        record.update(T0 + ms, 0);
    }
    assert!(record.update(T0 + 25_714, 3).limited);
    assert!(!record.update(T0 + 25_715, 3).limited);
}

#[test]
fn the_level_is_in_units_of_86_400_000_a_token() {
    let mut record = Record::new(&[token(1, DAY, 2)]);
    record.update(T0, 1);
    assert_eq!(record.node, [86_400_000, T0]);
    record.update(T0 + 1, 0);
    assert_eq!(record.node, [86_399_999, T0 + 1]);
    assert_eq!(brief(&record.query(T0 + 1, 2)), (1, 1, Some(DAY - 1), Some(DAY - 1)));
    record.update(T0 + DAY, 0);
    assert_eq!(record.node, [0, 0]);
}

#[test]
fn a_change_of_the_rates_unit_keeps_its_meaning() {
    // 86,400 per day are 1 per second.
    let mut record = Record::new(&[token(DAY / SECOND, DAY, 10)]);
    record.update(T0, 10);
    for (rate, per_ms) in [(1, SECOND), (60, MINUTE), (3600, HOUR), (86_400, DAY)] {
        record.reload(&[token(rate, per_ms, 10)]);
        assert_eq!(brief(&record.query(T0 + 1, 1)), (10, 0, Some(9999), Some(999)));
        assert_eq!(brief(&record.query(T0 + 2500, 1)), (8, 2, Some(7500), None));
        assert_eq!(record.query(T0, 0).window_ms, Some(10_000));
    }
}

#[test]
fn a_change_of_rate_or_burst_goes_on_with_what_was_taken() {
    let mut record = Record::new(&[token(1, SECOND, 10)]);
    record.update(T0, 8);
    record.reload(&[token(4, SECOND, 10)]);
    assert_eq!(brief(&record.query(T0 + 500, 0)), (6, 4, Some(1500), None));
    record.reload(&[token(4, SECOND, 5)]);
    assert_eq!(brief(&record.query(T0 + 500, 1)), (5, 0, Some(1500), Some(500)));
    record.reload(&[token(4, SECOND, 20)]);
    assert_eq!(brief(&record.query(T0 + 500, 0)), (6, 14, Some(1500), None));
}

#[test]
fn force_takes_more_than_the_burst_and_it_must_come_back() {
    let mut record = Record::new(&[token(2, SECOND, 4)]);
    let forced = record.force(T0, 10);
    assert_eq!((forced.limited, brief(&forced)), (true, (4, 0, Some(5000), None)));
    assert_eq!(record.query(T0, 1).retry_ms, Some(3500));
    assert_eq!(record.query(T0, 0).retry_ms, Some(3000));
    assert!(record.query(T0 + 2999, 0).limited);
    assert!(!record.query(T0 + 3000, 0).limited);
    assert!(!record.update(T0 + 3500, 1).limited);
}

#[test]
fn force_saturates() {
    let mut record = Record::new(&[token(1, DAY, 4)]);
    for _ in 0..200 {
        record.force(T0, i32::MAX);
    }
    assert_eq!(record.node, [u64::MAX, T0]);
    assert_eq!(record.query(T0, 4).retry_ms, Some(u64::MAX));
    assert_eq!(record.query(T0 + 1, 4).retry_ms, Some(u64::MAX - 1));
}

#[test]
fn giving_back_fills_at_most_the_bucket() {
    let mut record = Record::new(&[token(1, SECOND, 5)]);
    record.update(T0, 4);
    assert_eq!(brief(&record.update(T0 + 500, -1)), (3, 2, Some(2500), None));
    assert_eq!(brief(&record.update(T0 + 500, i32::MIN)), (0, 5, Some(0), None));
    assert_eq!(record.node, [0, 0]);
    assert!(record.update(T0 + 500, 6).limited);
}

#[test]
fn a_clock_set_back_by_less_than_the_time_to_fill_stands_still() {
    let mut record = Record::new(&[token(2, SECOND, 4)]);
    record.update(T0, 4);
    assert_eq!(brief(&record.query(T0 - 1999, 1)), (4, 0, Some(2000), Some(500)));
    record.update(T0 - 1000, -1);
    assert_eq!(brief(&record.update(T0 - 1999, 1)), (4, 0, Some(2000), None));
    assert_eq!(brief(&record.query(T0 + 500, 1)), (3, 1, Some(1500), None));
}

#[test]
fn a_clock_set_back_by_the_time_to_fill_or_more_makes_the_bucket_full() {
    let mut record = Record::new(&[token(2, SECOND, 4)]);
    record.update(T0, 4);
    assert_eq!(brief(&record.query(T0 - 2000, 1)), (0, 4, Some(0), None));
    assert!(!record.update(T0 - 2000, 4).limited);
    assert!(!record.update(T0, 4).limited);
}

#[test]
fn every_unit_of_every_rate_fills_the_bucket_in_the_time_it_says() {
    for per_ms in PERS {
        for (rate, burst) in [(1, 1), (7, 3), (1000, 10), (86_400_001, 5)] {
            let mut record = Record::new(&[token(rate, per_ms, burst)]);
            record.update(T0, burst as i32);
            let fill_ms = (burst * per_ms).div_ceil(rate);
            assert_eq!(record.query(T0, 0).figures.reset_ms, Some(fill_ms));
            assert!(!record.is_fresh(T0 + fill_ms - 1));
            assert!(record.is_fresh(T0 + fill_ms));
        }
    }
}

#[test]
fn a_bucket_ranks_by_what_is_left_in_it() {
    let mut record = Record::new(&[token(1, SECOND, 2)]);
    assert_eq!(record.rank(T0), Worth::Expired);
    record.update(T0, 1);
    assert_eq!(record.rank(T0), Worth::Idle);
    record.update(T0, 1);
    assert_eq!(record.rank(T0), Worth::Limiting);
    assert_eq!(record.rank(T0 + SECOND), Worth::Idle);
    assert_eq!(record.rank(T0 + 2 * SECOND), Worth::Expired);
}
