//! Windows around the changes of real zones, by literal instants. Windows of any zone against its
//! dates.

use jiff::ToSpan;
use jiff::civil::Weekday;
use jiff::tz::AmbiguousOffset;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

const UNITS: [Unit; 6] = [Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year];

fn turns(unit: Unit, zone: TimeZone, at_minutes: u16) -> Turns {
    Turns { unit, zone, at_minutes }
}

fn get(name: &str) -> TimeZone {
    TimeZone::get(name).expect(name)
}

fn utc(text: &str) -> u64 {
    let instant: Timestamp = text.parse().expect(text);
    u64::try_from(instant.as_millisecond()).expect(text)
}

fn minutes(at: &str) -> u16 {
    let (hour, minute) = at.split_once(':').expect(at);
    hour.parse::<u16>().unwrap() * 60 + minute.parse::<u16>().unwrap()
}

/// Checks that the windows of a zone turn at these instants, in order, and at none between.
#[track_caller]
fn turn_at(unit: Unit, zone: &str, at: &str, instants: &[&str]) {
    assert_turns(&turns(unit, get(zone), minutes(at)), instants);
}

#[track_caller]
fn assert_turns(turns: &Turns, instants: &[&str]) {
    let instants: Vec<_> = instants.iter().map(|text| utc(text)).collect();
    for pair in instants.windows(2) {
        let expected = Span { from: pair[0], until: pair[1] };
        for now in [pair[0], pair[0] + 1, pair[0].midpoint(pair[1]), pair[1] - 1] {
            assert_eq!(window_at(turns, now), expected, "at {now}");
        }
    }
    for (index, &instant) in instants.iter().enumerate() {
        let passed = index as u64;
        assert_eq!(turns_between(turns, instants[0], instant), passed);
        assert_eq!(turns_between(turns, instants[0] - 1, instant), passed + 1);
        assert_eq!(turns_between(turns, instants[0], instant - 1), passed.saturating_sub(1));
        if index > 0 {
            assert_eq!(turn_after(turns, instants[0], passed), Some(instant));
            assert_eq!(turn_after(turns, instants[1] - 1, passed), Some(instant));
        }
    }
}

#[test]
fn a_day_of_new_york_turns_behind_the_gap() {
    // 2026-03-08, 02:00 -05 becomes 03:00 -04.
    for at in ["02:00", "02:30", "02:59", "03:00"] {
        let window = window_at(&turns(Unit::Day, get("America/New_York"), minutes(at)), {
            utc("2026-03-08T12:00Z")
        });
        assert_eq!(window.from, utc("2026-03-08T07:00Z"), "{at}");
    }
    turn_at(
        Unit::Day,
        "America/New_York",
        "02:30",
        &[
            "2026-03-06T07:30Z",
            "2026-03-07T07:30Z",
            "2026-03-08T07:00Z",
            "2026-03-09T06:30Z",
            "2026-03-10T06:30Z",
        ],
    );
}

#[test]
fn a_day_of_new_york_turns_at_the_first_of_two_occurrences() {
    // 2026-11-01, 02:00 -04 becomes 01:00 -05.
    let at_0130 = ["2026-10-31T05:30Z", "2026-11-01T05:30Z", "2026-11-02T06:30Z"];
    turn_at(Unit::Day, "America/New_York", "01:30", &at_0130);
    let at_0100 = ["2026-10-31T05:00Z", "2026-11-01T05:00Z", "2026-11-02T06:00Z"];
    turn_at(Unit::Day, "America/New_York", "01:00", &at_0100);
    // After the fold: once.
    let at_0230 =
        ["2026-10-30T06:30Z", "2026-10-31T06:30Z", "2026-11-01T07:30Z", "2026-11-02T07:30Z"];
    turn_at(Unit::Day, "America/New_York", "02:30", &at_0230);
    let at_0200 = ["2026-10-31T06:00Z", "2026-11-01T07:00Z", "2026-11-02T07:00Z"];
    turn_at(Unit::Day, "America/New_York", "02:00", &at_0200);
}

