//! Each policy in words: its state at a time, what it admits, and its figures.
//!
//! Waiting times are searched for by their meaning, the first time at which a condition holds. They
//! are not computed by the code's formula.

use frs_conf::{Calendar, Count, Gcra, Policy, Token, Turns};

use super::windows::window;

/// The most uses a state counts.
pub const MOST_USED: i128 = (1 << 53) - 1;
/// The parts of one token.
const TOKEN: i128 = 86_400_000;
/// Nanoseconds in a millisecond: the parts that flow back in that time.
const MS: i128 = 1_000_000;

/// A state with uses. An absent state is fresh.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// The state of an interval or a calendar.
    Window { start: i128, used: i128 },
    /// The state of a calendar with a history: `own` are the uses of the window itself, `before`
    /// the uses of each earlier window, newest first.
    Dated { start: i128, used: i128, own: i128, before: Vec<i128> },
    /// The state of a sliding-counter.
    Counters { start: i128, cur: i128, prev: i128 },
    /// The state of a token bucket, in parts of a token, or of `gcra`, in nanoseconds.
    Bucket { level: i128, last: i128 },
    /// The state of a policy that never resets.
    Ever { used: i128 },
}

/// One limit as an item meets it, with its effective time.
#[derive(Debug, Clone)]
pub struct View {
    pub now: i128,
    pub state: Option<State>,
    /// For a sliding limit: the uses that it counts, oldest first.
    pub uses: Vec<i128>,
    /// All uses in its ring.
    ring: Vec<i128>,
    /// The number of windows that it remembers.
    history: usize,
}

/// The state at `now`, by the rules for the clock, of a limit that remembers `history` windows.
pub fn view(
    policy: &Policy,
    history: usize,
    state: Option<State>,
    ring: &[i128],
    now: i128,
) -> View {
    let (now, state) = match state {
        Some(state) => set_back(policy, state, now),
        None => (now, None),
    };
    let (uses, ring) = match policy {
        Policy::Sliding(limit) => (counted(limit.interval_ms, ring, now), ring.to_vec()),
        _ => Default::default(),
    };
    let state = state.and_then(|state| roll(policy, history, state, now));
    View { now, state, uses, ring, history }
}

/// The state's effective time, and the state, unless the clock was set back too far.
fn set_back(policy: &Policy, state: State, now: i128) -> (i128, Option<State>) {
    match time(&state) {
        Some(time) if now < time && time - now < leave(policy, time) => (time, Some(state)),
        Some(time) if now < time => (now, None),
        _ => (now, Some(state)),
    }
}

fn time(state: &State) -> Option<i128> {
    match state {
        State::Window { start, .. }
        | State::Dated { start, .. }
        | State::Counters { start, .. } => Some(*start),
        State::Bucket { last, .. } => Some(*last),
        State::Ever { .. } => None,
    }
}

/// How far the clock can be set back from a state's time before the state is fresh.
fn leave(policy: &Policy, time: i128) -> i128 {
    match policy {
        Policy::Interval(limit) => limit.interval_ms.into(),
        Policy::Sliding(limit) => limit.interval_ms.into(),
        Policy::SlidingCounter(limit) => limit.interval_ms.into(),
        Policy::Token(limit) => fill_ms(limit),
        Policy::Gcra(limit) => {
            let full = capacity(limit);
            first(1, full, |ms| ms * MS >= full)
        }
        _ => turns(policy).map_or(0, |turns| {
            let (start, turn) = window(turns, time);
            turn - start
        }),
    }
}

/// The latest time to which the clock can be set back such that a state is fresh, or the newest use
/// of a ring no longer counts.
pub fn forgetting(policy: &Policy, state: Option<State>, ring: &[i128]) -> Option<i128> {
    let time = match policy {
        Policy::Sliding(_) => ring.last().copied(),
        _ => state.as_ref().and_then(time),
    }?;
    Some(time - leave(policy, time))
}

