//! A `distinct` limit that remembers how many members the windows before had.
//!
//! Invariant: that of [`super::super::history`]: it judges as the limit without a history does, and
//! is fresh exactly if there is no member in the current window and none in any that it remembers.

use std::ops::Range;

use super::super::calendar::{Calendar, Turned};
use super::super::past::{self, Past, Totals};
use super::window;

/// What is remembered, and where it is in the state.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    /// The windows.
    pub past: Past,
    /// Words of the limit itself.
    pub own: Range<usize>,
    /// Words of the history.
    pub at: Range<usize>,
}

impl Remembered {
    /// The totals of the windows before, the newest first.
    pub fn totals<'w>(&self, state: &'w [u64]) -> Totals<'w> {
        Totals::of(&state[self.at.clone()])
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self, state: &[u64]) -> bool {
        past::is_empty(&state[self.at.clone()])
    }

    /// Brings the state to `now`.
    #[inline]
    pub fn roll(&self, turns: &Calendar, state: &mut [u64], now: u64) {
        self.past.lay_out(&mut state[self.at.clone()]);
        let window = window(&state[self.own.clone()]);
        let is_unused = window.used == 0 && self.is_empty(state);
        if window.start != turns.current_start() && !is_unused {
            self.turn(turns, state, now);
        } else if window.used == 0 {
            self.forget_if_unused(state);
        }
    }

    /// The state at another time than that of its window.
    #[cold]
    fn turn(&self, turns: &Calendar, state: &mut [u64], now: u64) {
        let window = window(&state[self.own.clone()]);
        match turns.turned(window.start, now) {
            Turned::Not => {}
            Turned::Lost => {
                state[self.own.clone()].fill(0);
                self.past.clear(&mut state[self.at.clone()]);
            }
            Turned::To { start, passed } => {
                let past = &mut state[self.at.clone()];
                self.past.end_windows(past, window.used, passed.max(1));
                let own = &mut state[self.own.clone()];
                own.fill(0);
                own[0] = start;
            }
        }
        self.forget_if_unused(state);
    }

    /// What is fresh is stored so.
    pub fn forget_if_unused(&self, state: &mut [u64]) {
        let past = &mut state[self.at.clone()];
        let is_known = !past::is_empty(past);
        if is_known && past::is_unused(past) {
            self.past.clear(past);
        }
        let is_known = !past::is_empty(past);
        let own = &mut state[self.own.clone()];
        if own[1] == 0 && !is_known {
            own[0] = 0;
        }
    }

    /// Forgets the members of the current window, but not what is remembered.
    pub fn clear_window(&self, state: &mut [u64]) {
        let own = &mut state[self.own.clone()];
        own[1..].fill(0);
        self.forget_if_unused(state);
    }
}
