//! Calendar windows by definition: a window turns at the first instant at which the local clock has
//! reached the turn.
//!
//! An instant is found by walking the stretches of constant offset around it. The time zone library
//! is never asked to resolve a gap or a fold.

use std::cell::RefCell;
use std::collections::VecDeque;

use frs_conf::{Turns, Unit};
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

const HOUR_MS: i64 = 3_600_000;
/// More than the difference of any two offsets.
const FAR_MS: i64 = 60 * HOUR_MS;

/// A time span with a constant offset: from, until and the offset, in milliseconds.
type Stretch = (i64, i64, i64);

thread_local! {
    /// The windows found last: finding one takes longer than all else that the model does.
    static FOUND: RefCell<VecDeque<(Turns, i128, i128)>> = const { RefCell::new(VecDeque::new()) };
}

/// How many windows are remembered.
const REMEMBERED: usize = 24;

/// The window containing `now`: its start, and its turn.
pub fn window(turns: &Turns, now: i128) -> (i128, i128) {
    FOUND.with_borrow_mut(|found| {
        let is_it = |(known, start, turn): &&(Turns, i128, i128)| {
            (*start..*turn).contains(&now) && known == turns
        };
        if let Some((_, start, turn)) = found.iter().find(is_it) {
            return (*start, *turn);
        }
        let (start, turn) = find_window(turns, now);
        found.truncate(REMEMBERED - 1);
        found.push_front((turns.clone(), start, turn));
        (start, turn)
    })
}

fn find_window(turns: &Turns, now: i128) -> (i128, i128) {
    let now = i64::try_from(now).unwrap();
    let cuts = match turns.unit {
        Unit::Minute => natural(&turns.zone, 60_000, now),
        Unit::Hour => natural(&turns.zone, HOUR_MS, now),
        _ => of_dates(turns, now),
    };
    let start = cuts.iter().copied().filter(|&cut| cut <= now).max().unwrap();
    let turn = cuts.iter().copied().filter(|&cut| cut > now).min().unwrap();
    (start.into(), turn.into())
}

fn stretches(zone: &TimeZone, from: i64, until: i64) -> Vec<Stretch> {
    let time = |ms| Timestamp::from_millisecond(ms).unwrap();
    let offset = |ms| i64::from(zone.to_offset(time(ms)).seconds()) * 1000;
    let changes = zone.following(time(from)).map(|change| change.timestamp().as_millisecond());
    let mut edges = vec![from];
    edges.extend(changes.take_while(|&change| change < until));
    edges.push(until);
    edges.windows(2).map(|edge| (edge[0], edge[1], offset(edge[0]))).collect()
}

/// Turns of minutes or hours around `now`: instants at which the local clock shows a whole one, or
/// its offset changes by other than whole hours.
fn natural(zone: &TimeZone, unit_ms: i64, now: i64) -> Vec<i64> {
    let mut cuts = Vec::new();
    let mut offset_before = None;
    for (from, until, offset) in stretches(zone, now - 2 * unit_ms, now + 2 * unit_ms) {
        if offset_before.is_some_and(|before: i64| (offset - before) % HOUR_MS != 0) {
            cuts.push(from);
        }
        offset_before = Some(offset);
        let past = (from + offset).rem_euclid(unit_ms);
        let first = if past == 0 { from } else { from + unit_ms - past };
        cuts.extend((first..until).step_by(unit_ms as usize));
    }
    cuts
}

/// Turns of days, weeks, months or years around `now`.
fn of_dates(turns: &Turns, now: i64) -> Vec<i64> {
    let today = Timestamp::from_millisecond(now).unwrap().to_zoned(turns.zone.clone()).date();
    let around = -3..=3;
    let dates: Vec<Date> = match turns.unit {
        Unit::Day => around.map(|by| today + by.days()).collect(),
        Unit::Week => {
            let monday = today - i64::from(today.weekday().to_monday_zero_offset()).days();
            around.map(|by| monday + by.weeks()).collect()
        }
        Unit::Month => around.map(|by| today.first_of_month() + by.months()).collect(),
        _ => around.map(|by| date(today.year() + by as i16, 1, 1)).collect(),
    };
    dates.into_iter().map(|date| turn_of(turns, date)).collect()
}

/// The first instant at which the local clock shows the date's turn, or a later time.
fn turn_of(turns: &Turns, date: Date) -> i64 {
    let at = i64::from(turns.at_minutes) * 60_000;
    let midnight = date.to_zoned(TimeZone::UTC).unwrap().timestamp().as_millisecond();
    let local = midnight + at;
    stretches(&turns.zone, local - FAR_MS, local + FAR_MS)
        .into_iter()
        .map(|(from, until, offset)| (from.max(local - offset), until))
        .find(|(reached, until)| reached < until)
        .unwrap()
        .0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window_of(unit: Unit, zone: &str, at_minutes: u16, now: &str) -> [String; 2] {
        let turns = Turns { unit, zone: TimeZone::get(zone).unwrap(), at_minutes };
        let now: Timestamp = now.parse().unwrap();
        let (start, turn) = window(&turns, now.as_millisecond().into());
        [start, turn].map(|ms| Timestamp::from_millisecond(ms as i64).unwrap().to_string())
    }

    #[test]
    fn the_windows_of_known_days() {
        let day = |zone, at, now| window_of(Unit::Day, zone, at, now);
        let short = ["2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z"];
        assert_eq!(day("Europe/Berlin", 0, "2024-03-31T12:00:00Z"), short);
        // 02:30 is in the gap: the turn is at its end. In autumn it occurs twice: the first one
        // counts.
        let gap = ["2024-03-31T01:00:00Z", "2024-04-01T00:30:00Z"];
        assert_eq!(day("Europe/Berlin", 150, "2024-03-31T01:00:00Z"), gap);
        let fold = ["2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"];
        assert_eq!(day("Europe/Berlin", 150, "2024-10-27T01:00:00Z"), fold);
        // The 30th of December did not exist.
        let skip = ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"];
        assert_eq!(day("Pacific/Apia", 0, "2011-12-30T09:59:59Z"), skip);
        let week = ["2026-11-15T16:00:00Z", "2026-11-22T16:00:00Z"];
        assert_eq!(window_of(Unit::Week, "Asia/Shanghai", 0, "2026-11-20T15:00:00Z"), week);
        let year = ["2023-01-01T23:59:00Z", "2024-01-01T23:59:00Z"];
        assert_eq!(window_of(Unit::Year, "UTC", 1439, "2024-01-01T23:58:00Z"), year);
        // Half an hour back at 02:00, which is 15:00 of the day before in UTC.
        let cut = ["2024-04-06T14:00:00Z", "2024-04-06T15:00:00Z"];
        assert_eq!(window_of(Unit::Hour, "Australia/Lord_Howe", 0, "2024-04-06T14:40:00Z"), cut);
        let half = ["2024-04-06T15:00:00Z", "2024-04-06T15:30:00Z"];
        assert_eq!(window_of(Unit::Hour, "Australia/Lord_Howe", 0, "2024-04-06T15:10:00Z"), half);
    }
}
