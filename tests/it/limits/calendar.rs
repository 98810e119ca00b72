//! The worked cases of `calendar` and `count` by name, and both policies against a model that steps
//! from window to window.
//!
//! [`Record`] replaces service and store, as in the cases of the other policies.

use std::ops::Range;

use super::record::{DAY, HOUR, MINUTE, Record, brief};
use frs_conf::{Calendar, Count, Limit, Policy, Scope, Turns, Unit};
use frs_limit::Worth;
use frs_limit::{MAX_USED, Verdict};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use proptest::prelude::*;

fn utc(text: &str) -> u64 {
    let instant: Timestamp = text.parse().expect(text);
    u64::try_from(instant.as_millisecond()).expect(text)
}

fn turns(unit: Unit, zone: &str) -> Turns {
    Turns { unit, zone: TimeZone::get(zone).expect(zone), at_minutes: 0 }
}

fn calendar(turns: Turns, max: u64, debt: u64) -> Limit {
    Limit::new(Scope::Key, Policy::Calendar(Calendar { turns, max, debt }))
}

fn count(turns: Option<Turns>) -> Limit {
    Limit::new(Scope::Key, Policy::Count(Count { turns }))
}

fn of(turns: Turns, max: u64, debt: u64) -> Record {
    Record::new(&[calendar(turns, max, debt)])
}

#[test]
fn a_calendar_window_turns_for_all_uses_alike() {
    let mut record = of(turns(Unit::Hour, "UTC"), 3, 0);
    let ten = utc("2026-03-01T10:00Z");
    assert_eq!(brief(&record.query(ten + 5, 1)), (0, 3, Some(0), None));
    assert_eq!(brief(&record.update(ten + 50 * MINUTE, 1)), (1, 2, Some(10 * MINUTE), None));
    assert_eq!(record.node, [ten, 1]);
    assert_eq!(brief(&record.update(ten + 59 * MINUTE, 2)), (3, 0, Some(MINUTE), None));
    let refused = record.update(ten + HOUR - 1, 1);
    assert_eq!((refused.limited, brief(&refused)), (true, (3, 0, Some(1), Some(1))));
    assert_eq!(record.node, [ten, 3]);
    let passed = record.update(ten + HOUR, 1);
    assert_eq!((passed.limited, brief(&passed)), (false, (1, 2, Some(HOUR), None)));
    assert_eq!((passed.window_ms, passed.figures.max), (Some(HOUR), 3));
    assert_eq!(record.node, [ten + HOUR, 1]);
}

#[test]
fn a_window_is_as_long_as_the_day_month_or_year_that_it_is() {
    let length = |unit, at| of(turns(unit, "America/New_York"), 1, 0).query(utc(at), 0);
    let cases = [
        (Unit::Minute, "2026-03-08T12:00Z", MINUTE),
        (Unit::Day, "2026-03-08T12:00Z", 23 * HOUR),
        (Unit::Day, "2026-03-09T12:00Z", DAY),
        (Unit::Day, "2026-11-01T12:00Z", 25 * HOUR),
        (Unit::Week, "2026-03-08T12:00Z", 7 * DAY - HOUR),
        (Unit::Month, "2024-02-29T12:00Z", 29 * DAY),
        (Unit::Month, "2026-02-28T12:00Z", 28 * DAY),
        (Unit::Month, "2026-11-30T12:00Z", 30 * DAY + HOUR),
        (Unit::Year, "2024-12-31T12:00Z", 366 * DAY),
        (Unit::Year, "2026-12-31T12:00Z", 365 * DAY),
    ];
    for (unit, at, expected) in cases {
        assert_eq!(length(unit, at).window_ms, Some(expected), "{unit:?} {at}");
    }
}

#[test]
fn a_day_turns_at_its_local_time() {
    let at_0230 = Turns { at_minutes: 150, ..turns(Unit::Day, "America/New_York") };
    let mut record = of(at_0230, 1, 0);
    // The gap of 2026-03-08 ends at 07:00Z.
    assert!(!record.update(utc("2026-03-08T06:00Z"), 1).limited);
    let refused = record.update(utc("2026-03-08T06:59:59.999Z"), 1);
    assert_eq!((refused.retry_ms, refused.window_ms), (Some(1), Some(23 * HOUR + 30 * MINUTE)));
    let passed = record.update(utc("2026-03-08T07:00Z"), 1);
    assert_eq!(brief(&passed), (1, 0, Some(23 * HOUR + 30 * MINUTE), None));
}

