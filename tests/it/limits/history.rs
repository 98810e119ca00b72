//! The history of earlier windows: over every kind of turn, clocks that are set back, other zones,
//! and changed rules.

use frs_conf::{Biz, Calendar, Count, KeyType, Limit, Policy, Scope, Sliding, Total, Turns, Unit};
use frs_limit::{Rules, Worth};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::collection::vec;
use proptest::prelude::*;

use super::record::{DAY, HOUR, Record, T0};

fn utc(text: &str) -> u64 {
    text.parse::<Timestamp>().unwrap().as_millisecond() as u64
}

fn turns(unit: Unit, zone: &str) -> Turns {
    Turns { unit, zone: TimeZone::get(zone).unwrap(), at_minutes: 0 }
}

fn count(unit: Unit, zone: &str, history: u16) -> Limit {
    let policy = Policy::Count(Count { turns: Some(turns(unit, zone)) });
    Limit { history, ..Limit::new(Scope::Key, policy) }
}

fn calendar(unit: Unit, zone: &str, max: u64, debt: u64, history: u16) -> Limit {
    let policy = Policy::Calendar(Calendar { turns: turns(unit, zone), max, debt });
    Limit { history, ..Limit::new(Scope::Key, policy) }
}

fn sliding(max: u64) -> Limit {
    Limit::new(Scope::Key, Policy::Sliding(Sliding { interval_ms: 40 * DAY, max }))
}

/// Charges one use in each hour between these instants. Returns the history at the last one.
fn hourly(limit: Limit, from: &str, to: &str) -> Vec<u32> {
    let mut record = Record::new(&[limit]);
    let (mut now, to) = (utc(from), utc(to));
    while now < to {
        record.update(now, 1);
        now += HOUR;
    }
    record.history(to, 0)
}

// Shows: history-of-limits.
#[test]
fn days_have_the_hours_that_they_have() {
    let day = || count(Unit::Day, "Europe/Berlin", 9);
    let march = hourly(day(), "2026-03-27T23:00Z", "2026-03-30T22:00Z");
    assert_eq!(march, [24, 23, 24]);
    let october = hourly(day(), "2026-10-23T22:00Z", "2026-10-26T23:00Z");
    assert_eq!(october, [24, 25, 24]);
    // A day that the zone skipped is no window: 29 December is followed by the 31st.
    let apia =
        hourly(count(Unit::Day, "Pacific/Apia", 9), "2011-12-28T10:00Z", "2011-12-31T10:00Z");
    assert_eq!(apia, [24, 24, 24]);
    // Half an hour is a window of its own where the clock goes back by one.
    let mut record = Record::new(&[count(Unit::Hour, "Australia/Lord_Howe", 9)]);
    for (now, uses) in
        [("2024-04-06T14:10Z", 1), ("2024-04-06T15:10Z", 2), ("2024-04-06T15:40Z", 4)]
    {
        record.update(utc(now), uses);
    }
    assert_eq!(record.history(utc("2024-04-06T16:30Z"), 0), [4, 2, 1]);
}

// Shows: history-of-limits.
#[test]
fn months_weeks_and_years_end_when_they_end() {
    let months = hourly(count(Unit::Month, "UTC", 12), "2027-12-01T00:00Z", "2028-04-01T00:00Z");
    assert_eq!(months, [31, 29, 31, 31].map(|days| 24 * days));
    let weeks =
        hourly(count(Unit::Week, "Asia/Shanghai", 9), "2026-11-15T16:00Z", "2026-12-06T16:00Z");
    assert_eq!(weeks, [168; 3]);
    let years = hourly(count(Unit::Year, "UTC", 9), "2027-12-31T20:00Z", "2029-01-01T00:00Z");
    assert_eq!(years, [24 * 366, 4]);
}

