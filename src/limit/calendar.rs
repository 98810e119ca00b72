//! `calendar`: natural windows of a time zone.
//!
//! Invariant: the state is (start, used). It is fresh exactly if `used` is 0, and then `start` is 0
//! too. The `start` of a rolled state is that of the current window, or of a later one if the clock
//! was set back and has not reached that window again. In the latter case the state's time is
//! `start`.
//!
//! The current window is computed when a time outside it is set. So a request computes a window
//! only for a state of another one.

use frs_conf as conf;
use frs_conf::{Turns, Unit};

use super::calendar_windows::{self as windows, Span};
use super::interval::Window;
use super::{Figures, MAX_USED, use_more};

/// Prepared settings, with the window of the time set last.
#[derive(Debug, Clone)]
pub(super) struct Calendar {
    limit: conf::Calendar,
    current: Span,
}

impl Calendar {
    /// Prepares a limit. The time must be set before the limit is used.
    pub fn new(limit: &conf::Calendar) -> Calendar {
        Calendar { limit: limit.clone(), current: Span::NEVER }
    }

    /// A limit that only counts.
    pub fn counting(turns: &Turns) -> Calendar {
        Calendar::new(&conf::Calendar { turns: turns.clone(), max: 0, debt: 0 })
    }

    /// When the window of the time set last began.
    #[inline]
    pub fn current_start(&self) -> u64 {
        self.current.from
    }

    /// The length of its windows.
    pub fn unit(&self) -> Unit {
        self.limit.turns.unit
    }

    /// Sets the time. The result is the span in which it need not be set again.
    #[inline]
    pub fn set_now(&mut self, now: u64) -> Span {
        if !self.current.holds(now) {
            self.current = windows::window_at(&self.limit.turns, now);
        }
        self.current
    }

    /// Takes the time set in another limit with the same turns.
    pub fn share_now(&mut self, told: &Calendar) {
        self.current = told.current;
    }

    /// The start of the window of the time set last.
    #[inline]
    pub const fn start(&self) -> u64 {
        self.current.from
    }

    /// The length of the window of the time set last.
    pub const fn current_ms(&self) -> u64 {
        self.current.length_ms()
    }

    /// Whether it lends uses beyond its maximum.
    pub const fn lends(&self) -> bool {
        self.limit.debt > 0
    }

    /// The most uses of a window: the maximum and what is lent.
    #[inline]
    pub const fn ceiling(&self) -> u64 {
        self.limit.max.saturating_add(self.limit.debt)
    }

    /// The window of a rolled state.
    #[inline]
    fn window_of(&self, state: Window) -> Span {
        if state.start == 0 || state.start == self.current.from {
            self.current
        } else {
            self.other_window(state.start)
        }
    }

    #[cold]
    fn other_window(&self, start: u64) -> Span {
        windows::window_at(&self.limit.turns, start)
    }

    /// The state at `now`, if its window is not the current one.
    #[cold]
    fn settle(&self, start: u64, used: u64, now: u64) -> Window {
        match self.turned(start, now) {
            Turned::Not => window_of(start, used),
            Turned::Lost => Window::default(),
            // If the time zone was another, `start` begins no window at all: its uses remain a
            // debt.
            Turned::To { start, passed } => window_of(start, self.owed_after(used, passed)),
        }
    }

    /// What has become of a window that is not the current one.
    pub fn turned(&self, start: u64, now: u64) -> Turned {
        let (window, passed) = if now < start {
            let own = self.other_window(start);
            if own.is_endless() || start - now >= own.length_ms() {
                return Turned::Lost;
            }
            (own, 0)
        } else {
            (self.current, windows::turns_between(&self.limit.turns, start, self.current.from))
        };
        match window.from == start {
            true => Turned::Not,
            false => Turned::To { start: window.from, passed },
        }
    }

    /// What is left of uses after so many turns: debt.
    pub fn owed_after(&self, used: u64, passed: u64) -> u64 {
        match self.limit.debt {
            0 => 0,
            _ => used.saturating_sub(passed.saturating_mul(self.limit.max)),
        }
    }
}

