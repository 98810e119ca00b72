//! `history`: a `calendar`, or a `count` with a unit, that remembers earlier windows.
//!
//! Invariant: the state is that of `calendar`, (start, used), and apart from it the totals of the
//! ended windows ([`history_ring`]). It judges as the limit without a history does. It is fresh
//! exactly if nothing is used in the current window or in any remembered window; then `start` is 0
//! and no window is known. Otherwise `start` is the start of the current window, and the newest
//! known window ended before it.
//!
//! The total of a window is its uses less the uses returned in it. It excludes debt carried into
//! the window: that debt was used in an earlier window.

use std::borrow::Borrow;

use super::calendar::{Calendar, Turned, Windows};
use super::count::figures_of_turns;
use super::history_ring::{self, Remembered};
use super::interval::Window;
use super::policy::{Policy, Properties};
use super::state_word::WordNames;
use super::{Figures, MAX_USED, Terms, use_more};

/// Prepared settings.
#[derive(Debug, Clone)]
pub(super) struct History<W = Windows> {
    /// The limit that defines the windows.
    calendar: Calendar<W>,
    /// It is a `count`, which refuses nothing.
    only_counts: bool,
    /// The windows that are remembered: the state's last words.
    remembered: Remembered,
}

impl<W: Borrow<Windows>> History<W> {
    /// A `calendar` that remembers windows.
    pub fn of(calendar: Calendar<W>, remembered: Remembered) -> History<W> {
        History { calendar, only_counts: false, remembered }
    }

    /// A `count` that remembers windows.
    pub fn of_count(calendar: Calendar<W>, remembered: Remembered) -> History<W> {
        History { calendar, only_counts: true, remembered }
    }

    /// The same with another place in the state.
    pub fn remembering(self, remembered: Remembered) -> History<W> {
        History { remembered, ..self }
    }

    #[inline]
    fn past<'w>(&self, state: &'w [u64]) -> &'w [u64] {
        &state[self.remembered.at.start..]
    }

    #[inline]
    fn past_mut<'w>(&self, state: &'w mut [u64]) -> &'w mut [u64] {
        &mut state[self.remembered.at.start..]
    }

    /// Stores a window; `carried` of its uses are debt of earlier windows. A state without uses is
    /// stored as fresh.
    #[inline]
    fn store(&self, state: &mut [u64], window: Window, carried: u64) {
        window.store(state);
        history_ring::set_carried(self.past_mut(state), carried.min(window.used));
        if window.used == 0 {
            self.forget_if_unused(state);
        }
    }

    fn forget_if_unused(&self, state: &mut [u64]) {
        if history_ring::is_unused(self.past(state)) {
            state[0] = 0;
            if !history_ring::is_empty(self.past(state)) {
                self.remembered.past.clear(self.past_mut(state));
            }
        }
    }

    /// Brings the state to a time outside its window.
    #[cold]
    fn turn(&self, state: &mut [u64], window: Window, now: u64) {
        let carried = history_ring::carried(self.past(state));
        match self.calendar.turned(window.start, now) {
            Turned::Not => self.store(state, window, carried),
            Turned::Lost => {
                Window::default().store(state);
                self.remembered.past.clear(self.past_mut(state));
            }
            Turned::To { start, passed } => {
                // If the time zone changed, `passed` may be 0: the window that was cut off ends as
                // one window.
                let uses = window.used.saturating_sub(carried);
                self.remembered.past.end_windows(self.past_mut(state), uses, passed.max(1));
                let used = self.calendar.owed_after(window.used, passed);
                self.store(state, Window { start, used }, used);
            }
        }
    }
}

impl History {
    /// The windows by which it counts. The time must be set before it is used.
    pub fn windows_mut(&mut self) -> &mut Windows {
        self.calendar.windows_mut()
    }
}

impl<W: Borrow<Windows>> Policy for History<W> {
    #[inline]
    fn remembered(&self) -> Option<&Remembered> {
        Some(&self.remembered)
    }

    /// The shape of the limit without a history.
    fn shape(&self) -> [u64; 2] {
        [if self.only_counts { 7 } else { 3 }, self.calendar.unit() as u64]
    }

    fn words(&self) -> WordNames {
        Window::WORDS
    }

    fn properties(&self) -> Properties {
        Properties {
            only_counts: self.only_counts,
            lends: self.calendar.properties().lends,
            ..Properties::PLAIN
        }
    }

    #[inline]
    fn roll(&self, state: &mut [u64], now: u64, _: &Terms) {
        self.remembered.past.lay_out(self.past_mut(state));
        let mut window = Window::of(state);
        window.used = window.used.min(MAX_USED);
        let is_current = window.start == self.calendar.start();
        if is_current || window.used == 0 && history_ring::is_empty(self.past(state)) {
            let carried = history_ring::carried(self.past(state));
            self.store(state, window, carried);
        } else {
            self.turn(state, window, now);
        }
    }

    #[inline]
    fn admits(&self, state: &[u64], now: u64, count: u32, terms: &Terms) -> bool {
        self.only_counts || self.calendar.admits(state, now, count, terms)
    }

    #[inline]
    fn charge(&self, state: &mut [u64], _: u64, count: i32, _: &Terms) {
        let (window, past) = (Window::of(state), self.past(state));
        let is_fresh = window.used == 0 && history_ring::is_empty(past);
        let start = if is_fresh { self.calendar.start() } else { window.start };
        let carried = history_ring::carried(past);
        self.store(state, Window { start, used: use_more(window.used, count) }, carried);
    }

    #[inline]
    fn figures(&self, state: &[u64], now: u64, terms: &Terms) -> Figures {
        match self.only_counts {
            true => figures_of_turns(&self.calendar, Window::of(state), now),
            false => self.calendar.figures(state, now, terms),
        }
    }

    #[inline]
    fn remaining(&self, state: &[u64], now: u64, terms: &Terms) -> u64 {
        if self.only_counts {
            return 0;
        }
        self.calendar.remaining(state, now, terms)
    }

    fn retry_ms(&self, state: &[u64], now: u64, count: u32, terms: &Terms) -> Option<u64> {
        self.calendar.retry_ms(state, now, count, terms)
    }

    /// A count reports no window.
    #[inline]
    fn window_ms(&self, state: &[u64], terms: &Terms) -> Option<u64> {
        if self.only_counts { None } else { self.calendar.window_ms(state, terms) }
    }

    fn quota(&self, terms: &Terms) -> Option<(u64, Option<u64>)> {
        if self.only_counts { None } else { self.calendar.quota(terms) }
    }

    /// The life of the calendar, and the time until all remembered windows are forgotten.
    fn life_ms(&self) -> Option<u64> {
        let windows = u64::from(self.remembered.past.windows);
        let past_ms = windows.checked_mul(self.calendar.unit().longest_ms())?;
        self.calendar.life_ms()?.checked_add(past_ms)
    }

    #[inline]
    fn is_fresh(&self, state: &[u64]) -> bool {
        state[1] == 0 && history_ring::is_empty(self.past(state))
    }

    fn is_kept(&self, _: &[u64]) -> bool {
        false
    }

    #[inline]
    fn counts_since(&self, state: &[u64], made_ms: u64) -> bool {
        state[0] <= made_ms
    }

    /// Forgets debt, too.
    fn clear(&self, state: &mut [u64]) -> bool {
        self.store(state, Window { used: 0, ..Window::of(state) }, 0);
        true
    }
}