#[test]
fn days_have_23_24_and_25_hours() {
    let spring = ["2026-03-07T05:00Z", "2026-03-08T05:00Z", "2026-03-09T04:00Z"];
    turn_at(Unit::Day, "America/New_York", "00:00", &spring);
    let autumn = ["2026-10-31T04:00Z", "2026-11-01T04:00Z", "2026-11-02T05:00Z"];
    turn_at(Unit::Day, "America/New_York", "00:00", &autumn);
}

#[test]
fn a_turn_is_not_taken_twice_where_the_clock_goes_back_over_midnight() {
    // 2008-11-01, 00:00 +06 becomes 23:00 +05 of the day before.
    let at_2330 = ["2008-10-30T17:30Z", "2008-10-31T17:30Z", "2008-11-01T18:30Z"];
    turn_at(Unit::Day, "Asia/Karachi", "23:30", &at_2330);
    let at_0000 = ["2008-10-30T18:00Z", "2008-10-31T19:00Z", "2008-11-01T19:00Z"];
    turn_at(Unit::Day, "Asia/Karachi", "00:00", &at_0000);
}

#[test]
fn days_of_lord_howe_are_half_an_hour_longer_and_shorter() {
    let autumn = ["2026-04-03T13:00Z", "2026-04-04T13:00Z", "2026-04-05T13:30Z"];
    turn_at(Unit::Day, "Australia/Lord_Howe", "00:00", &autumn);
    let spring = ["2026-10-02T13:30Z", "2026-10-03T13:30Z", "2026-10-04T13:00Z"];
    turn_at(Unit::Day, "Australia/Lord_Howe", "00:00", &spring);
    // In the gap from 02:00 to 02:30, and in the fold from 01:30 to 02:00.
    let gap = ["2026-10-02T15:45Z", "2026-10-03T15:30Z", "2026-10-04T15:15Z"];
    turn_at(Unit::Day, "Australia/Lord_Howe", "02:15", &gap);
    let fold = ["2026-04-03T14:45Z", "2026-04-04T14:45Z", "2026-04-05T15:15Z"];
    turn_at(Unit::Day, "Australia/Lord_Howe", "01:45", &fold);
}

#[test]
fn a_day_that_a_zone_skipped_is_no_window() {
    // Samoa had no 2011-12-30: -10 became +14 at its midnight.
    let at_0000 = ["2011-12-28T10:00Z", "2011-12-29T10:00Z", "2011-12-30T10:00Z"];
    turn_at(Unit::Day, "Pacific/Apia", "00:00", &at_0000);
    let across = ["2011-12-29T10:00Z", "2011-12-30T10:00Z", "2011-12-31T10:00Z"];
    turn_at(Unit::Day, "Pacific/Apia", "00:00", &across);
    // Its 02:30 falls into the gap, which ends half an hour and two hours before the next turn.
    let at_0230 = [
        "2011-12-28T12:30Z",
        "2011-12-29T12:30Z",
        "2011-12-30T10:00Z",
        "2011-12-30T12:30Z",
        "2011-12-31T12:30Z",
    ];
    turn_at(Unit::Day, "Pacific/Apia", "02:30", &at_0230);
}

#[test]
fn weeks_start_on_monday() {
    let weeks = ["2026-02-23T00:00Z", "2026-03-02T00:00Z", "2026-03-09T00:00Z"];
    turn_at(Unit::Week, "UTC", "00:00", &weeks);
    let across_a_year = ["2024-12-23T12:34Z", "2024-12-30T12:34Z", "2025-01-06T12:34Z"];
    turn_at(Unit::Week, "UTC", "12:34", &across_a_year);
    // An hour less on the Sunday between, 2026-03-08.
    let spring = ["2026-03-02T07:30Z", "2026-03-09T06:30Z", "2026-03-16T06:30Z"];
    turn_at(Unit::Week, "America/New_York", "02:30", &spring);
    let autumn = ["2026-10-26T06:30Z", "2026-11-02T07:30Z", "2026-11-09T07:30Z"];
    turn_at(Unit::Week, "America/New_York", "02:30", &autumn);
}