#[test]
fn the_time_told_holds_for_its_window() {
    let limits = [
        calendar(turns(Unit::Day, "America/New_York"), 1, 0),
        count(Some(turns(Unit::Hour, "UTC"))),
    ];
    let mut rules = Record::new(&limits).rules;
    let hour = rules.set_now(utc("2026-03-08T05:30Z"));
    assert_eq!((hour.from, hour.until), (utc("2026-03-08T05:00Z"), utc("2026-03-08T06:00Z")));
    let mut forever = Record::new(&[count(None)]).rules;
    let ever = forever.set_now(7);
    assert_eq!((ever.from, ever.until), (0, u64::MAX));
}

#[test]
fn debt_is_settled_at_each_turn() {
    let mut record = of(turns(Unit::Hour, "UTC"), 1000, 300);
    let ten = utc("2026-03-01T10:00Z");
    let hour_1 = record.update(ten + 7, 1200);
    assert_eq!((hour_1.limited, brief(&hour_1)), (false, (1200, 100, Some(HOUR - 7), None)));
    assert_eq!(brief(&record.query(ten + HOUR, 0)), (200, 1100, Some(HOUR), None));
    let hour_2 = record.update(ten + HOUR + 5, 700);
    assert_eq!((hour_2.limited, brief(&hour_2)), (false, (900, 400, Some(HOUR - 5), None)));
    assert_eq!(record.node, [ten + HOUR, 900]);
    assert_eq!(brief(&record.query(ten + 2 * HOUR, 0)), (0, 1300, Some(0), None));
}

#[test]
fn debt_lasts_over_several_windows_of_unequal_length() {
    let mut record = of(turns(Unit::Day, "America/New_York"), 10, 5);
    let friday = utc("2026-03-06T05:00Z");
    record.force(friday + HOUR, 38);
    // Saturday: 28. Sunday, of 23 hours: 18. Monday: 8, from 04:00Z on.
    assert_eq!(record.query(utc("2026-03-07T05:00Z"), 0).figures.used, 28);
    assert_eq!(record.query(utc("2026-03-09T03:59:59.999Z"), 0).figures.used, 18);
    assert_eq!(record.query(utc("2026-03-09T04:00Z"), 0).figures.used, 8);
    assert_eq!(record.query(utc("2026-03-10T03:59:59.999Z"), 0).figures.used, 8);
    assert_eq!(record.query(utc("2026-03-10T04:00Z"), 0).figures.used, 0);

    let now = friday + 2 * HOUR;
    let retry = |count| record.query(now, count).retry_ms;
    assert_eq!(retry(0), Some(utc("2026-03-09T04:00Z") - now));
    assert_eq!(retry(7), Some(utc("2026-03-09T04:00Z") - now));
    assert_eq!(retry(8), Some(utc("2026-03-10T04:00Z") - now));
    assert_eq!(retry(15), Some(utc("2026-03-10T04:00Z") - now));
    assert_eq!(retry(16), None); // above max and debt
    // The window's turn comes first.
    assert_eq!(record.query(now, 0).figures.reset_ms, Some(utc("2026-03-07T05:00Z") - now));
}

#[test]
fn without_debt_forced_use_is_forgotten_at_the_turn() {
    let mut record = of(turns(Unit::Month, "UTC"), 10, 0);
    let now = utc("2026-01-31T23:00Z");
    record.force(now, 5000);
    assert_eq!(brief(&record.query(now, 10)), (5000, 0, Some(HOUR), Some(HOUR)));
    assert_eq!(brief(&record.query(now + HOUR, 10)), (0, 10, Some(0), None));
}