// Shows: history-of-limits.
#[test]
fn windows_without_a_use_are_0_and_the_oldest_leaves() {
    let mut record = Record::new(&[count(Unit::Day, "UTC", 366)]);
    record.update(T0, 7);
    assert_eq!(record.history(T0, 0), [0; 0]);
    let mut expected = vec![7];
    for day in 1..=366 {
        assert_eq!(record.history(T0 + day * DAY, 0), expected);
        assert_eq!(record.rank(T0 + day * DAY), Worth::Idle);
        expected.insert(0, 0);
    }
    assert_eq!(record.history(T0 + 367 * DAY, 0), [0; 0]);
    assert_eq!(record.rank(T0 + 367 * DAY), Worth::Expired);
    assert!(record.is_fresh(T0 + 367 * DAY));
    // Its longest life covers that.
    assert!(record.longest_life_ms().unwrap() >= 367 * DAY);
}

#[test]
fn totals_saturate_at_32_bits_and_uses_do_not() {
    let mut record = Record::new(&[count(Unit::Day, "UTC", 2)]);
    for _ in 0..3 {
        record.update(T0, i32::MAX);
    }
    assert_eq!(record.query(T0, 1).figures.used, 3 * i32::MAX as u64);
    assert_eq!(record.history(T0 + DAY, 0), [u32::MAX]);
}

#[test]
fn what_is_given_back_is_of_the_current_window() {
    let mut record = Record::new(&[calendar(Unit::Day, "UTC", 9, 0, 5)]);
    record.update(T0, 5);
    record.update(T0 + DAY, 2);
    record.update(T0 + DAY, -9);
    assert_eq!(record.history(T0 + DAY, 0), [5]);
    assert_eq!(record.query(T0 + DAY, 1).figures.used, 0);
    assert_eq!(record.history(T0 + 2 * DAY, 0), [0, 5]);
    // A refused use does not count, a forced one does.
    assert!(record.update(T0 + 2 * DAY, 10).limited);
    record.force(T0 + 2 * DAY, 12);
    assert_eq!(record.history(T0 + 3 * DAY, 0), [12, 0, 5]);
    // All uses are returned, and nothing is remembered.
    let mut record = Record::new(&[count(Unit::Day, "UTC", 5)]);
    record.update(T0, 5);
    record.update(T0, -5);
    assert!(record.is_fresh(T0) && record.history(T0 + DAY, 0).is_empty());
}

// Shows: history-of-limits.
#[test]
fn debt_is_in_the_total_of_the_window_that_it_was_used_in() {
    let mut record = Record::new(&[calendar(Unit::Day, "UTC", 10, 20, 5)]);
    record.force(T0, 28);
    assert_eq!(record.query(T0 + DAY, 1).figures.used, 18);
    record.update(T0 + DAY, 3);
    assert_eq!(record.history(T0 + DAY, 0), [28]);
    assert_eq!(record.query(T0 + 2 * DAY, 1).figures.used, 11);
    assert_eq!(record.history(T0 + 2 * DAY, 0), [3, 28]);
    // Two days pass without a use: the debt of 11 becomes 1, then nothing.
    assert_eq!(record.query(T0 + 3 * DAY, 1).figures.used, 1);
    record.update(T0 + 4 * DAY, 1);
    assert_eq!(record.history(T0 + 5 * DAY, 0), [1, 0, 0, 3, 28]);
}

// Shows: history-of-limits.
#[test]
fn a_clock_set_back_by_less_than_the_window_changes_nothing() {
    let start = utc("2026-03-04T00:00Z");
    let mut record = Record::new(&[count(Unit::Day, "UTC", 5)]);
    record.update(start - DAY, 3);
    record.update(start + HOUR, 4);
    let before = record.node.clone();
    record.update(start - HOUR, 1);
    assert_eq!(record.history(start - HOUR, 0), [3]);
    assert_eq!(record.query(start - HOUR, 1).figures.used, 5);
    record.update(start - DAY + 1, -1);
    assert_eq!(record.node, before);
    // Set back by the whole window, it forgets everything.
    assert!(record.history(start - DAY, 0).is_empty());
    assert_eq!(record.query(start - DAY, 1).figures.used, 0);
    // A state without uses keeps its time while it has a history.
    let mut record = Record::new(&[count(Unit::Day, "UTC", 5)]);
    record.update(start - DAY, 3);
    record.update(start, 1);
    record.update(start, -1);
    assert_eq!(record.history(start - HOUR, 0), [3]);
    record.update(start - HOUR, 6);
    assert_eq!(record.query(start + HOUR, 1).figures.used, 6);
    assert_eq!(record.history(start + DAY, 0), [6, 3]);
}

