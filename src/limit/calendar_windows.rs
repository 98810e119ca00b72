//! Calendar windows: the window that contains an instant, and the number of turns between two
//! instants.
//!
//! Invariant: windows are the spans between one turn and the next. They neither overlap nor leave a
//! gap, and none is empty. Local time is treated as if it were UTC, in milliseconds.
//!
//! Days and longer windows turn when the local clock *first shows* the time of the turn or a later
//! one. This one rule moves a turn in a gap to the end of the gap, takes the first of two
//! occurrences, and gives no window to days that a zone skipped. Minutes and hours are those of the
//! offset in force. A change of the offset by whole hours leaves their turns where they are. Any
//! other change is a turn itself.
//!
//! Time ends with the year 9998, a year before dates do. The windows that contain its end last
//! forever.

use std::ops::Range;

use frs_conf::{Turns, Unit};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
const WEEK_MS: i64 = 7 * DAY_MS;
/// 1970-01-05, a Monday.
const FIRST_MONDAY_MS: i64 = 4 * DAY_MS;

/// 9999-01-01T00:00Z.
const END_MS: i64 = 253_370_764_800_000;

/// The most offset changes of a zone that one search reads: at least those of a century. The turn
/// of an overdrawn client can lie thousands of years ahead, and reading all changes until then
/// would take milliseconds. Later changes are ignored, which moves no turn of a zone that changes
/// by whole hours.
const MAX_CHANGES: usize = 400;

/// More than the offset of any zone from UTC.
const MAX_OFFSET_MS: i64 = 26 * HOUR_MS;

/// A span of time, in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first millisecond.
    pub from: u64,
    /// The first millisecond after it.
    pub until: u64,
}

impl Span {
    /// All of time.
    pub const EVER: Span = Span { from: 0, until: u64::MAX };

    /// No time at all.
    pub const NEVER: Span = Span { from: u64::MAX, until: 0 };

    /// Whether it contains an instant.
    #[inline]
    pub const fn holds(&self, now: u64) -> bool {
        self.from <= now && now < self.until
    }

    /// Its length in milliseconds.
    #[inline]
    pub const fn length_ms(&self) -> u64 {
        self.until.saturating_sub(self.from)
    }

    /// Whether it never ends.
    #[inline]
    pub const fn is_endless(&self) -> bool {
        self.until == u64::MAX
    }

    /// The intersection of two.
    pub fn and(self, other: Span) -> Span {
        Span { from: self.from.max(other.from), until: self.until.min(other.until) }
    }
}

/// The window that contains an instant.
pub fn window_at(turns: &Turns, now: u64) -> Span {
    let at = reckoned(now);
    let (from, until) = match Length::of(turns.unit) {
        Length::Short(length_ms) => {
            let window = short_window(&turns.zone, length_ms, at);
            (window.start, Some(window.end))
        }
        length => {
            let index = length.index_at(turns, at);
            (length.turn(turns, index).unwrap_or(at), length.turn(turns, index + 1))
        }
    };
    let until = until.filter(|&until| until <= END_MS);
    Span { from: from.max(0) as u64, until: until.map_or(u64::MAX, |until| until as u64) }
}

/// The number of windows that begin after `from`, up to and including `to`.
///
/// Takes a step for each change of the zone's offset between the two, never one for each window.
/// Exact over a century and more, see [`MAX_CHANGES`].
pub(super) fn turns_between(turns: &Turns, from: u64, to: u64) -> u64 {
    let (from, to) = (reckoned(from), reckoned(to));
    if from >= to {
        return 0;
    }
    let begun = match Length::of(turns.unit) {
        Length::Short(length_ms) => short_turns(&turns.zone, length_ms, from, to),
        length => {
            let indices = length.index_at(turns, to) - length.index_at(turns, from);
            indices - length.skipped(turns, from, to)
        }
    };
    begun.max(0) as u64
}

/// The start of the window `count` windows after the one that contains an instant; `count` is at
/// least 1. `None` if there is no such window.
pub(super) fn turn_after(turns: &Turns, instant: u64, count: u64) -> Option<u64> {
    let (after, count) = (reckoned(instant), i64::try_from(count).ok()?);
    let turn = match Length::of(turns.unit) {
        Length::Short(length_ms) => short_turn_after(&turns.zone, length_ms, after, count),
        length => length.turn_after(turns, after, count),
    };
    turn.filter(|&turn| turn <= END_MS).map(|turn| turn as u64)
}