fn roll(policy: &Policy, history: usize, state: State, now: i128) -> Option<State> {
    match (policy, state) {
        (policy, state @ State::Dated { .. }) => end_windows(policy, history, state, now),
        (Policy::Interval(limit), State::Window { start, used }) => {
            let interval = i128::from(limit.interval_ms);
            let turns = (now - start) / interval;
            let left = match (turns, limit.debt) {
                (0, _) => used,
                (_, 0) => 0,
                _ => used - turns * i128::from(limit.max),
            };
            (left > 0).then_some(State::Window { start: start + turns * interval, used: left })
        }
        (Policy::Calendar(limit), State::Window { start, used }) => {
            turn_by_turn(&limit.turns, limit, start, used, now)
        }
        (Policy::Count(Count { turns: Some(turns) }), State::Window { start, used }) => {
            (window(turns, now).0 == start).then_some(State::Window { start, used })
        }
        (Policy::SlidingCounter(limit), State::Counters { start, cur, prev }) => {
            let interval = i128::from(limit.interval_ms);
            let current = now - now % interval;
            let (cur, prev) = match (current - start) / interval {
                0 => (cur, prev),
                1 => (0, cur),
                _ => (0, 0),
            };
            (cur + prev > 0).then_some(State::Counters { start: current, cur, prev })
        }
        (Policy::Token(limit), State::Bucket { level, last }) => {
            let level = level - drained(limit, now - last);
            (level > 0).then_some(State::Bucket { level, last: now })
        }
        (Policy::Gcra(_), State::Bucket { level, last }) => {
            let level = level - (now - last) * MS;
            (level > 0).then_some(State::Bucket { level, last: now })
        }
        (_, state) => Some(state),
    }
}

/// Steps through the calendar windows, and records the uses of each.
fn end_windows(policy: &Policy, history: usize, state: State, now: i128) -> Option<State> {
    let State::Dated { mut start, mut used, mut own, mut before } = state else { return None };
    let turns = turns(policy)?;
    let mut turn = window(turns, start).1;
    while turn <= now {
        before.insert(0, own);
        before.truncate(history);
        used = if let Policy::Calendar(limit) = policy { settled(limit, used) } else { 0 };
        own = 0;
        (start, turn) = window(turns, turn);
        if used == 0 && before.iter().all(|&uses| uses == 0) {
            return None;
        }
    }
    Some(State::Dated { start, used, own, before })
}

/// Steps through the calendar windows. Each settles max uses of a debt, or everything without a
/// debt.
fn turn_by_turn(
    turns: &Turns,
    limit: &Calendar,
    mut start: i128,
    mut used: i128,
    now: i128,
) -> Option<State> {
    let mut turn = window(turns, start).1;
    while turn <= now {
        used = settled(limit, used);
        if used <= 0 {
            return None;
        }
        (start, turn) = window(turns, turn);
    }
    Some(State::Window { start, used })
}

fn settled(limit: &Calendar, used: i128) -> i128 {
    if limit.debt > 0 { (used - i128::from(limit.max)).max(0) } else { 0 }
}

/// The uses that are less than the interval away from now, on either side.
pub fn counted(interval_ms: u64, ring: &[i128], now: i128) -> Vec<i128> {
    let near = |&&time: &&i128| (now - time).abs() < i128::from(interval_ms);
    let mut uses: Vec<i128> = ring.iter().filter(near).copied().collect();
    uses.sort_unstable();
    uses
}

fn drained(limit: &Token, ms: i128) -> i128 {
    // Divides evenly for every unit of a rate.
    (i128::from(limit.rate) * TOKEN / i128::from(limit.per_ms)).saturating_mul(ms)
}

fn fill_ms(limit: &Token) -> i128 {
    let full = i128::from(limit.burst) * TOKEN;
    first(1, full, |ms| drained(limit, ms) >= full)
}