#[test]
fn a_week_turns_behind_the_gap_of_a_monday() {
    // Iran's 2021-03-22 began with a gap, 00:00 +03:30 to 01:00 +04:30.
    let weeks = ["2021-03-14T21:00Z", "2021-03-21T20:30Z", "2021-03-28T20:00Z"];
    turn_at(Unit::Week, "Asia/Tehran", "00:30", &weeks);
}

#[test]
fn a_week_turns_at_the_first_of_two_occurrences_on_a_monday() {
    // The first Monday in November, 02:00 +01 becomes 01:00 UTC.
    let zone = TimeZone::posix("STD0DST-1,M3.2.1/2,M11.1.1/2").unwrap();
    let weeks = ["2026-10-26T00:30Z", "2026-11-02T00:30Z", "2026-11-09T01:30Z"];
    assert_turns(&turns(Unit::Week, zone, 90), &weeks);
}

#[test]
fn a_month_turns_behind_the_gap_of_a_first() {
    // Pakistan's 2008-06-01 began with a gap, 00:00 +05 to 01:00 +06.
    let months = ["2008-04-30T19:30Z", "2008-05-31T19:00Z", "2008-06-30T18:30Z"];
    turn_at(Unit::Month, "Asia/Karachi", "00:30", &months);
}

#[test]
fn a_month_turns_at_the_first_of_two_occurrences_on_a_first() {
    let months = ["2026-10-01T05:30Z", "2026-11-01T05:30Z", "2026-12-01T06:30Z"];
    turn_at(Unit::Month, "America/New_York", "01:30", &months);
    let spring = ["2026-03-01T07:30Z", "2026-04-01T06:30Z"];
    turn_at(Unit::Month, "America/New_York", "02:30", &spring);
}

#[test]
fn a_year_turns_behind_the_gap_of_a_first_of_january() {
    // Nepal's 1986 began with a gap, 00:00 +05:30 to 00:15 +05:45.
    let years = ["1984-12-31T18:40Z", "1985-12-31T18:30Z", "1986-12-31T18:25Z"];
    turn_at(Unit::Year, "Asia/Kathmandu", "00:10", &years);
}

#[test]
fn a_year_turns_at_the_first_of_two_occurrences_on_a_first_of_january() {
    // Each 1 January, 02:00 +01 becomes 01:00 UTC.
    let zone = TimeZone::posix("STD0DST-1,J182/2,J1/2").unwrap();
    let years = ["2025-01-01T00:30Z", "2026-01-01T00:30Z", "2027-01-01T00:30Z"];
    assert_turns(&turns(Unit::Year, zone, 90), &years);
}

#[test]
fn years_turn_at_the_local_new_year() {
    let years = ["2024-01-01T05:00Z", "2025-01-01T05:00Z", "2026-01-01T05:00Z"];
    turn_at(Unit::Year, "America/New_York", "00:00", &years);
    let tokyo = ["2099-12-31T15:00Z", "2100-12-31T15:00Z", "2101-12-31T15:00Z"];
    turn_at(Unit::Year, "Asia/Tokyo", "00:00", &tokyo);
}

#[test]
fn months_end_as_their_calendar_says() {
    let leap = ["2024-01-01T00:00Z", "2024-02-01T00:00Z", "2024-03-01T00:00Z", "2024-04-01T00:00Z"];
    turn_at(Unit::Month, "UTC", "00:00", &leap);
    let common = ["2023-02-01T00:00Z", "2023-03-01T00:00Z", "2023-04-01T00:00Z"];
    turn_at(Unit::Month, "UTC", "00:00", &common);
    let century = ["2100-02-01T00:00Z", "2100-03-01T00:00Z"];
    turn_at(Unit::Month, "UTC", "00:00", &century);
    let leap_century = ["2000-02-01T00:00Z", "2000-03-01T00:00Z"];
    turn_at(Unit::Month, "UTC", "00:00", &leap_century);
    let days = ["2024-02-28T00:00Z", "2024-02-29T00:00Z", "2024-03-01T00:00Z"];
    turn_at(Unit::Day, "UTC", "00:00", &days);
    let across_a_year = ["2025-12-01T00:00Z", "2026-01-01T00:00Z", "2026-02-01T00:00Z"];
    turn_at(Unit::Month, "UTC", "00:00", &across_a_year);
}

