//! `interval`: a window that opens at the first use and turns every interval from there.
//!
//! The state is (start, used). It is fresh exactly if `used` is 0, and then `start` is 0 too. A
//! refused use does not move `start`: hammering does not lengthen the window.

use super::{Figures, MAX_USED, use_more};
use crate::conf::Interval;

/// The state of one window, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Window {
    /// Milliseconds since the epoch when it opened.
    pub start: u64,
    /// Uses in it, with the debt of the windows before.
    pub used: u64,
}

impl Window {
    const FRESH: Window = Window { start: 0, used: 0 };

    const fn or_fresh(self) -> Window {
        if self.used == 0 { Window::FRESH } else { self }
    }

    /// Milliseconds since the start. A clock set back stands still at the start.
    const fn elapsed(self, now: u64) -> u64 {
        now.saturating_sub(self.start)
    }
}

/// The state at `now`: whole windows gone by are settled. A clock set back by an interval or more
/// makes the state fresh.
#[inline]
pub(super) fn roll(limit: &Interval, window: Window, now: u64) -> Window {
    let used = window.used.min(MAX_USED);
    let start = window.start;
    if now.abs_diff(start) < limit.interval_ms {
        return Window { start, used }.or_fresh();
    }
    if now < start || limit.debt == 0 {
        return Window::FRESH;
    }
    let turns = (now - start) / limit.interval_ms;
    let used = used.saturating_sub(turns.saturating_mul(limit.max));
    Window { start: start + turns * limit.interval_ms, used }.or_fresh()
}

/// Does a rolled state admit `count`, 0 or more?
#[inline]
pub(super) fn admits(limit: &Interval, window: Window, count: u32) -> bool {
    window.used + u64::from(count) <= ceiling(limit)
}

/// A rolled state after `count` more; the first use opens the window.
#[inline]
pub(super) fn charge(window: Window, now: u64, count: i32) -> Window {
    let start = if window.used == 0 { now } else { window.start };
    Window { start, used: use_more(window.used, count) }.or_fresh()
}

/// What a rolled state shows.
#[inline]
pub(super) fn figures(limit: &Interval, window: Window, now: u64) -> Figures {
    Figures {
        used: window.used,
        max: limit.max,
        remaining: remaining(limit, window),
        reset_ms: Some(reset_ms(limit, window, now)),
    }
}

/// What a rolled state leaves, debt included.
#[inline]
pub(super) fn remaining(limit: &Interval, window: Window) -> u64 {
    ceiling(limit).saturating_sub(window.used)
}

/// Milliseconds until a rolled state that refuses `count` would admit it: the turn after which
/// it fits, each turn settling `max` uses of a limit with debt and all of one without.
pub(super) fn retry_ms(limit: &Interval, window: Window, now: u64, count: u32) -> Option<u64> {
    if u64::from(count) > ceiling(limit) {
        return None;
    }
    let excess = (window.used + u64::from(count)).saturating_sub(ceiling(limit));
    let turns = if limit.debt == 0 { 1 } else { excess.div_ceil(limit.max.max(1)) };
    let later = turns.saturating_sub(1).saturating_mul(limit.interval_ms);
    Some(reset_ms(limit, window, now).saturating_add(later))
}

/// An upper bound of the milliseconds from a state's last use until it is fresh; none if there is
/// no telling.
///
/// The last use can be stamped by a clock that was set back up to an interval before the start:
/// hence one interval more than the window takes.
pub(super) fn life_ms(limit: &Interval) -> Option<u64> {
    let turns = if limit.debt == 0 { 1 } else { MAX_USED.div_ceil(limit.max.max(1)) };
    (turns + 1).checked_mul(limit.interval_ms)
}

#[inline]
const fn ceiling(limit: &Interval) -> u64 {
    limit.max.saturating_add(limit.debt)
}

#[inline]
const fn reset_ms(limit: &Interval, window: Window, now: u64) -> u64 {
    if window.used == 0 { 0 } else { limit.interval_ms.saturating_sub(window.elapsed(now)) }
}
