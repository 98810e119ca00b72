//! `history`: a `calendar`, or a `count` with a unit, that remembers the windows before.
//!
//! Invariant: the state is that of `calendar`, (start, used), and apart from it the totals of the
//! windows that have ended ([`past`]). It judges as the limit without a history does. It is fresh
//! exactly if nothing is used in the current window and in any that it remembers; then `start` is 0
//! and no window is known. Otherwise `start` is that of the window before which the newest known
//! one ended.
//!
//! The total of a window is what was used in it, less what was given back in it. Debt that was
//! carried into it is not part of it: that was used in an earlier one.

use super::Figures;
use super::calendar::{self, Calendar, Turned};
use super::interval::Window;
use super::past::{self, Past, Totals};
use super::{count, use_more};

/// Prepared settings.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// The limit whose windows they are.
    pub calendar: Calendar,
    /// It is a `count`, which refuses nothing.
    pub only_counts: bool,
    /// The windows that are remembered.
    pub past: Past,
    /// First word of [`History::past`], from that of `start`.
    pub past_at: usize,
}

impl History {
    #[inline]
    fn past<'w>(&self, state: &'w [u64]) -> &'w [u64] {
        &state[self.past_at..]
    }

    #[inline]
    fn past_mut<'w>(&self, state: &'w mut [u64]) -> &'w mut [u64] {
        &mut state[self.past_at..]
    }

    /// The totals of the windows before a rolled state's, the newest first.
    pub fn totals<'w>(&self, state: &'w [u64]) -> Totals<'w> {
        Totals::of(self.past(state))
    }

    /// Stores a window of which `carried` is debt of earlier ones. What is fresh is stored so.
    #[inline]
    fn store(&self, state: &mut [u64], window: Window, carried: u64) {
        (state[0], state[1]) = (window.start, window.used);
        past::set_carried(self.past_mut(state), carried.min(window.used));
        if window.used == 0 {
            self.forget_if_unused(state);
        }
    }

    fn forget_if_unused(&self, state: &mut [u64]) {
        if past::is_unused(self.past(state)) {
            state[0] = 0;
            if !past::is_empty(self.past(state)) {
                self.past.clear(self.past_mut(state));
            }
        }
    }

    /// The state at another time than that of its window.
    #[cold]
    fn turn(&self, state: &mut [u64], window: Window, now: u64) {
        let carried = past::carried(self.past(state));
        match self.calendar.turned(window.start, now) {
            Turned::Not => self.store(state, window, carried),
            Turned::Lost => {
                (state[0], state[1]) = (0, 0);
                self.past.clear(self.past_mut(state));
            }
            Turned::To { start, passed } => {
                // Of a window that another time zone has cut off, the rest is no window of its own.
                let uses = window.used.saturating_sub(carried);
                self.past.end_windows(self.past_mut(state), uses, passed.max(1));
                let used = self.calendar.owed_after(window.used, passed);
                self.store(state, Window { start, used }, used);
            }
        }
    }

    #[inline]
    const fn window(state: &[u64]) -> Window {
        Window { start: state[0], used: state[1] }
    }
}

/// The state at `now`, with all completed windows settled and remembered.
#[inline]
pub(super) fn roll(limit: &History, state: &mut [u64], now: u64) {
    limit.past.lay_out(limit.past_mut(state));
    let mut window = History::window(state);
    window.used = window.used.min(super::MAX_USED);
    let is_current = window.start == limit.calendar.start();
    if is_current || window.used == 0 && past::is_empty(limit.past(state)) {
        let carried = past::carried(limit.past(state));
        limit.store(state, window, carried);
    } else {
        limit.turn(state, window, now);
    }
}

/// Whether a rolled state admits `count`, 0 or more.
#[inline]
pub(super) fn admits(limit: &History, state: &[u64], count: u32) -> bool {
    limit.only_counts || calendar::admits(&limit.calendar, History::window(state), count)
}

/// A rolled state after `count` more.
#[inline]
pub(super) fn charge(limit: &History, state: &mut [u64], count: i32) {
    let (window, past) = (History::window(state), limit.past(state));
    let is_fresh = window.used == 0 && past::is_empty(past);
    let start = if is_fresh { limit.calendar.start() } else { window.start };
    let carried = past::carried(past);
    limit.store(state, Window { start, used: use_more(window.used, count) }, carried);
}

/// The figures of a rolled state.
#[inline]
pub(super) fn figures(limit: &History, state: &[u64], now: u64) -> Figures {
    let window = History::window(state);
    match limit.only_counts {
        true => count::figures_of_turns(&limit.calendar, window, now),
        false => calendar::figures(&limit.calendar, window, now),
    }
}

/// Uses left in a rolled state.
#[inline]
pub(super) fn remaining(limit: &History, state: &[u64]) -> u64 {
    if limit.only_counts {
        return 0;
    }
    calendar::remaining(&limit.calendar, History::window(state))
}

/// Milliseconds until a rolled state that refuses `count` would admit it. None: never.
pub(super) fn retry_ms(limit: &History, state: &[u64], now: u64, count: u32) -> Option<u64> {
    calendar::retry_ms(&limit.calendar, History::window(state), now, count)
}

/// The length of a rolled state's window. None: a count tells none.
#[inline]
pub(super) fn window_ms(limit: &History, state: &[u64]) -> Option<u64> {
    (!limit.only_counts).then(|| calendar::window_ms(&limit.calendar, History::window(state)))
}

/// An upper bound of the milliseconds from a state's last use until it is fresh: all windows that
/// are remembered have gone by. None: there is no bound.
pub(super) fn life_ms(limit: &History) -> Option<u64> {
    let windows = u64::from(limit.past.windows);
    let past_ms = windows.checked_mul(limit.calendar.unit().longest_ms())?;
    calendar::life_ms(&limit.calendar)?.checked_add(past_ms)
}

/// Whether a rolled state is fresh.
#[inline]
pub(super) fn is_fresh(limit: &History, state: &[u64]) -> bool {
    state[1] == 0 && past::is_empty(limit.past(state))
}

/// Forgets the uses of the current window of a rolled state, debt included.
pub(super) fn clear_window(limit: &History, state: &mut [u64]) {
    let window = Window { used: 0, ..History::window(state) };
    limit.store(state, window, 0);
}