#[test]
fn a_turn_at_2359_belongs_to_the_date_that_it_ends() {
    let days = ["2026-01-30T23:59Z", "2026-01-31T23:59Z", "2026-02-01T23:59Z"];
    turn_at(Unit::Day, "UTC", "23:59", &days);
    let weeks = ["2026-02-23T23:59Z", "2026-03-02T23:59Z"];
    turn_at(Unit::Week, "UTC", "23:59", &weeks);
    let months = ["2026-01-01T23:59Z", "2026-02-01T23:59Z"];
    turn_at(Unit::Month, "UTC", "23:59", &months);
    let years = ["2025-01-01T23:59Z", "2026-01-01T23:59Z"];
    turn_at(Unit::Year, "UTC", "23:59", &years);
    // 18:14 UTC.
    let kathmandu = ["2026-01-01T18:14Z", "2026-02-01T18:14Z"];
    turn_at(Unit::Month, "Asia/Kathmandu", "23:59", &kathmandu);
}

#[test]
fn an_hour_that_occurs_twice_is_two_windows() {
    let fold = ["2026-11-01T04:00Z", "2026-11-01T05:00Z", "2026-11-01T06:00Z", "2026-11-01T07:00Z"];
    turn_at(Unit::Hour, "America/New_York", "00:00", &fold);
    let gap = ["2026-03-08T06:00Z", "2026-03-08T07:00Z", "2026-03-08T08:00Z"];
    turn_at(Unit::Hour, "America/New_York", "00:00", &gap);
}

#[test]
fn a_change_by_whole_hours_cuts_no_hour() {
    // 2010-03-14, 00:01 -03:30 becomes 01:01 -02:30, at 03:31 UTC.
    let hours = ["2010-03-14T02:30Z", "2010-03-14T03:30Z", "2010-03-14T04:30Z"];
    turn_at(Unit::Hour, "America/St_Johns", "00:00", &hours);
    let skipped_day = ["2011-12-30T09:00Z", "2011-12-30T10:00Z", "2011-12-30T11:00Z"];
    turn_at(Unit::Hour, "Pacific/Apia", "00:00", &skipped_day);
}

#[test]
fn lord_howes_half_hour_cuts_hours() {
    // 2026-04-05, 02:00 +11 becomes 01:30 +10:30.
    let autumn = [
        "2026-04-04T13:00Z",
        "2026-04-04T14:00Z",
        "2026-04-04T15:00Z",
        "2026-04-04T15:30Z",
        "2026-04-04T16:30Z",
    ];
    turn_at(Unit::Hour, "Australia/Lord_Howe", "00:00", &autumn);
    // 2026-10-04, 02:00 +10:30 becomes 02:30 +11.
    let spring = [
        "2026-10-03T13:30Z",
        "2026-10-03T14:30Z",
        "2026-10-03T15:30Z",
        "2026-10-03T16:00Z",
        "2026-10-03T17:00Z",
    ];
    turn_at(Unit::Hour, "Australia/Lord_Howe", "00:00", &spring);
}

#[test]
fn lord_howes_half_hour_leaves_minutes_whole() {
    let autumn = ["2026-04-04T14:59Z", "2026-04-04T15:00Z", "2026-04-04T15:01Z"];
    turn_at(Unit::Minute, "Australia/Lord_Howe", "00:00", &autumn);
    let spring = ["2026-10-03T15:29Z", "2026-10-03T15:30Z", "2026-10-03T15:31Z"];
    turn_at(Unit::Minute, "Australia/Lord_Howe", "00:00", &spring);
}

#[test]
fn a_change_within_an_hour_cuts_it_there() {
    // 2016-05-01, 02:30 -04:30 becomes 03:00 -04.
    let hours =
        ["2016-05-01T05:30Z", "2016-05-01T06:30Z", "2016-05-01T07:00Z", "2016-05-01T08:00Z"];
    turn_at(Unit::Hour, "America/Caracas", "00:00", &hours);
}