#[test]
fn a_count_over_max_and_debt_never_passes() {
    let fresh = of(turns(Unit::Day, "UTC"), 10, 0).query(DAY, 11);
    assert_eq!((fresh.limited, brief(&fresh)), (true, (0, 10, Some(0), None)));
    let nothing = of(turns(Unit::Day, "UTC"), 0, 0);
    assert!(!nothing.query(DAY, 0).limited);
    assert_eq!((nothing.query(DAY, 1).limited, nothing.query(DAY, 1).retry_ms), (true, None));
}

#[test]
fn a_debt_that_outlasts_the_calendar_has_no_retry() {
    let mut record = of(turns(Unit::Year, "UTC"), 1, 1);
    record.force(utc("2026-01-01T00:00Z"), i32::MAX);
    let refused = record.query(utc("2026-07-01T00:00Z"), 1);
    assert_eq!((refused.limited, refused.retry_ms), (true, None));
    assert_eq!(refused.figures.reset_ms, Some(184 * DAY));
}

#[test]
fn giving_back_all_makes_the_state_fresh() {
    let mut record = of(turns(Unit::Week, "Asia/Tokyo"), 5, 0);
    let now = utc("2026-03-04T12:00Z");
    record.update(now, 3);
    assert_eq!(record.node, [utc("2026-03-01T15:00Z"), 3]);
    record.update(now + 1, -2);
    assert_eq!(record.node, [utc("2026-03-01T15:00Z"), 1]);
    assert_eq!(brief(&record.update(now + 2, -2)), (0, 5, Some(0), None));
    assert_eq!(record.node, [0, 0]);
}

#[test]
fn used_saturates() {
    let mut record = of(turns(Unit::Hour, "UTC"), 5, 0);
    record.node = vec![5 * HOUR, MAX_USED - 3];
    assert_eq!(record.force(5 * HOUR, i32::MAX).figures.used, MAX_USED);
    assert_eq!(record.node, [5 * HOUR, MAX_USED]);
    assert_eq!(record.force(5 * HOUR, -1).figures.used, MAX_USED - 1);
}

#[test]
fn a_clock_set_back_by_less_than_the_states_window_stands_still_at_its_start() {
    // Sunday has 23 hours, the Saturday before it 24.
    let sunday = utc("2026-03-08T05:00Z");
    let mut record = of(turns(Unit::Day, "America/New_York"), 2, 0);
    record.update(sunday + HOUR, 1);
    let back = sunday - 23 * HOUR + 1;
    let second = record.update(back, 1);
    assert_eq!(
        (brief(&second), second.window_ms),
        ((2, 0, Some(23 * HOUR), None), Some(23 * HOUR))
    );
    assert_eq!(record.node, [sunday, 2]);
    assert_eq!(brief(&record.update(back, 1)), (2, 0, Some(23 * HOUR), Some(23 * HOUR)));
    assert_eq!(brief(&record.update(sunday - 1, 1)), (2, 0, Some(23 * HOUR), Some(23 * HOUR)));
    assert_eq!(brief(&record.update(sunday + HOUR, 1)), (2, 0, Some(22 * HOUR), Some(22 * HOUR)));
    assert!(!record.update(sunday + 23 * HOUR, 1).limited);
}

#[test]
fn a_clock_set_back_within_the_window_changes_its_reset_alone() {
    let mut record = of(turns(Unit::Hour, "UTC"), 2, 0);
    record.update(5 * HOUR + 30 * MINUTE, 1);
    assert_eq!(brief(&record.update(5 * HOUR + 10 * MINUTE, 1)), (2, 0, Some(50 * MINUTE), None));
}

#[test]
fn a_clock_set_back_by_the_states_window_or_more_makes_the_state_fresh() {
    let sunday = utc("2026-03-08T05:00Z");
    for debt in [0, 9] {
        let mut record = of(turns(Unit::Day, "America/New_York"), 1, debt);
        record.force(sunday + HOUR, 7);
        let fresh = record.query(sunday - 23 * HOUR, 1);
        assert_eq!((fresh.limited, fresh.window_ms), (false, Some(24 * HOUR)));
        assert_eq!(brief(&fresh), (0, 1 + debt, Some(0), None));
        record.update(sunday - 23 * HOUR, 1);
        assert_eq!(record.node, [sunday - DAY, 1]);
    }
}