// Shows: history-of-limits.
#[test]
fn another_zone_ends_the_window_that_runs_and_keeps_those_before() {
    let now = utc("2026-03-04T12:00Z");
    let mut record = Record::new(&[count(Unit::Day, "UTC", 5)]);
    record.update(now - DAY, 3);
    record.update(now, 4);
    // Tokyo's day began at 15:00Z the day before, New York's at 05:00Z of this one.
    for zone in ["Asia/Tokyo", "America/New_York"] {
        let mut moved = record.under(&[count(Unit::Day, zone, 5)]);
        assert_eq!(moved.query(now, 1).figures.used, 0, "{zone}");
        assert_eq!(moved.history(now, 0), [4, 3], "{zone}");
        moved.update(now, 1);
        assert_eq!(moved.history(now, 0), [4, 3], "{zone}");
        assert_eq!(moved.history(now + DAY, 0), [1, 4, 3], "{zone}");
    }
    // With debt, the owed uses go on, and count in no total twice.
    let of = |zone| [calendar(Unit::Day, zone, 10, 5, 5)];
    let mut record = Record::new(&of("UTC"));
    record.force(now, 38);
    let mut moved = record.under(&of("Asia/Tokyo"));
    assert_eq!(moved.query(now, 0).figures.used, 38);
    moved.force(now, 2);
    assert_eq!(moved.history(now, 0), [38]);
    assert_eq!(moved.history(now + DAY, 0), [2, 38]);
}

#[test]
fn hostile_words_are_forgotten() {
    let limits = [calendar(Unit::Day, "UTC", 9, 3, 4), sliding(3)];
    for word in [1, u64::MAX, 1 << 63, 1 << 63 | 1 << 48 | 4 << 32 | 9, T0] {
        let mut record = Record::new(&limits);
        record.node.fill(word);
        record.node[0] = T0;
        record.node[1] = 5;
        record.update(T0 + 3 * DAY, 1);
        assert_eq!(record.query(T0 + 3 * DAY, 0).limit, 2, "{word:x}");
        assert!(record.history(T0 + 3 * DAY, 0).len() <= 4, "{word:x}");
    }
}

// Shows: history-of-limits.
#[test]
fn a_changed_history_keeps_what_both_remember() {
    let mut record = Record::new(&[count(Unit::Day, "UTC", 4), sliding(99)]);
    for day in 0..6 {
        record.update(T0 + day * DAY, 1 + day as i32);
    }
    let now = T0 + 5 * DAY;
    assert_eq!(record.history(now, 0), [5, 4, 3, 2]);
    record.reload(&[count(Unit::Day, "UTC", 2), sliding(99)]);
    assert_eq!(record.history(now, 0), [5, 4]);
    record.update(now, 1);
    record.reload(&[count(Unit::Day, "UTC", 9), sliding(99)]);
    assert_eq!(record.history(now, 0), [5, 4]);
    assert_eq!(record.history(now + 2 * DAY, 0), [0, 7, 5, 4]);
    // Without a history the current window goes on, also when the history comes back.
    let uses = record.query(now, 0).figures.used;
    record.reload(&[count(Unit::Day, "UTC", 0), sliding(99)]);
    assert_eq!(record.query(now, 0).figures.used, uses);
    assert_eq!(record.details(now, 1)[0].figures.used, 7);
    record.update(now, 1);
    record.reload(&[count(Unit::Day, "UTC", 3), sliding(99)]);
    assert_eq!(record.details(now, 1)[0].figures.used, 8);
    assert!(record.history(now, 0).is_empty());
    assert_eq!(record.history(now + DAY, 0), [8]);
}