#[test]
fn a_change_amid_two_hours_is_a_turn_between_them() {
    // 2026-03-08, 02:15 UTC becomes 02:45 +00:30; 2026-11-01, 02:40 becomes 02:10.
    let zone = TimeZone::posix("STD0DST-0:30,M3.2.0/2:15,M11.1.0/2:40").unwrap();
    let hours = turns(Unit::Hour, zone, 0);
    let spring = [
        "2026-03-08T01:00Z",
        "2026-03-08T02:00Z",
        "2026-03-08T02:15Z",
        "2026-03-08T02:30Z",
        "2026-03-08T03:30Z",
    ];
    assert_turns(&hours, &spring);
    let autumn =
        ["2026-11-01T00:30Z", "2026-11-01T01:30Z", "2026-11-01T02:10Z", "2026-11-01T03:00Z"];
    assert_turns(&hours, &autumn);
}

#[test]
fn hours_of_kathmandu_turn_at_a_quarter_past() {
    let hours = ["2026-01-01T00:15Z", "2026-01-01T01:15Z", "2026-01-01T02:15Z"];
    turn_at(Unit::Hour, "Asia/Kathmandu", "00:00", &hours);
    let days = ["2025-12-31T18:15Z", "2026-01-01T18:15Z"];
    turn_at(Unit::Day, "Asia/Kathmandu", "00:00", &days);
    // From +05:30 to +05:45, which left 1986 a first hour of 45 minutes.
    let cut = ["1985-12-31T17:30Z", "1985-12-31T18:30Z", "1985-12-31T19:15Z", "1985-12-31T20:15Z"];
    turn_at(Unit::Hour, "Asia/Kathmandu", "00:00", &cut);
}

#[test]
fn an_offset_of_seconds_cuts_minutes_and_hours_when_it_ends() {
    // Liberia's 1972-01-07, -00:44:30 became UTC.
    let minutes = [
        "1972-01-07T00:42:30Z",
        "1972-01-07T00:43:30Z",
        "1972-01-07T00:44:30Z",
        "1972-01-07T00:45:00Z",
        "1972-01-07T00:46:00Z",
    ];
    turn_at(Unit::Minute, "Africa/Monrovia", "00:00", &minutes);
    let hours = [
        "1972-01-06T22:44:30Z",
        "1972-01-06T23:44:30Z",
        "1972-01-07T00:44:30Z",
        "1972-01-07T01:00:00Z",
        "1972-01-07T02:00:00Z",
    ];
    turn_at(Unit::Hour, "Africa/Monrovia", "00:00", &hours);
}

#[test]
fn what_began_before_the_epoch_begins_with_it() {
    let first = |unit, zone| window_at(&turns(unit, get(zone), 0), 0);
    assert_eq!(first(Unit::Week, "UTC"), Span { from: 0, until: utc("1970-01-05T00:00Z") });
    let new_york = Span { from: 0, until: utc("1970-01-01T05:00Z") };
    assert_eq!(first(Unit::Year, "America/New_York"), new_york);
    assert_eq!(first(Unit::Minute, "UTC"), Span { from: 0, until: 60_000 });
    assert_eq!(turns_between(&turns(Unit::Year, get("America/New_York"), 0), 0, HOUR_MS as u64), 0);
}

#[test]
fn windows_that_hold_the_end_of_time_last_for_ever() {
    let end = END_MS as u64;
    for (unit, zone) in UNITS.into_iter().flat_map(|unit| {
        ["UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Kiritimati", "Etc/GMT+12"]
            .map(|zone| (unit, zone))
    }) {
        for at_minutes in [0, 1439] {
            let turns = turns(unit, get(zone), at_minutes);
            let last = window_at(&turns, u64::MAX);
            assert!(last.from <= end && last.is_endless(), "{unit:?} {zone}");
            assert_eq!(window_at(&turns, end), last);
            assert_eq!(window_at(&turns, u64::MAX - 1), last);
            assert_eq!(window_at(&turns, last.from - 1).until, last.from);
            assert_eq!(turns_between(&turns, end, u64::MAX), 0);
            assert_eq!(turns_between(&turns, last.from - 1, u64::MAX), 1);
            assert_eq!(turn_after(&turns, last.from - 1, 1), Some(last.from));
            for count in [1, 1 << 53, u64::MAX] {
                assert_eq!(turn_after(&turns, last.from, count), None);
            }
            assert_eq!(turn_after(&turns, 0, u64::MAX), None);
        }
    }
    let minutes = turns_between(&turns(Unit::Minute, TimeZone::UTC, 0), 0, u64::MAX);
    assert_eq!(minutes, end / 60_000);
}