#[test]
fn a_clock_set_back_leaves_debt_and_counts_retry_from_the_states_time() {
    let mut record = of(turns(Unit::Hour, "UTC"), 10, 5);
    record.force(100 * HOUR + 1, 38);
    let back = record.query(99 * HOUR + 20 * MINUTE, 7);
    assert_eq!(brief(&back), (38, 0, Some(HOUR), Some(3 * HOUR)));
    // Forward again: nothing was settled meanwhile.
    assert_eq!(record.query(100 * HOUR + 2, 0).figures.used, 38);
    assert_eq!(record.query(101 * HOUR, 0).figures.used, 28);
}

#[test]
fn no_step_of_the_clock_locks_a_key_out_for_longer_than_two_windows() {
    let mut record = of(turns(Unit::Month, "UTC"), 1, 0);
    record.update(utc("9998-12-31T23:00Z"), 1);
    assert!(!record.query(utc("2026-03-01T00:00Z"), 1).limited);
    // December has 31 days.
    assert!(record.query(utc("9998-10-31T00:00:00.001Z"), 1).limited);
    assert!(!record.query(utc("9998-10-31T00:00Z"), 1).limited);
    // A window without an end cannot be measured.
    for debt in [0, 1] {
        let limit = calendar(turns(Unit::Month, "UTC"), 1, debt);
        let mut hostile = Record::new(&[limit]);
        for start in [u64::MAX, 1 << 62, utc("9999-06-01T00:00Z")] {
            hostile.node = vec![start, 100];
            assert_eq!(hostile.query(utc("2026-03-01T00:00Z"), 1).figures.used, 0);
        }
    }
}

#[test]
fn another_time_zone_starts_a_new_window_under_live_state() {
    let now = utc("2026-03-04T12:00Z");
    let mut record = of(turns(Unit::Day, "UTC"), 9, 0);
    record.update(now, 4);
    let tokyo = calendar(turns(Unit::Day, "Asia/Tokyo"), 9, 0);
    assert_eq!(
        record.rules.shape(Scope::Key),
        Record::new(std::slice::from_ref(&tokyo)).rules.shape(Scope::Key)
    );
    // Tokyo's day began at 15:00Z the day before, so the state has another start.
    let mut moved = record.under(&[tokyo]);
    assert_eq!(brief(&moved.update(now + 1, 1)), (1, 8, Some(3 * HOUR - 1), None));
    assert_eq!(moved.node, [utc("2026-03-03T15:00Z"), 1]);
}

#[test]
fn another_time_zone_settles_debt_by_its_own_turns() {
    let now = utc("2026-03-04T12:00Z");
    let mut record = of(turns(Unit::Day, "UTC"), 10, 5);
    record.force(now, 38);
    // No day of Tokyo began since 2026-03-04T00:00Z, then one at 15:00Z.
    let mut tokyo = record.under(&[calendar(turns(Unit::Day, "Asia/Tokyo"), 10, 5)]);
    assert_eq!(brief(&tokyo.query(now, 0)), (38, 0, Some(3 * HOUR), Some(3 * HOUR + 2 * DAY)));
    assert_eq!(tokyo.query(utc("2026-03-04T15:00Z"), 0).figures.used, 28);
    tokyo.force(now, 1);
    assert_eq!(tokyo.node, [utc("2026-03-03T15:00Z"), 39]);
    // A day of New York did, at 05:00Z.
    let mut new_york = record.under(&[calendar(turns(Unit::Day, "America/New_York"), 10, 5)]);
    new_york.force(now, 1);
    assert_eq!(new_york.node, [utc("2026-03-04T05:00Z"), 29]);
}

#[test]
fn another_max_or_debt_counts_on() {
    let now = utc("2026-03-04T12:00Z");
    let mut record = of(turns(Unit::Day, "UTC"), 9, 0);
    record.update(now, 4);
    let wider = record.under(&[calendar(turns(Unit::Day, "UTC"), 100, 20)]);
    assert_eq!(brief(&wider.query(now, 0)), (4, 116, Some(12 * HOUR), None));
}