/// Converts an instant, clamped to the end of time.
fn reckoned(now: u64) -> i64 {
    i64::try_from(now).map_or(END_MS, |now| now.min(END_MS))
}

/// How windows follow one another on the local clock.
#[derive(Clone, Copy)]
enum Length {
    /// Minutes and hours.
    Short(i64),
    /// Days and weeks: the length of each in milliseconds. Window 0 starts at `origin_ms`.
    Even { length_ms: i64, origin_ms: i64 },
    /// Months and years, by their number of months. Window 0 starts with the year 0.
    Months(i64),
}

impl Length {
    const fn of(unit: Unit) -> Length {
        match unit {
            Unit::Minute => Length::Short(MINUTE_MS),
            Unit::Hour => Length::Short(HOUR_MS),
            Unit::Day => Length::Even { length_ms: DAY_MS, origin_ms: 0 },
            Unit::Week => Length::Even { length_ms: WEEK_MS, origin_ms: FIRST_MONDAY_MS },
            Unit::Month => Length::Months(1),
            Unit::Year => Length::Months(12),
        }
    }

    /// Index of the window that contains a local time, by the calendar alone.
    fn index_of(self, local: i64) -> i64 {
        match self {
            Length::Short(length_ms) => local.div_euclid(length_ms),
            Length::Even { length_ms, origin_ms } => (local - origin_ms).div_euclid(length_ms),
            Length::Months(months) => {
                let date = Offset::UTC.to_datetime(timestamp(local)).date();
                (i64::from(date.year()) * 12 + i64::from(date.month()) - 1).div_euclid(months)
            }
        }
    }

    /// The local midnight with which a window begins. None if the calendar ends before.
    fn midnight(self, index: i64) -> Option<i64> {
        match self {
            Length::Short(length_ms) => index.checked_mul(length_ms),
            Length::Even { length_ms, origin_ms } => {
                index.checked_mul(length_ms)?.checked_add(origin_ms)
            }
            Length::Months(months) => {
                let month = index.checked_mul(months)?;
                let year = i16::try_from(month.div_euclid(12)).ok()?;
                let first = Date::new(year, month.rem_euclid(12) as i8 + 1, 1).ok()?;
                let midnight = Offset::UTC.to_timestamp(first.at(0, 0, 0, 0)).ok()?;
                Some(midnight.as_millisecond())
            }
        }
    }

    /// The beginning of the window with an index. None if time ends before.
    fn turn(self, turns: &Turns, index: i64) -> Option<i64> {
        let local = self.midnight(index)?.checked_add(at_ms(turns))?;
        let reckoned = local <= END_MS + MAX_OFFSET_MS;
        reckoned.then(|| first_shown(&turns.zone, local)).filter(|&turn| turn <= END_MS)
    }

    /// Index of the window that contains an instant, by local time. If the local clock was set back
    /// across a turn, the index stays that of the window after the turn: no turn happens twice.
    fn index_at(self, turns: &Turns, at: i64) -> i64 {
        let mut index = self.index_of(at + offset_ms(&turns.zone, at) - at_ms(turns));
        while self.turn(turns, index + 1).is_some_and(|turn| turn <= at) {
            index += 1;
        }
        index
    }

    /// The number of indices without a window among those that begin after `from`, up to and
    /// including `to`. A change of the offset by a day or more passes several turns at once. No
    /// zone ever skipped a week.
    fn skipped(self, turns: &Turns, from: i64, to: i64) -> i64 {
        if !matches!(self, Length::Even { length_ms: DAY_MS, .. }) {
            return 0;
        }
        changes(&turns.zone, from)
            .take_while(|change| change.at <= to)
            .filter(|change| change.after_ms - change.before_ms >= DAY_MS)
            .map(|change| self.index_at(turns, change.at) - self.index_at(turns, change.at - 1))
            .map(|passed| (passed - 1).max(0))
            .sum()
    }

    /// The `count`-th turn after an instant.
    fn turn_after(self, turns: &Turns, after: i64, count: i64) -> Option<i64> {
        let index = self.index_at(turns, after).checked_add(count)?;
        let mut skipped = 0;
        loop {
            let turn = self.turn(turns, index.checked_add(skipped)?)?;
            // Skip the indices without a window. The longer way may pass more of them.
            let more = self.skipped(turns, after, turn);
            if more == skipped {
                return Some(turn);
            }
            skipped = more;
        }
    }
}