#[test]
fn a_debt_of_millennia_is_reckoned_in_bounded_steps() {
    let year = 31_556_952_000; // on average
    let now = utc("2026-03-01T00:00Z");
    let turns = turns(Unit::Hour, get("America/New_York"), 0);
    let hours = 5000 * year / HOUR_MS as u64;
    assert_eq!(turn_after(&turns, now, hours), Some(now + hours * HOUR_MS as u64));
    assert!(changes(&turns.zone, now as i64).count() <= MAX_CHANGES);
    // The list covers more than a century even in the zone that changes most often.
    let morocco = get("Africa/Casablanca");
    let last = changes(&morocco, 0).last().unwrap();
    assert!(last.at as u64 > utc("2085-01-01T00:00Z"));
}

/// An instant of the years 1970 to 2100 in any existing zone. Every other one is close to a change
/// of the offset.
fn instants() -> impl Strategy<Value = (TimeZone, u64)> {
    let names: Vec<String> =
        jiff::tz::db().available().map(|name| name.as_str().to_owned()).collect();
    let near = -3 * DAY_MS..3 * DAY_MS;
    (any::<Index>(), 0..4_102_444_800_000_i64, prop::option::of(near), any::<bool>()).prop_map(
        move |(name, instant, near, exact)| {
            let name: &String = name.get(&names);
            let zone = get(name);
            let change = zone.following(timestamp(instant)).next();
            let instant = match (change, near) {
                (Some(change), Some(near)) => {
                    let near = if exact { near % 2 } else { near };
                    change.timestamp().as_millisecond() + near
                }
                _ => instant,
            };
            (zone, instant as u64)
        },
    )
}

fn any_turns() -> impl Strategy<Value = (Turns, u64)> {
    let at = prop_oneof![Just(0), 0..180_u16, 0..1440_u16];
    (instants(), prop::sample::select(&UNITS), at).prop_map(|((zone, now), unit, at)| {
        let at = if matches!(unit, Unit::Minute | Unit::Hour) { 0 } else { at };
        (turns(unit, zone, at), now)
    })
}

/// The turn of a date, by the zone's own arithmetic on civil times.
fn turn_of(turns: &Turns, date: Date) -> i64 {
    let (hour, minute) = ((turns.at_minutes / 60) as i8, (turns.at_minutes % 60) as i8);
    let local = date.at(hour, minute, 0, 0);
    let instant = |offset: Offset| offset.to_timestamp(local).unwrap();
    let turn = match turns.zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => instant(offset),
        AmbiguousOffset::Fold { before, .. } => instant(before),
        AmbiguousOffset::Gap { before, .. } => {
            let behind = instant(before).checked_add(1.nanosecond()).unwrap();
            turns.zone.preceding(behind).next().unwrap().timestamp()
        }
    };
    turn.as_millisecond()
}

fn begins(unit: Unit, date: Date) -> bool {
    match unit {
        Unit::Minute | Unit::Hour | Unit::Day => true,
        Unit::Week => date.weekday() == Weekday::Monday,
        Unit::Month => date.day() == 1,
        Unit::Year => date.day_of_year() == 1,
    }
}

/// The window, found among the turns of all dates around.
fn window_by_dates(turns: &Turns, now: u64) -> Span {
    let today = turns.zone.to_datetime(timestamp(now as i64)).date();
    let reach = match turns.unit {
        Unit::Day => 4,
        Unit::Week => 10,
        Unit::Month => 35,
        _ => 370,
    };
    let instants: Vec<_> = (-reach..=reach)
        .map(|days| today.checked_add(days.days()).unwrap())
        .filter(|&date| begins(turns.unit, date))
        .map(|date| turn_of(turns, date))
        .collect();
    let now = now as i64;
    let from = instants.iter().copied().filter(|&turn| turn <= now).max().unwrap();
    let until = instants.iter().copied().filter(|&turn| turn > now).min().unwrap();
    Span { from: from.max(0) as u64, until: until as u64 }
}