#[test]
fn the_shape_is_of_the_unit_and_not_of_zone_and_time() {
    let shape = |limit: Limit| Record::new(&[limit]).rules.shape(Scope::Key);
    let day = shape(calendar(turns(Unit::Day, "UTC"), 1, 0));
    assert_eq!(day, shape(calendar(turns(Unit::Day, "Asia/Tokyo"), 9, 9)));
    let at = Turns { at_minutes: 90, ..turns(Unit::Day, "UTC") };
    assert_eq!(day, shape(calendar(at, 1, 0)));
    assert_ne!(day, shape(calendar(turns(Unit::Week, "UTC"), 1, 0)));
    assert_ne!(day, shape(count(Some(turns(Unit::Day, "UTC")))));
    assert_ne!(shape(count(None)), shape(count(Some(turns(Unit::Day, "UTC")))));
}

#[test]
fn a_count_never_refuses() {
    let mut record = Record::new(&[count(Some(turns(Unit::Day, "UTC")))]);
    let noon = utc("2026-03-04T12:00Z");
    assert_eq!(brief(&record.query(noon, 1)), (0, 0, Some(0), None));
    let first = record.update(noon, i32::MAX);
    assert_eq!((first.limited, first.figures.max, first.window_ms), (false, 0, None));
    assert_eq!(brief(&first), (2_147_483_647, 0, Some(12 * HOUR), None));
    assert!(!record.update(noon, 1).limited);
    assert_eq!(brief(&record.query(noon + 12 * HOUR, 0)), (0, 0, Some(0), None));
    assert_eq!(brief(&record.update(noon + 13 * HOUR, 2)), (2, 0, Some(23 * HOUR), None));
    // Set back: the state's time applies.
    assert_eq!(brief(&record.update(noon, 1)), (3, 0, Some(DAY), None));
}

#[test]
fn a_count_without_unit_never_starts_again() {
    let mut record = Record::new(&[count(None)]);
    assert_eq!(brief(&record.query(7, 1)), (0, 0, Some(0), None));
    assert_eq!(brief(&record.update(7, 5)), (5, 0, None, None));
    assert_eq!(brief(&record.update(u64::MAX, 5)), (10, 0, None, None));
    assert_eq!(brief(&record.update(0, -10)), (0, 0, Some(0), None));
    assert_eq!(record.node, [0]);
    record.node = vec![u64::MAX];
    assert_eq!(record.update(7, i32::MAX).figures.used, MAX_USED);
    assert_eq!(record.rules.longest_life_ms(Scope::Key), None);
}

#[test]
fn a_node_last_used_a_longest_life_ago_is_expired() {
    let life = |limit: Limit| Record::new(&[limit]).rules.longest_life_ms(Scope::Key);
    assert_eq!(life(calendar(turns(Unit::Hour, "UTC"), 1, 0)).unwrap() / HOUR, 2);
    assert_eq!(life(count(Some(turns(Unit::Minute, "UTC")))).unwrap() / MINUTE, 2);
    assert_eq!(life(calendar(turns(Unit::Year, "UTC"), 1, 1)), None);
    assert!(life(calendar(turns(Unit::Hour, "UTC"), MAX_USED, 1)).unwrap() >= 2 * HOUR);

    // The worst case: the longest day, with the clock set back at the last use.
    let (sunday, length) = (utc("2026-11-01T04:00Z"), 25 * HOUR);
    let mut record = of(turns(Unit::Day, "America/New_York"), 1, 0);
    record.update(sunday, 1);
    let last_use = sunday - length + 1;
    record.force(last_use, 1);
    assert_eq!(record.rank(sunday + length - 1), Worth::Limiting);
    assert_eq!(record.rank(sunday + length), Worth::Expired);
    let life_ms = record.rules.longest_life_ms(Scope::Key).unwrap();
    assert!(last_use + life_ms >= sunday + length);
    assert!(life_ms < 8 * DAY);
}