/// What has become of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turned {
    /// It is still that of the state: the clock was set back, by less than the window.
    Not,
    /// It is unknown: the clock was set back by as much or more.
    Lost,
    /// Another one is that of the state.
    To {
        /// Its start.
        start: u64,
        /// The turns between the two. 0: the time zone was another.
        passed: u64,
    },
}

/// The state at `now`, with all completed windows settled. If the clock was set back by the state's
/// window or more, the state becomes fresh.
#[inline]
pub(super) fn roll(limit: &Calendar, window: Window, now: u64) -> Window {
    let (start, used) = (window.start, window.used.min(MAX_USED));
    if used == 0 || start == limit.current.from {
        window_of(start, used)
    } else if limit.limit.debt == 0 && start <= now {
        Window::default()
    } else {
        limit.settle(start, used, now)
    }
}

/// Whether a rolled state admits `count`, 0 or more.
#[inline]
pub(super) fn admits(limit: &Calendar, window: Window, count: u32) -> bool {
    window.used.saturating_add(u64::from(count)) <= limit.ceiling()
}

/// A rolled state after `count` more.
#[inline]
pub(super) fn charge(limit: &Calendar, window: Window, count: i32) -> Window {
    let start = if window.used == 0 { limit.current.from } else { window.start };
    window_of(start, use_more(window.used, count))
}

/// The figures of a rolled state.
#[inline]
pub(super) fn figures(limit: &Calendar, window: Window, now: u64) -> Figures {
    Figures {
        used: window.used,
        max: limit.limit.max,
        remaining: remaining(limit, window),
        reset_ms: Some(reset_ms(limit, window, now)),
    }
}

/// Uses left in a rolled state, debt included.
#[inline]
pub(super) fn remaining(limit: &Calendar, window: Window) -> u64 {
    limit.ceiling().saturating_sub(window.used)
}

/// Milliseconds until the window of a rolled state turns. 0 while nothing is used.
#[inline]
pub(super) fn reset_ms(limit: &Calendar, window: Window, now: u64) -> u64 {
    match window.used {
        0 => 0,
        _ => limit.window_of(window).until.saturating_sub(now.max(window.start)),
    }
}

/// Milliseconds until a rolled state that refuses `count` would admit it, at the turn after which
/// it fits. Each turn settles `max` uses of a limit with debt, and all uses of one without. None:
/// never, for example because time ends before.
pub(super) fn retry_ms(limit: &Calendar, window: Window, now: u64, count: u32) -> Option<u64> {
    if u64::from(count) > limit.ceiling() {
        return None;
    }
    let excess = window.used.saturating_add(u64::from(count)).saturating_sub(limit.ceiling());
    let turns = excess.div_ceil(limit.limit.max.max(1));
    if limit.limit.debt == 0 || turns <= 1 {
        return Some(reset_ms(limit, window, now));
    }
    let time = now.max(window.start);
    let turn = windows::turn_after(&limit.limit.turns, time, turns)?;
    Some(turn.saturating_sub(time))
}

/// The length of a rolled state's window. A fresh state's window is the current one.
#[inline]
pub(super) fn window_ms(limit: &Calendar, window: Window) -> u64 {
    limit.window_of(window).length_ms()
}

/// An upper bound of the milliseconds from a state's last use until it is fresh. None: there is no
/// bound.
///
/// A clock that was set back by up to a window may have stamped the last use before the start.
/// Hence the bound is one window longer than the turns take.
pub(super) fn life_ms(limit: &Calendar) -> Option<u64> {
    let max = limit.limit.max.max(1);
    let turns = if limit.limit.debt == 0 { 1 } else { MAX_USED.div_ceil(max) };
    (turns + 1).checked_mul(limit.unit().longest_ms())
}

#[inline]
const fn window_of(start: u64, used: u64) -> Window {
    if used == 0 { Window { start: 0, used: 0 } } else { Window { start, used } }
}
