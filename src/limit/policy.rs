//! Dispatch: what every policy answers, each by the file of its name.
//!
//! `state` is always exactly the policy's own words of a node. A policy keeps nothing elsewhere,
//! and all of its words are zero exactly if it is fresh.

use super::interval::{self, Window};
use super::{Figures, total};
use crate::conf::Policy;

/// Brings the state to `now`. All other functions but [`life_ms`] and those of the settings alone
/// take a state rolled at the same `now`.
#[inline]
pub(super) fn roll(policy: &Policy, state: &mut [u64], now: u64) {
    match policy {
        Policy::Interval(limit) => store(interval::roll(limit, window(state), now), state),
        Policy::Total(_) => state[0] = total::roll(state[0]),
    }
}

/// Is `count` admitted?
#[inline]
pub(super) fn admits(policy: &Policy, state: &[u64], count: u32) -> bool {
    match policy {
        Policy::Interval(limit) => interval::admits(limit, window(state), count),
        Policy::Total(limit) => total::admits(limit, state[0], count),
    }
}

/// Charges `count`, admitted or not; gives back if it is negative.
#[inline]
pub(super) fn charge(policy: &Policy, state: &mut [u64], now: u64, count: i32) {
    match policy {
        Policy::Interval(_) => store(interval::charge(window(state), now, count), state),
        Policy::Total(_) => state[0] = total::charge(state[0], count),
    }
}

/// What the limit shows of itself.
#[inline]
pub(super) fn figures(policy: &Policy, state: &[u64], now: u64) -> Figures {
    match policy {
        Policy::Interval(limit) => interval::figures(limit, window(state), now),
        Policy::Total(limit) => total::figures(limit, state[0]),
    }
}

/// What is left: the figure of that name alone.
#[inline]
pub(super) fn remaining(policy: &Policy, state: &[u64]) -> u64 {
    match policy {
        Policy::Interval(limit) => interval::remaining(limit, window(state)),
        Policy::Total(limit) => total::remaining(limit, state[0]),
    }
}

/// Milliseconds until a refused `count` would be admitted; none: never.
pub(super) fn retry_ms(policy: &Policy, state: &[u64], now: u64, count: u32) -> Option<u64> {
    match policy {
        Policy::Interval(limit) => interval::retry_ms(limit, window(state), now, count),
        Policy::Total(_) => None,
    }
}

/// Length of the limit's window, where it has one.
pub(super) fn window_ms(policy: &Policy) -> Option<u64> {
    match policy {
        Policy::Interval(limit) => Some(limit.interval_ms),
        Policy::Total(_) => None,
    }
}

/// An upper bound of the milliseconds from the last use until the state is fresh; none: for ever.
pub(super) fn life_ms(policy: &Policy) -> Option<u64> {
    match policy {
        Policy::Interval(limit) => interval::life_ms(limit),
        Policy::Total(_) => None,
    }
}

/// Would forgetting a state in use be past mending?
pub(super) fn is_kept(policy: &Policy) -> bool {
    matches!(policy, Policy::Total(_))
}

/// What the meaning of the state's words depends on: the kind's number, part of the file format,
/// and its interval.
pub(super) fn shape(policy: &Policy) -> [u64; 2] {
    match policy {
        Policy::Interval(limit) => [1, limit.interval_ms],
        Policy::Total(_) => [2, 0],
    }
}

#[inline]
fn window(state: &[u64]) -> Window {
    Window { start: state[0], used: state[1] }
}

#[inline]
fn store(window: Window, state: &mut [u64]) {
    state[0] = window.start;
    state[1] = window.used;
}