/// Whether a minute or an hour begins at an instant.
fn begins_short(zone: &TimeZone, length_ms: i64, at: i64) -> bool {
    let offset = offset_ms(zone, at);
    (at + offset) % length_ms == 0 || (offset - offset_ms(zone, at - 1)) % HOUR_MS != 0
}

/// The window, found between the surrounding seconds at which one begins.
fn window_by_seconds(turns: &Turns, now: u64) -> Span {
    let length_ms = if turns.unit == Unit::Minute { MINUTE_MS } else { HOUR_MS };
    let begins = |at: &i64| begins_short(&turns.zone, length_ms, *at);
    let second = now as i64 / 1000 * 1000;
    let seconds = 0..=length_ms / 1000;
    let from = seconds.clone().map(|back| second - back * 1000).find(begins).unwrap();
    let until = seconds.map(|on| second + 1000 + on * 1000).find(begins).unwrap();
    Span { from: from.max(0) as u64, until: until as u64 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn windows_are_those_of_the_zones_dates_and_seconds((turns, now) in any_turns()) {
        let expected = match turns.unit {
            Unit::Minute | Unit::Hour => window_by_seconds(&turns, now),
            _ => window_by_dates(&turns, now),
        };
        prop_assert_eq!(window_at(&turns, now), expected);
        prop_assert!(expected.length_ms() <= turns.unit.longest_ms());
    }

    #[test]
    fn windows_hold_their_instant_and_follow_each_other((turns, now) in any_turns()) {
        let window = window_at(&turns, now);
        prop_assert!(window.holds(now));
        prop_assert_eq!(window_at(&turns, window.from), window);
        prop_assert_eq!(window_at(&turns, window.until - 1), window);
        prop_assert_eq!(window_at(&turns, window.until).from, window.until);
        if window.from > 0 {
            prop_assert_eq!(window_at(&turns, window.from - 1).until, window.from);
        }
    }

    #[test]
    fn turns_are_counted_as_if_stepped_through(
        (turns, from) in any_turns(),
        count in 1..40_u64,
        later in 0..u64::MAX,
    ) {
        let mut window = window_at(&turns, from);
        for passed in 0..count {
            let to = window.from.max(from) + later % (window.until - window.from.max(from));
            prop_assert_eq!(turns_between(&turns, from, to), passed);
            prop_assert_eq!(turns_between(&turns, to, from), 0);
            window = window_at(&turns, window.until);
            prop_assert_eq!(turn_after(&turns, from, passed + 1), Some(window.from));
        }
    }

    #[test]
    fn far_turns_are_counted_as_the_way_there(
        (turns, from) in any_turns(),
        (_, middle) in instants(),
        (_, to) in instants(),
    ) {
        let mut instants = [from, middle, to];
        instants.sort_unstable();
        let [from, middle, to] = instants;
        let count = turns_between(&turns, from, to);
        let halves = turns_between(&turns, from, middle) + turns_between(&turns, middle, to);
        prop_assert_eq!(count, halves);
        if count > 0 {
            prop_assert_eq!(turn_after(&turns, from, count), Some(window_at(&turns, to).from));
        }
    }

    #[test]
    fn no_time_and_no_count_panics(
        (turns, _) in any_turns(),
        from in prop_oneof![any::<u64>(), 0..END_MS as u64, Just(u64::MAX)],
        to in prop_oneof![any::<u64>(), 0..END_MS as u64, Just(u64::MAX)],
        count in prop_oneof![1..u64::MAX, 1..1_000_000_000_u64],
    ) {
        let window = window_at(&turns, from);
        prop_assert!(window.holds(from) || from == u64::MAX);
        turns_between(&turns, from, to);
        prop_assert!(turn_after(&turns, from, count).is_none_or(|turn| turn > from));
    }
}