#[test]
fn nothing_overflows_at_the_bounds() {
    let units = [Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year];
    let now = utc("2026-03-04T12:00Z");
    for (unit, zone) in units.into_iter().zip(["UTC", "Australia/Lord_Howe"].into_iter().cycle()) {
        let limits = [
            calendar(turns(unit, zone), MAX_USED, MAX_USED),
            calendar(turns(unit, zone), 1, MAX_USED),
            calendar(turns(unit, zone), 1, 1),
            calendar(turns(unit, zone), 0, 0),
            count(Some(turns(unit, zone))),
            count(None),
        ];
        for word in [0, 1, now, 1 << 53, 1 << 63, u64::MAX - 1, u64::MAX] {
            for used in [0, 1, MAX_USED, u64::MAX] {
                for now in [0, 1, now, 253_370_764_800_000, 1 << 63, u64::MAX] {
                    for count in [i32::MIN, -1, 0, 1, i32::MAX] {
                        let mut record = Record::new(&limits);
                        record.node = [word, used].repeat(6)[..11].to_vec();
                        record.query(now, count);
                        record.update(now, count);
                        record.force(now, count);
                        assert!(
                            record
                                .node
                                .iter()
                                .skip(1)
                                .step_by(2)
                                .take(5)
                                .all(|&used| { used <= MAX_USED })
                        );
                        record.rank(now);
                    }
                }
            }
        }
    }
}

#[test]
fn an_untold_time_is_no_panic() {
    let mut record = of(turns(Unit::Day, "UTC"), 5, 5);
    for words in [[0, 0], [DAY, 3], [u64::MAX, 3]] {
        record.node = words.to_vec();
        record.on_states(|rules, states| {
            rules.roll(states, 5);
            let judgement = rules.judge(states, 5, 3);
            rules.charge(states, 5, 3);
            rules.verdict(states, 5, &judgement)
        });
    }
}

/// A limit by its definition. Its windows begin at local midnights, or are hours of UTC.
#[derive(Debug, Clone)]
struct Model {
    turns: Turns,
    max: i64,
    debt: i64,
    state: Option<Window>,
}

/// The use in the window that begins at a time.
#[derive(Debug, Clone, Copy)]
struct Window {
    start: i64,
    used: i64,
}

/// What a command does with the requested count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charge {
    Never,
    IfAdmitted,
    Always,
}

#[derive(Debug, PartialEq)]
struct Shown {
    limited: bool,
    used: i64,
    remaining: i64,
    reset_ms: i64,
    retry_ms: Option<i64>,
    window_ms: i64,
}

impl Model {
    /// The window of an instant.
    fn window(&self, now: i64) -> Range<i64> {
        if self.turns.unit == Unit::Hour {
            let hour = now - now.rem_euclid(3_600_000);
            return hour..hour + 3_600_000;
        }
        let local = Timestamp::from_millisecond(now).unwrap().to_zoned(self.turns.zone.clone());
        let today = local.start_of_day().unwrap();
        let (first, days_or_months) = match self.turns.unit {
            Unit::Day => (today, 1.day()),
            Unit::Week => {
                let back = i64::from(local.weekday().to_monday_zero_offset());
                (today.checked_sub(back.days()).unwrap(), 1.week())
            }
            Unit::Month => (today.first_of_month().unwrap(), 1.month()),
            _ => (today.first_of_year().unwrap(), 1.year()),
        };
        let next = first.checked_add(days_or_months).unwrap();
        let midnight = |at: &Zoned| at.start_of_day().unwrap().timestamp().as_millisecond();
        midnight(&first)..midnight(&next)
    }

    /// The effective time, and the state at that time.
    fn at(&self, now: i64) -> (i64, Window) {
        let fresh = |time| (time, Window { start: self.window(time).start, used: 0 });
        let Some(Window { mut start, mut used }) = self.state else { return fresh(now) };
        let Range { start: from, end: until } = self.window(start);
        let time = match start - now {
            back if back >= until - from => return fresh(now),
            back if back > 0 => start,
            _ => now,
        };
        let current = self.window(time).start;
        while start < current && used > 0 {
            start = self.window(start).end;
            used = if self.debt > 0 { (used - self.max).max(0) } else { 0 };
        }
        (time, Window { start: current, used })
    }

