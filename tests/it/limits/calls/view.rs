//! One limit as an item meets it: by its uses, by its members, or by what is held.
//!
//! Invariant: a view is a copy. What it charges is a new state.

use frs_conf::{Policy, Turns};

use super::super::model::plain::{Shown, far};
use super::super::model::policies::{self, State};
use super::super::model::windows::window;

/// The members that a set knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Members {
    /// The start of their window, if they have one.
    pub start: Option<i128>,
    /// In the order in which they were noted.
    pub known: Vec<String>,
}

/// A limit at a time.
#[derive(Debug, Clone)]
pub enum View {
    Uses(Policy, policies::View),
    Set {
        max: i128,
        turns: Option<Turns>,
        now: i128,
        members: Members,
        asked: Option<String>,
    },
    /// The ends and counts of live holds, and which of them is the item's.
    Held {
        max: i128,
        now: i128,
        live: Vec<(i128, i128)>,
        own: Option<usize>,
    },
}

/// A set at `now`, as an item with a member meets it.
pub fn of_members(
    turns: Option<&Turns>,
    max: u64,
    members: Option<Members>,
    asked: Option<String>,
    now: i128,
) -> View {
    let start = turns.map(|turns| window(turns, now).0);
    let none = Members { start, known: Vec::new() };
    let (mut now, mut members) = (now, members.unwrap_or(none.clone()));
    if let (Some(turns), Some(begun)) = (turns, members.start) {
        let (start, turn) = window(turns, begun);
        if now < begun && begun - now < turn - start {
            now = begun;
        } else if now < begun || now >= turn {
            members = none;
        }
    }
    View::Set { max: max.into(), turns: turns.cloned(), now, members, asked }
}

impl View {
    /// Whether `count` more uses pass.
    pub fn admits(&self, count: i128) -> bool {
        match self {
            View::Uses(policy, view) => view.admits(policy, count),
            View::Set { max, members, asked, .. } => match asked {
                Some(member) => {
                    members.known.contains(member) || (members.known.len() as i128) < *max
                }
                None => true,
            },
            View::Held { max, live, .. } => {
                live.iter().map(|(_, count)| count).sum::<i128>() + count <= *max
            }
        }
    }

    /// Of `count` uses, how many pass.
    pub fn admitted_of(&self, count: i128) -> i128 {
        (0..=count).rev().find(|&count| self.admits(count)).unwrap_or(0)
    }

    pub fn remaining(&self) -> i128 {
        match self {
            View::Uses(policy, view) => view.remaining(policy),
            _ => {
                let shown = self.shown();
                (shown.max - shown.used).max(0)
            }
        }
    }

    pub fn shown(&self) -> Shown {
        match self {
            View::Uses(policy, view) => Shown {
                used: view.used(policy),
                max: policies::max(policy),
                remaining: view.remaining(policy),
                reset: view.reset(policy).map(far),
            },
            View::Set { max, turns, now, members, .. } => {
                let used = members.known.len() as i128;
                let reset = match turns {
                    _ if used == 0 => Some(0),
                    None => None,
                    Some(turns) => Some(far(window(turns, *now).1 - now)),
                };
                Shown { used, max: *max, remaining: (max - used).max(0), reset }
            }
            View::Held { max, now, live, .. } => {
                let used = live.iter().map(|(_, count)| count).sum::<i128>();
                let reset = live.iter().map(|(end, _)| end - now).max().unwrap_or(0);
                Shown { used, max: *max, remaining: (max - used).max(0), reset: Some(far(reset)) }
            }
        }
    }

    /// Milliseconds until `count` more uses pass. `None`: never.
    pub fn retry(&self, count: i128) -> Option<i128> {
        match self {
            View::Uses(policy, view) => view.retry(policy, count),
            View::Set { turns, now, .. } => Some(window(turns.as_ref()?, *now).1 - now),
            // The end of the item's own hold frees nothing: the item then asks for all of it.
            View::Held { max, now, live, own } => {
                let whole = count + own.map_or(0, |own| live[own].1);
                let passes = |then: &i128| {
                    let others = live.iter().enumerate().filter(|(at, _)| Some(*at) != *own);
                    let lasting = others.filter(|(_, (end, _))| end > then);
                    lasting.map(|(_, (_, count))| count).sum::<i128>() + whole <= *max
                };
                live.iter().map(|(end, _)| *end).filter(passes).min().map(|end| end - now)
            }
        }
    }

    pub fn window_ms(&self) -> Option<i128> {
        match self {
            View::Uses(policy, view) => view.window_ms(policy),
            View::Set { turns, now, .. } => {
                let (start, turn) = window(turns.as_ref()?, *now);
                Some(turn - start)
            }
            View::Held { .. } => None,
        }
    }

    /// The uses of the earlier windows. `None`: no history is kept.
    pub fn before(&self) -> Option<Vec<u32>> {
        match self {
            View::Uses(_, view) => view.before(),
            _ => None,
        }
    }

    /// The start of the window in which uses are counted, if they are counted in windows.
    pub fn start(&self) -> Option<i128> {
        let View::Uses(_, view) = self else { return None };
        match view.state.as_ref()? {
            State::Window { start, .. }
            | State::Dated { start, .. }
            | State::Counters { start, .. } => Some(*start),
            State::Bucket { .. } | State::Ever { .. } => None,
        }
    }
}
