//! `calendar`: natural windows of a time zone.
//!
//! Invariant: the state is (start, used). It is fresh exactly if `used` is 0, and then `start` is 0
//! too. After a roll `start` is the start of the current window, or of a later window if the clock
//! was set back and has not reached that window again. In the latter case the state's time is
//! `start`.
//!
//! Setting a time outside the current window computes the new one. So a request computes a window
//! only for a state of another window.

use std::borrow::Borrow;

use frs_conf as conf;
use frs_conf::{Turns, Unit};

use super::calendar_windows::{self as windows, Span};
use super::interval::Window;
use super::policy::{Policy, Properties, own_words};
use super::state_word::WordNames;
use super::{Figures, MAX_USED, Terms, use_more};

/// When windows turn, with the window of the time set last.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    turns: Turns,
    current: Span,
}

impl Windows {
    /// The time must be set before they are used.
    pub fn new(turns: Turns) -> Windows {
        Windows { turns, current: Span::NEVER }
    }

    /// Sets the time. Returns the span in which it stays valid.
    pub fn set_now(&mut self, now: u64) -> Span {
        if !self.current.holds(now) {
            self.current = windows::window_at(&self.turns, now);
        }
        self.current
    }

    /// Takes the time set last of the same windows.
    pub fn share_now(&mut self, other: &Windows) {
        self.current = other.current;
    }
}

/// Prepared settings, over windows that the limit owns or borrows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calendar<W = Windows> {
    windows: W,
    max: u64,
    debt: u64,
}

impl Calendar {
    /// Prepares a limit. The time must be set before the limit is used.
    pub fn new(conf::Calendar { turns, max, debt }: &conf::Calendar) -> Calendar {
        Calendar::over(Windows::new(turns.clone()), *max, *debt)
    }

    /// A limit that only counts.
    pub fn counting(turns: &Turns) -> Calendar {
        Calendar::over(Windows::new(turns.clone()), 0, 0)
    }

    /// Its windows, to set their time.
    pub fn windows_mut(&mut self) -> &mut Windows {
        &mut self.windows
    }

    /// The same limit over borrowed windows.
    pub fn borrowed(&self) -> Calendar<&Windows> {
        Calendar::over(&self.windows, self.max, self.debt)
    }
}

impl<W: Borrow<Windows>> Calendar<W> {
    /// A limit over these windows.
    pub const fn over(windows: W, max: u64, debt: u64) -> Calendar<W> {
        Calendar { windows, max, debt }
    }

    #[inline]
    fn turns(&self) -> &Turns {
        &self.windows.borrow().turns
    }

    #[inline]
    fn current(&self) -> Span {
        self.windows.borrow().current
    }

    /// The length of its windows.
    pub fn unit(&self) -> Unit {
        self.turns().unit
    }

    /// The start of the window of the time set last.
    #[inline]
    pub fn start(&self) -> u64 {
        self.current().from
    }

    /// The length of the window of the time set last.
    pub fn current_ms(&self) -> u64 {
        self.current().length_ms()
    }

    /// The most uses of a window: the maximum plus the debt.
    #[inline]
    pub const fn ceiling(&self) -> u64 {
        self.max.saturating_add(self.debt)
    }

    /// A window at `now`, with all completed windows settled. It becomes fresh if the clock was set
    /// back by its length or more.
    #[inline]
    pub(super) fn rolled(&self, window: Window, now: u64) -> Window {
        let (start, used) = (window.start, window.used.min(MAX_USED));
        if used == 0 || start == self.current().from {
            Window { start, used }.or_fresh()
        } else if self.debt == 0 && start <= now {
            Window::default()
        } else {
            self.settle(start, used, now)
        }
    }

    /// Milliseconds until a rolled window turns. 0 while nothing is used.
    #[inline]
    pub(super) fn reset_ms(&self, window: Window, now: u64) -> u64 {
        match window.used {
            0 => 0,
            _ => self.window_of(window).until.saturating_sub(now.max(window.start)),
        }
    }

    /// The window of a rolled state.
    #[inline]
    fn window_of(&self, state: Window) -> Span {
        if state.start == 0 || state.start == self.current().from {
            self.current()
        } else {
            self.other_window(state.start)
        }
    }

    #[cold]
    fn other_window(&self, start: u64) -> Span {
        windows::window_at(self.turns(), start)
    }

    /// The state at `now`, if its window is not the current one.
    #[cold]
    fn settle(&self, start: u64, used: u64, now: u64) -> Window {
        match self.turned(start, now) {
            Turned::Not => Window { start, used }.or_fresh(),
            Turned::Lost => Window::default(),
            // If the time zone changed, `start` may begin no window: its uses stay as debt.
            Turned::To { start, passed } => {
                Window { start, used: self.owed_after(used, passed) }.or_fresh()
            }
        }
    }