fn short_window(zone: &TimeZone, length_ms: i64, at: i64) -> Range<i64> {
    let local = at + offset_ms(zone, at);
    let mut from = at - local.rem_euclid(length_ms);
    let until = from + length_ms;
    for change in changes(zone, from).take_while(|change| change.at < until) {
        match change.cuts() {
            true if change.at <= at => from = change.at,
            true => return from..change.at,
            false => {}
        }
    }
    from..until
}

/// The number of minutes or hours that begin after `from`, up to and including `to`.
fn short_turns(zone: &TimeZone, length_ms: i64, from: i64, to: i64) -> i64 {
    let (mut since, mut begun) = (from, 0);
    let mut offset = offset_ms(zone, from);
    for change in changes(zone, from).take_while(|change| change.at <= to) {
        if change.cuts() {
            begun += 1 + even_turns(length_ms, offset, since, change.at - 1);
            (since, offset) = (change.at, change.after_ms);
        }
    }
    begun + even_turns(length_ms, offset, since, to)
}

fn short_turn_after(zone: &TimeZone, length_ms: i64, after: i64, count: i64) -> Option<i64> {
    let (mut since, mut left) = (after, count);
    let mut offset = offset_ms(zone, after);
    for change in changes(zone, after) {
        if even_turn_after(length_ms, offset, since, left)? <= change.at {
            break;
        }
        if change.cuts() {
            left -= 1 + even_turns(length_ms, offset, since, change.at - 1);
            (since, offset) = (change.at, change.after_ms);
        }
        if left == 0 {
            return Some(since);
        }
    }
    even_turn_after(length_ms, offset, since, left)
}

/// How many multiples of a length the local clock passes after `from`, up to and including `to`.
fn even_turns(length_ms: i64, offset_ms: i64, from: i64, to: i64) -> i64 {
    (to + offset_ms).div_euclid(length_ms) - (from + offset_ms).div_euclid(length_ms)
}

/// The instant at which the local clock has passed `count` multiples of the length.
fn even_turn_after(length_ms: i64, offset_ms: i64, from: i64, count: i64) -> Option<i64> {
    let passed = (from + offset_ms).rem_euclid(length_ms);
    count.checked_mul(length_ms)?.checked_add(from - passed)
}

/// The first instant at which a zone's clock shows a local time or a later one.
fn first_shown(zone: &TimeZone, local: i64) -> i64 {
    // No zone can show that time earlier.
    let mut since = local - MAX_OFFSET_MS;
    for change in changes(zone, since) {
        let shown = since.max(local - change.before_ms);
        if shown < change.at {
            return shown;
        }
        since = change.at;
    }
    since.max(local - offset_ms(zone, since))
}

/// A change of a zone's offset.
struct OffsetChange {
    /// The first instant after it.
    at: i64,
    before_ms: i64,
    after_ms: i64,
}

impl OffsetChange {
    /// Whether the change ends the current minute or hour.
    const fn cuts(&self) -> bool {
        (self.after_ms - self.before_ms) % HOUR_MS != 0
    }
}

/// The next changes after an instant.
fn changes(zone: &TimeZone, after: i64) -> impl Iterator<Item = OffsetChange> {
    let mut before_ms = offset_ms(zone, after);
    zone.following(timestamp(after)).take(MAX_CHANGES).map(move |transition| {
        let after_ms = i64::from(transition.offset().seconds()) * 1000;
        let at = transition.timestamp().as_millisecond();
        let change = OffsetChange { at, before_ms, after_ms };
        before_ms = after_ms;
        change
    })
}

/// By how much a zone's clock is ahead of UTC at an instant.
fn offset_ms(zone: &TimeZone, at: i64) -> i64 {
    i64::from(zone.to_offset(timestamp(at)).seconds()) * 1000
}

fn at_ms(turns: &Turns) -> i64 {
    i64::from(turns.at_minutes) * MINUTE_MS
}

/// Converts an instant, clamped to the last timestamp that has a date.
fn timestamp(at: i64) -> Timestamp {
    Timestamp::from_millisecond(at).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