    /// The figures after a command with this `count`.
    fn command(&mut self, now: i64, count: i64, charge: Charge) -> Shown {
        let (time, Window { start, mut used }) = self.at(now);
        let most = self.max + self.debt;
        let limited = count >= 0 && used + count > most;
        let retry_ms = self.retry(time, used, count).filter(|_| limited);
        let is_charged = match charge {
            Charge::Never => false,
            Charge::IfAdmitted => !limited,
            Charge::Always => true,
        };
        if is_charged {
            used = (used + count).max(0);
            self.state = (used > 0).then_some(Window { start, used });
        }
        let Range { start: from, end: until } = self.window(if used == 0 { now } else { time });
        let reset_ms = if used == 0 { 0 } else { until - time };
        let remaining = (most - used).max(0);
        Shown { limited, used, remaining, reset_ms, retry_ms, window_ms: until - from }
    }

    fn retry(&self, time: i64, mut used: i64, count: i64) -> Option<i64> {
        let mut turn = time;
        if count > self.max + self.debt {
            return None;
        }
        while used + count > self.max + self.debt {
            turn = self.window(turn).end;
            used = if self.debt > 0 { (used - self.max).max(0) } else { 0 };
        }
        Some(turn - time)
    }
}

fn shown(verdict: &Verdict) -> Shown {
    let figures = verdict.figures;
    let ms = |ms: u64| i64::try_from(ms).unwrap();
    Shown {
        limited: verdict.limited,
        used: ms(figures.used),
        remaining: ms(figures.remaining),
        reset_ms: ms(figures.reset_ms.unwrap()),
        retry_ms: verdict.retry_ms.map(ms),
        window_ms: ms(verdict.window_ms.unwrap()),
    }
}

fn limits() -> impl Strategy<Value = (Turns, u64, u64)> {
    static ZONES: [&str; 4] = ["America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"];
    let long = (
        prop::sample::select(&[Unit::Day, Unit::Week, Unit::Month, Unit::Year]),
        prop::sample::select(&ZONES),
    );
    let turns = prop_oneof![
        Just(turns(Unit::Hour, "UTC")),
        long.prop_map(|(unit, zone)| turns(unit, zone)),
    ];
    (turns, 1..20_u64, prop_oneof![Just(0), 0..30_u64])
}

/// Steps of the clock in thousandths of the limit's unit, with counts and commands.
fn commands() -> impl Strategy<Value = Vec<(i64, i32, u8)>> {
    let step = prop_oneof![
        4 => 0..300_i64,
        2 => 0..4000_i64,
        1 => -1500..0_i64,
        1 => Just(1000),
        1 => Just(-1000),
    ];
    prop::collection::vec((step, -5..25_i32, 0..4_u8), 1..40)
}

fn unit_ms(unit: Unit) -> i64 {
    match unit {
        Unit::Minute => 60_000,
        Unit::Hour => 3_600_000,
        Unit::Day => 86_400_000,
        Unit::Week => 7 * 86_400_000,
        Unit::Month => 30 * 86_400_000,
        Unit::Year => 365 * 86_400_000,
    }
}

proptest! {
    #[test]
    fn a_calendar_is_as_its_definition_reads(
        (turns, max, debt) in limits(),
        begin in 946_684_800_000..3_000_000_000_000_i64,
        commands in commands(),
    ) {
        let mut record = of(turns.clone(), max, debt);
        let unit_ms = unit_ms(turns.unit);
        let (max, debt) = (max as i64, debt as i64);
        let mut model = Model { turns, max, debt, state: None };
        let mut now = begin;
        for (step, count, command) in commands {
            now = (now + step * unit_ms / 1000).max(0);
            let at = now as u64;
            let uses = count.into();
            let (verdict, expected) = match command {
                0 => (record.query(at, count), model.command(now, uses, Charge::Never)),
                1 => (record.force(at, count), model.command(now, uses, Charge::Always)),
                _ => (record.update(at, count), model.command(now, uses, Charge::IfAdmitted)),
            };
            prop_assert_eq!(shown(&verdict), expected, "at {} count {}", now, count);
            let words = |Window { start, used }: Window| [start as u64, used as u64];
            let kept = model.state.map_or([0, 0], words);
            prop_assert_eq!(&record.node[..], kept);
        }
    }
}