#[test]
fn a_limit_of_the_whole_biz_comes_and_leaves_the_histories_of_keys_alone() {
    let own = [count(Unit::Day, "UTC", 4), count(Unit::Hour, "UTC", 3)];
    let mut record = Record::new(&own);
    record.update(T0, 3);
    record.update(T0 + DAY, 1);
    let whole = Limit::new(Scope::Biz, Policy::Total(Total { max: 9 }));
    let with = [whole, own[0].clone(), own[1].clone()];
    let rules = Rules::new(&Biz::new(1, "biz", KeyType::String, with.to_vec()));
    assert_eq!(rules.shape(Scope::Key), record.rules.shape(Scope::Key));
    assert!(rules.is_adopted(Scope::Key, false, &record.node));
}

/// One key in plain values: its totals, its current uses, and its times of use.
#[derive(Debug, Clone, Default)]
struct Plain {
    before: [Vec<u32>; 2],
    used: [u32; 2],
    ring: Vec<u64>,
}

#[derive(Debug, Clone)]
enum Change {
    Use { days: u64, count: i32 },
    Reload { histories: [u16; 2], ring: Option<usize>, bans: bool },
}

fn any_change() -> impl Strategy<Value = Change> {
    let history = || prop_oneof![1 => Just(0_u16), 4 => 1..6_u16];
    let ring = prop::option::of(1..6_usize);
    prop_oneof![
        3 => (0..3_u64, 1..4_i32).prop_map(|(days, count)| Change::Use { days, count }),
        2 => ([history(), history()], ring, any::<bool>())
            .prop_map(|(histories, ring, bans)| Change::Reload { histories, ring, bans }),
    ]
}

proptest! {
    /// Histories, a ring and a ban come and go and change their lengths, in any order. None of them
    /// changes another one.
    // Shows: history-of-limits.
    #[test]
    fn no_change_touches_what_stands_beside_it(changes in vec(any_change(), 1..40)) {
        let limits = |histories: [u16; 2], ring: usize, bans: bool| {
            let last = sliding(ring as u64);
            [
                count(Unit::Day, "UTC", histories[0]),
                calendar(Unit::Day, "Asia/Tokyo", 1 << 40, 0, histories[1]),
                if bans { Limit { ban_ms: Some(1), ..last } } else { last },
            ]
        };
        // Noon, so that both limits turn once a day.
        let mut now = utc("2026-03-04T12:00Z");
        let (mut histories, mut most) = ([3, 3], 5);
        let mut record = Record::new(&limits(histories, most, false));
        let mut plain = Plain::default();
        for change in changes {
            match change {
                Change::Use { days, count } => {
                    now += days * DAY;
                    for _ in 0..days {
                        for ((before, used), history) in
                            plain.before.iter_mut().zip(&mut plain.used).zip(histories)
                        {
                            before.insert(0, std::mem::take(used));
                            before.truncate(history.into());
                            if before.iter().all(|&total| total == 0) {
                                before.clear();
                            }
                        }
                    }
                    for used in &mut plain.used {
                        *used += count as u32;
                    }
                    plain.ring.retain(|&time| now - time < 40 * DAY);
                    plain.ring.extend(std::iter::repeat_n(now, count as usize));
                    record.force(now, count);
                }
                Change::Reload { histories: new, ring, bans } => {
                    histories = new;
                    most = ring.unwrap_or(most);
                    record.reload(&limits(histories, most, bans));
                    for (before, history) in plain.before.iter_mut().zip(histories) {
                        before.truncate(history.into());
                    }
                }
            }
            plain.ring.drain(..plain.ring.len().saturating_sub(most));
            let details = record.details(now, 0);
            for at in 0..2 {
                prop_assert_eq!(details[at].figures.used, u64::from(plain.used[at]));
                if histories[at] > 0 {
                    let all_zero = plain.used[at] == 0 && plain.before[at].iter().all(|&t| t == 0);
                    let before = if all_zero { vec![] } else { plain.before[at].clone() };
                    prop_assert_eq!(record.history(now, at), before);
                }
            }
            prop_assert_eq!(details[2].figures.used, plain.ring.len() as u64);
        }
    }
}