    /// The state of a window at `now`, if it is not the current one.
    pub(super) fn turned(&self, start: u64, now: u64) -> Turned {
        let (window, passed) = if now < start {
            let own = self.other_window(start);
            if own.is_endless() || start - now >= own.length_ms() {
                return Turned::Lost;
            }
            (own, 0)
        } else {
            (self.current(), windows::turns_between(self.turns(), start, self.current().from))
        };
        match window.from == start {
            true => Turned::Not,
            false => Turned::To { start: window.from, passed },
        }
    }

    /// The debt that remains of `used` after `passed` turns.
    pub fn owed_after(&self, used: u64, passed: u64) -> u64 {
        match self.debt {
            0 => 0,
            _ => used.saturating_sub(passed.saturating_mul(self.max)),
        }
    }
}

/// The state of an earlier or later window at a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turned {
    /// The window stays: the clock was set back by less than its length.
    Not,
    /// The window is lost: the clock was set back by its length or more.
    Lost,
    /// The state moves to another window.
    To {
        /// The start of the other window.
        start: u64,
        /// The number of turns between the two windows. 0: the time zone changed.
        passed: u64,
    },
}

impl<W: Borrow<Windows>> Policy for Calendar<W> {
    fn shape(&self) -> [u64; 2] {
        [3, self.unit() as u64]
    }

    fn words(&self) -> WordNames {
        Window::WORDS
    }

    fn properties(&self) -> Properties {
        Properties { lends: self.debt > 0, ..Properties::PLAIN }
    }

    #[inline]
    fn roll(&self, state: &mut [u64], now: u64, _: &Terms) {
        self.rolled(Window::of(state), now).store(state);
    }

    #[inline]
    fn admits(&self, state: &[u64], _: u64, count: u32, _: &Terms) -> bool {
        Window::of(state).used.saturating_add(u64::from(count)) <= self.ceiling()
    }

    #[inline]
    fn charge(&self, state: &mut [u64], _: u64, count: i32, _: &Terms) {
        let Window { start, used } = Window::of(state);
        let start = if used == 0 { self.current().from } else { start };
        Window { start, used: use_more(used, count) }.or_fresh().store(state);
    }

    #[inline]
    fn figures(&self, state: &[u64], now: u64, terms: &Terms) -> Figures {
        let window = Window::of(state);
        Figures {
            used: window.used,
            max: self.max,
            remaining: self.remaining(state, now, terms),
            reset_ms: Some(self.reset_ms(window, now)),
        }
    }

    /// Uses left, debt included.
    #[inline]
    fn remaining(&self, state: &[u64], _: u64, _: &Terms) -> u64 {
        self.ceiling().saturating_sub(Window::of(state).used)
    }

    /// Milliseconds until the turn after which `count` fits. Each turn settles `max` uses of a
    /// limit with debt, and all uses of a limit without debt. `None` if `count` never fits, or if
    /// time ends before.
    fn retry_ms(&self, state: &[u64], now: u64, count: u32, _: &Terms) -> Option<u64> {
        if u64::from(count) > self.ceiling() {
            return None;
        }
        let window = Window::of(state);
        let excess = window.used.saturating_add(u64::from(count)).saturating_sub(self.ceiling());
        let turns = excess.div_ceil(self.max.max(1));
        if self.debt == 0 || turns <= 1 {
            return Some(self.reset_ms(window, now));
        }
        let time = now.max(window.start);
        let turn = windows::turn_after(self.turns(), time, turns)?;
        Some(turn.saturating_sub(time))
    }

    /// A fresh state's window is the current one.
    #[inline]
    fn window_ms(&self, state: &[u64], _: &Terms) -> Option<u64> {
        Some(self.window_of(Window::of(state)).length_ms())
    }

    fn quota(&self, _: &Terms) -> Option<(u64, Option<u64>)> {
        Some((self.ceiling(), Some(self.current_ms())))
    }

    /// A clock that was set back by up to a window may have stamped the last use before the start.
    /// Hence the bound is one window longer than the turns take.
    fn life_ms(&self) -> Option<u64> {
        let max = self.max.max(1);
        let turns = if self.debt == 0 { 1 } else { MAX_USED.div_ceil(max) };
        (turns + 1).checked_mul(self.unit().longest_ms())
    }

    own_words!();

    fn is_kept(&self, _: &[u64]) -> bool {
        false
    }

    #[inline]
    fn counts_since(&self, state: &[u64], made_ms: u64) -> bool {
        state[0] <= made_ms
    }
}
