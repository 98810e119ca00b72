//! `interval`: a window that opens at the first use and turns every interval from there.
//!
//! Invariant: the state is (start, used). It is fresh exactly if `used` is 0, and then `start` is 0
//! too. A refused use does not move `start`: repeated requests do not lengthen the window.

use frs_conf::Interval;

use super::{Figures, MAX_USED, use_more};

/// The state of one window, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Window {
    /// When it opened, in milliseconds since the epoch.
    pub start: u64,
    /// Uses in it, plus the debt of the windows before.
    pub used: u64,
}

impl Window {
    const FRESH: Window = Window { start: 0, used: 0 };

    const fn or_fresh(self) -> Window {
        if self.used == 0 { Window::FRESH } else { self }
    }

    /// Milliseconds since the start. If the clock was set back before the start, 0.
    const fn elapsed(self, now: u64) -> u64 {
        now.saturating_sub(self.start)
    }
}

/// The state at `now`, with all completed windows settled. If the clock was set back by an interval
/// or more, the state becomes fresh.
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

/// Whether a rolled state admits `count`, 0 or more.
#[inline]
pub(super) fn admits(limit: &Interval, window: Window, count: u32) -> bool {
    window.used + u64::from(count) <= ceiling(limit)
}

/// A rolled state after `count` more. The first use opens the window.
#[inline]
pub(super) fn charge(window: Window, now: u64, count: i32) -> Window {
    let start = if window.used == 0 { now } else { window.start };
    Window { start, used: use_more(window.used, count) }.or_fresh()
}

/// The figures of a rolled state.
#[inline]
pub(super) fn figures(limit: &Interval, window: Window, now: u64) -> Figures {
    Figures {
        used: window.used,
        max: limit.max,
        remaining: remaining(limit, window),
        reset_ms: Some(reset_ms(limit, window, now)),
    }
}

/// Uses left in a rolled state, debt included.
#[inline]
pub(super) fn remaining(limit: &Interval, window: Window) -> u64 {
    ceiling(limit).saturating_sub(window.used)
}

/// Milliseconds until a rolled state that refuses `count` would admit it, at the turn after which
/// it fits. Each turn settles `max` uses of a limit with debt, and all uses of one without.
pub(super) fn retry_ms(limit: &Interval, window: Window, now: u64, count: u32) -> Option<u64> {
    if u64::from(count) > ceiling(limit) {
        return None;
    }
    let excess = (window.used + u64::from(count)).saturating_sub(ceiling(limit));
    let turns = if limit.debt == 0 { 1 } else { excess.div_ceil(limit.max.max(1)) };
    let later = turns.saturating_sub(1).saturating_mul(limit.interval_ms);
    Some(reset_ms(limit, window, now).saturating_add(later))
}

/// An upper bound of the milliseconds from a state's last use until it is fresh. None: there is no
/// bound.
///
/// A clock that was set back by up to an interval may have stamped the last use before the start.
/// Hence the bound is one interval longer than the window takes.
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
