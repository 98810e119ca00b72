//! Windows: the requests and admissions of each key in each window of its limit.
//!
//! Invariant: a window of a key is identified by its end, whichever server reports it. The ends of
//! two windows of a key are at least [`APART_MS`] apart. The ends that answers report for one
//! window are closer.

use std::collections::HashMap;

use crate::answer::{Noted, Outcome, Turn, Verdict};

/// Half the length of the shortest windows that are told apart.
const APART_MS: u64 = 500;

/// The windows of all keys.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    of_keys: HashMap<u32, Vec<Window>>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    end_ms: u64,
    max: u64,
    asked: u64,
    admitted: u64,
}

/// The sums over windows with more requests than their max.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exhausted {
    pub windows: u64,
    /// The most that might have been admitted in them.
    pub max: u64,
    pub admitted: u64,
    /// Admitted beyond the max of any window.
    pub over: u64,
}

impl Windows {
    /// Counts an item, if the answer reports its window.
    pub fn note(&mut self, noted: Noted, now_ms: u64) {
        let Some(Turn { max, turns_in_ms }) = noted.window else { return };
        let admitted = noted.outcome == Outcome::Verdict(Verdict::Allowed);
        let end_ms = now_ms + turns_in_ms;
        self.count(noted.key, Window { end_ms, max, asked: 1, admitted: admitted.into() });
    }

    /// Adds the windows that another thread saw, or another server reported.
    pub fn add(&mut self, other: &Windows) {
        for (key, windows) in &other.of_keys {
            windows.iter().for_each(|window| self.count(*key, *window));
        }
    }

    fn count(&mut self, key: u32, more: Window) {
        let windows = self.of_keys.entry(key).or_default();
        // The latest window is last, and nearly always the right one.
        let same = |window: &&mut Window| window.end_ms.abs_diff(more.end_ms) < APART_MS;
        match windows.iter_mut().rev().find(same) {
            Some(window) => {
                window.asked += more.asked;
                window.admitted += more.admitted;
            }
            None => windows.push(more),
        }
    }

    /// The sums over windows with more requests than their max.
    pub fn exhausted(&self) -> Exhausted {
        let mut sum = Exhausted::default();
        for window in self.of_keys.values().flatten() {
            sum.over += window.admitted.saturating_sub(window.max);
            if window.asked > window.max {
                sum.windows += 1;
                sum.max += window.max;
                sum.admitted += window.admitted;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes one item of key 7 with a max of 2.
    fn note(windows: &mut Windows, now_ms: u64, turns_in_ms: u64, verdict: Verdict) {
        let window = Some(Turn { max: 2, turns_in_ms });
        windows.note(Noted { key: 7, outcome: Outcome::Verdict(verdict), window }, now_ms);
    }

    #[test]
    fn windows_are_told_apart_by_their_ends() {
        let mut windows = Windows::default();
        note(&mut windows, 0, 1000, Verdict::Allowed);
        note(&mut windows, 400, 603, Verdict::Allowed);
        note(&mut windows, 900, 101, Verdict::Limited);
        // The next window does not get more requests than its max.
        note(&mut windows, 1010, 1000, Verdict::Allowed);
        let filled = Exhausted { windows: 1, max: 2, admitted: 2, over: 0 };
        assert_eq!(windows.exhausted(), filled);
        note(&mut windows, 1500, 505, Verdict::Limited);
        note(&mut windows, 1500, 505, Verdict::Limited);
        let half = Exhausted { windows: 2, max: 4, admitted: 3, over: 0 };
        assert_eq!(windows.exhausted(), half);
    }

    #[test]
    fn a_window_of_several_servers_is_one() {
        let (mut one, mut other) = (Windows::default(), Windows::default());
        note(&mut one, 0, 1000, Verdict::Allowed);
        note(&mut one, 1, 1000, Verdict::Allowed);
        note(&mut other, 500, 490, Verdict::Allowed);
        one.add(&other);
        let over = Exhausted { windows: 1, max: 2, admitted: 3, over: 1 };
        assert_eq!(one.exhausted(), over);
    }
}
