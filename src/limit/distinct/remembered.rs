//! A `distinct` limit that remembers the numbers of members of earlier windows.
//!
//! Invariant: as in [`super::super::history`], it judges as the limit without a history does. It is
//! fresh exactly if neither the current window nor any remembered window has a member.

use std::borrow::Borrow;

use super::super::calendar::{Calendar, Turned, Windows};
use super::super::history_ring::{self, Remembered};
use super::super::interval::Window;

impl Remembered {
    /// Whether nothing is remembered.
    pub(super) fn is_empty(&self, state: &[u64]) -> bool {
        history_ring::is_empty(&state[self.at.clone()])
    }

    /// Brings the state to `now`.
    #[inline]
    pub(super) fn roll<W: Borrow<Windows>>(
        &self,
        turns: &Calendar<W>,
        state: &mut [u64],
        now: u64,
    ) {
        self.past.lay_out(&mut state[self.at.clone()]);
        let window = Window::of(&state[self.own.clone()]);
        let is_unused = window.used == 0 && self.is_empty(state);
        if window.start != turns.start() && !is_unused {
            self.turn(turns, state, now);
        } else if window.used == 0 {
            self.forget_if_unused(state);
        }
    }

    /// Brings the state to a time outside its window.
    #[cold]
    fn turn<W: Borrow<Windows>>(&self, turns: &Calendar<W>, state: &mut [u64], now: u64) {
        let window = Window::of(&state[self.own.clone()]);
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

    /// Stores a state without members as fresh.
    pub(super) fn forget_if_unused(&self, state: &mut [u64]) {
        let past = &mut state[self.at.clone()];
        let is_known = !history_ring::is_empty(past);
        if is_known && history_ring::is_unused(past) {
            self.past.clear(past);
        }
        let is_known = !history_ring::is_empty(past);
        let own = &mut state[self.own.clone()];
        if own[1] == 0 && !is_known {
            own[0] = 0;
        }
    }

    /// Forgets the members of the current window, but not the history.
    pub(super) fn clear_window(&self, state: &mut [u64]) {
        let own = &mut state[self.own.clone()];
        own[1..].fill(0);
        self.forget_if_unused(state);
    }
}