/// Nanoseconds until one use comes back.
fn emission(limit: &Gcra) -> i128 {
    i128::from(limit.per_ms) * MS / i128::from(limit.rate)
}

/// Nanoseconds until a full bucket has come back.
fn capacity(limit: &Gcra) -> i128 {
    emission(limit) * i128::from(limit.burst)
}

/// The calendar of a policy, if it has one.
pub fn turns(policy: &Policy) -> Option<&Turns> {
    match policy {
        Policy::Calendar(limit) => Some(&limit.turns),
        Policy::Count(limit) => limit.turns.as_ref(),
        _ => None,
    }
}

/// The least number from `low` on for which the condition holds. It holds for `high` and above.
fn first(low: i128, high: i128, holds: impl Fn(i128) -> bool) -> i128 {
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// `distinct` counts members and `concurrent` holds: `limits::calls` has models of both.
const NO_MEMBERS: &str = "this model knows uses alone";

/// The largest use that fits, debt included.
pub fn most(policy: &Policy) -> i128 {
    let debt = match policy {
        Policy::Interval(limit) => limit.debt,
        Policy::Calendar(limit) => limit.debt,
        _ => 0,
    };
    max(policy) + i128::from(debt)
}

pub fn max(policy: &Policy) -> i128 {
    i128::from(match policy {
        Policy::Interval(limit) => limit.max,
        Policy::Calendar(limit) => limit.max,
        Policy::Sliding(limit) => limit.max,
        Policy::SlidingCounter(limit) => limit.max,
        Policy::Token(limit) => limit.burst,
        Policy::Gcra(limit) => limit.burst,
        Policy::Total(limit) => limit.max,
        Policy::Count(_) => 0,
        Policy::Distinct(_) | Policy::Concurrent(_) => unreachable!("{NO_MEMBERS}"),
    })
}

/// The remaining part of a sliding-counter's window, in milliseconds.
fn ahead(interval_ms: u64, start: i128, now: i128) -> i128 {
    start + i128::from(interval_ms) - now
}

impl View {
    /// The state of a sliding limit is its shared ring.
    pub fn is_fresh(&self) -> bool {
        self.state.is_none() && self.ring.is_empty()
    }

    pub fn admits(&self, policy: &Policy, count: i128) -> bool {
        match (policy, &self.state) {
            (Policy::Count(_), _) => true,
            (Policy::SlidingCounter(limit), &Some(State::Counters { start, cur, prev })) => {
                let interval = i128::from(limit.interval_ms);
                let weighed = prev * ahead(limit.interval_ms, start, self.now);
                (cur + count) * interval + weighed <= max(policy) * interval
            }
            (Policy::Token(limit), &Some(State::Bucket { level, .. })) => {
                level + count * TOKEN <= i128::from(limit.burst) * TOKEN
            }
            (Policy::Gcra(limit), &Some(State::Bucket { level, .. })) => {
                level + count * emission(limit) <= capacity(limit)
            }
            _ => self.used(policy) + count <= most(policy),
        }
    }

    pub fn used(&self, policy: &Policy) -> i128 {
        match (policy, &self.state) {
            (Policy::Sliding(_), _) => self.uses.len() as i128,
            (_, None) => 0,
            (
                _,
                Some(State::Window { used, .. } | State::Dated { used, .. } | State::Ever { used }),
            ) => *used,
            (Policy::SlidingCounter(limit), &Some(State::Counters { start, cur, prev })) => {
                // Whole uses that cover the part, rounded up.
                let interval = i128::from(limit.interval_ms);
                let part = prev * ahead(limit.interval_ms, start, self.now);
                (cur + first(0, prev, |whole| whole * interval >= part)).min(MOST_USED)
            }
            _ => max(policy) - self.remaining(policy),
        }
    }

    pub fn remaining(&self, policy: &Policy) -> i128 {
        match (policy, &self.state) {
            (Policy::Count(_), _) => 0,
            (Policy::Token(limit), &Some(State::Bucket { level, .. })) => {
                let free = i128::from(limit.burst) * TOKEN - level;
                if free > 0 { free / TOKEN } else { 0 }
            }
            (Policy::Gcra(limit), &Some(State::Bucket { level, .. })) => {
                let used = first(0, max(policy), |used| used * emission(limit) >= level);
                max(policy) - used
            }
            (Policy::Token(_) | Policy::Gcra(_), _) => max(policy),
            _ => (most(policy) - self.used(policy)).max(0),
        }
    }

    /// Milliseconds until the limit resets. `None`: never.
    pub fn reset(&self, policy: &Policy) -> Option<i128> {
        if let Policy::Sliding(limit) = policy {
            let newest = self.uses.last().map(|time| time + i128::from(limit.interval_ms));
            return Some(newest.map_or(0, |leaves| leaves - self.now));
        }
        let Some(state) = &self.state else {
            return Some(0);
        };
        match (policy, state) {
            (_, State::Dated { used: 0, .. }) => Some(0),
            (Policy::Interval(limit), &State::Window { start, .. }) => {
                Some(ahead(limit.interval_ms, start, self.now))
            }
            (Policy::SlidingCounter(limit), &State::Counters { start, cur, .. }) => {
                let next = if cur > 0 { i128::from(limit.interval_ms) } else { 0 };
                Some(ahead(limit.interval_ms, start, self.now) + next)
            }
            (Policy::Token(limit), &State::Bucket { level, .. }) => {
                Some(first(1, level, |ms| drained(limit, ms) >= level))
            }
            (Policy::Gcra(_), &State::Bucket { level, .. }) => {
                Some(first(1, level, |ms| ms * MS >= level))
            }
            (_, State::Window { .. } | State::Dated { .. }) => {
                Some(window(turns(policy).unwrap(), self.now).1 - self.now)
            }
            _ => None,
        }
    }

    /// Milliseconds until a refused count is admitted. `None`: never.
    pub fn retry(&self, policy: &Policy, count: i128) -> Option<i128> {
        if count > most(policy) {
            return None;
        }
        match policy {
            Policy::Interval(limit) => {
                let settles = if limit.debt > 0 { i128::from(limit.max) } else { MOST_USED };
                let used = self.used(policy);
                let left = |turns: i128| (used - turns * settles).max(0);
                let turns = first(1, used + 1, |turns| left(turns) + count <= most(policy));
                Some(self.reset(policy)? + (turns - 1) * i128::from(limit.interval_ms))
            }
            Policy::Calendar(limit) => {
                let mut turn = window(&limit.turns, self.now).1;
                let mut used = settled(limit, self.used(policy));
                while used + count > most(policy) {
                    turn = window(&limit.turns, turn).1;
                    used = settled(limit, used);
                }
                Some(turn - self.now)
            }
            Policy::Sliding(limit) => {
                // If the clock was set back, uses of a later time count again.
                let interval = i128::from(limit.interval_ms);
                let leaves = self.ring.iter().map(|time| time + interval).filter(|&t| t > self.now);
                let admits =
                    |&then: &i128| view(policy, 0, None, &self.ring, then).admits(policy, count);
                Some(leaves.filter(admits).min()? - self.now)
            }
            Policy::SlidingCounter(limit) => {
                let latest = 2 * i128::from(limit.interval_ms);
                Some(self.first_admitting(policy, count, latest))
            }
            Policy::Token(_) | Policy::Gcra(_) => {
                let Some(State::Bucket { level, .. }) = self.state else { return None };
                Some(self.first_admitting(policy, count, level))
            }
            Policy::Total(_) | Policy::Count(_) => None,
            Policy::Distinct(_) | Policy::Concurrent(_) => unreachable!("{NO_MEMBERS}"),
        }
    }

    fn first_admitting(&self, policy: &Policy, count: i128, latest: i128) -> i128 {
        let then = |ms| view(policy, 0, self.state.clone(), &[], self.now + ms);
        first(1, latest, |ms| then(ms).admits(policy, count))
    }

    /// The state after `count` more uses. A negative count returns uses.
    pub fn charged(&self, policy: &Policy, count: i128) -> Option<State> {
        let more = |used: i128| (used + count).clamp(0, MOST_USED);
        match (policy, self.state.clone()) {
            _ if self.history > 0 => self.charged_and_dated(policy, count),
            (Policy::Sliding(_), _) => None,
            (Policy::Token(_) | Policy::Gcra(_), state) => {
                let unit = match policy {
                    Policy::Gcra(limit) => emission(limit),
                    _ => TOKEN,
                };
                let (level, last) = match state {
                    Some(State::Bucket { level, last }) => (level, last),
                    _ => (0, self.now),
                };
                // The range of a state.
                let level = (level + count * unit).clamp(0, u64::MAX.into());
                (level > 0).then_some(State::Bucket { level, last })
            }
            (Policy::SlidingCounter(limit), state) => {
                let (start, cur, prev) = match state {
                    Some(State::Counters { start, cur, prev }) => (start, cur, prev),
                    _ => (self.now - self.now % i128::from(limit.interval_ms), 0, 0),
                };
                let cur = more(cur);
                (cur + prev > 0).then_some(State::Counters { start, cur, prev })
            }
            (Policy::Total(_) | Policy::Count(Count { turns: None }), _) => {
                let used = more(self.used(policy));
                (used > 0).then_some(State::Ever { used })
            }
            (_, state) => {
                let start = match (state, turns(policy)) {
                    (Some(State::Window { start, .. }), _) => start,
                    (_, Some(turns)) => window(turns, self.now).0,
                    (_, None) => self.now,
                };
                let used = more(self.used(policy));
                (used > 0).then_some(State::Window { start, used })
            }
        }
    }

    /// As `charged`, for a limit with a history. Returned uses come from the window's own uses
    /// before they come from debt.
    fn charged_and_dated(&self, policy: &Policy, count: i128) -> Option<State> {
        let fresh = || (window(turns(policy).unwrap(), self.now).0, 0, 0, Vec::new());
        let (start, used, own, before) = match self.state.clone() {
            Some(State::Dated { start, used, own, before }) => (start, used, own, before),
            _ => fresh(),
        };
        let debt = used - own;
        let own_then = (own + count).clamp(0, MOST_USED - debt);
        let from_debt = (-(own + count)).clamp(0, debt);
        let used = own_then + debt - from_debt;
        let nothing = used == 0 && before.iter().all(|&uses| uses == 0);
        (!nothing).then_some(State::Dated { start, used, own: own_then, before })
    }

    /// The uses of the earlier windows, newest first. `None`: no history is kept.
    pub fn before(&self) -> Option<Vec<u32>> {
        let before = match &self.state {
            Some(State::Dated { before, .. }) => before.as_slice(),
            _ => &[],
        };
        let most = i128::from(u32::MAX);
        (self.history > 0).then(|| before.iter().map(|&uses| uses.min(most) as u32).collect())
    }

    /// The length of the window, if the policy has one to show.
    pub fn window_ms(&self, policy: &Policy) -> Option<i128> {
        Some(match policy {
            Policy::Interval(limit) => limit.interval_ms.into(),
            Policy::Sliding(limit) => limit.interval_ms.into(),
            Policy::SlidingCounter(limit) => limit.interval_ms.into(),
            Policy::Token(limit) => fill_ms(limit),
            Policy::Gcra(limit) => {
                let full = capacity(limit);
                first(1, full, |ms| ms * MS >= full)
            }
            Policy::Calendar(limit) => {
                let (start, turn) = window(&limit.turns, self.now);
                turn - start
            }
            Policy::Total(_) | Policy::Count(_) => return None,
            Policy::Distinct(_) | Policy::Concurrent(_) => unreachable!("{NO_MEMBERS}"),
        })
    }
}
