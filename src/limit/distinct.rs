//! `distinct`: how many different members.
//!
//! ```text
//! word 0    start of the window; 0 if there are no windows
//! word 1    how many members: of a sketch its estimate
//! word 2..  the registers of a sketch; or the members of a set, in the order in which they came
//! ```
//! Invariant: the first two words are the state of `calendar`, fresh exactly if there is no member;
//! then all words are 0. What is remembered of the windows before stands apart. The estimate is
//! that of the registers: it is computed when one of them changes, and only read by all other
//! items. A set holds each member once, as the 64 bits of its hash, and 0 behind the last one.

mod remembered;

use frs_conf as conf;
use frs_conf::{DISTINCT_HEADER_WORDS, Tally, Unit};

use super::calendar::{self, Calendar};
use super::interval::Window;
use super::past::{Past, Totals};
use super::{Figures, Member, sketch};
pub(super) use remembered::Remembered;

/// Prepared settings.
#[derive(Debug, Clone)]
pub(super) struct Distinct {
    /// None: it never starts again.
    turns: Option<Box<Calendar>>,
    tally: Tally,
    /// None: the windows before are forgotten.
    remembered: Option<Box<Remembered>>,
}

impl Distinct {
    /// Prepares a limit. One with windows needs the time set before it is used.
    pub fn new(limit: &conf::Distinct) -> Distinct {
        let turns = limit.turns.as_ref().map(|turns| Box::new(Calendar::counting(turns)));
        Distinct { turns, tally: limit.tally, remembered: None }
    }

    /// The same that remembers windows, if it has any.
    pub fn remembering(self, remembered: Remembered) -> Distinct {
        let remembered = self.turns.is_some().then(|| Box::new(remembered));
        Distinct { remembered, ..self }
    }

    /// What it remembers, and where.
    pub fn remembered(&self) -> Option<&Remembered> {
        self.remembered.as_deref()
    }

    /// What it remembers of the windows before. None: it keeps no history.
    pub fn totals<'w>(&self, state: &'w [u64]) -> Option<Totals<'w>> {
        Some(self.remembered()?.totals(state))
    }

    /// The settings of its history.
    pub fn past(&self) -> Option<Past> {
        Some(self.remembered()?.past)
    }

    /// The words of a state without those of its history.
    #[inline]
    pub fn own<'w>(&self, state: &'w [u64]) -> &'w [u64] {
        match &self.remembered {
            None => state,
            Some(remembered) => &state[remembered.own.clone()],
        }
    }

    #[inline]
    fn own_mut<'w>(&self, state: &'w mut [u64]) -> &'w mut [u64] {
        match &self.remembered {
            None => state,
            Some(remembered) => &mut state[remembered.own.clone()],
        }
    }

    /// Its calendar, if it has windows.
    pub fn turns(&self) -> Option<&Calendar> {
        self.turns.as_deref()
    }

    /// The same, to set its time.
    pub fn turns_mut(&mut self) -> Option<&mut Calendar> {
        self.turns.as_deref_mut()
    }

    /// The length of its windows.
    pub fn unit(&self) -> Option<Unit> {
        self.turns().map(Calendar::unit)
    }

    /// Bits of a register's number. None: it keeps the members.
    pub fn precision(&self) -> Option<u8> {
        match self.tally {
            Tally::Sketch { precision, .. } => Some(precision),
            Tally::Exact { .. } => None,
        }
    }

    /// Whether it only counts.
    pub fn only_counts(&self) -> bool {
        matches!(self.tally, Tally::Sketch { max: None, .. })
    }

    /// The standard error of what it counts, in thousandths. None: it counts exactly.
    pub fn error_thousandths(&self) -> Option<u16> {
        self.precision().map(sketch::error_thousandths)
    }

    /// The most members. 0: there is no bound.
    pub const fn max(&self) -> u64 {
        match self.tally {
            Tally::Exact { max } | Tally::Sketch { max: Some(max), .. } => max,
            Tally::Sketch { max: None, .. } => 0,
        }
    }
}

#[inline]
fn window(state: &[u64]) -> Window {
    Window { start: state[0], used: state[1] }
}

/// Brings the state to `now`.
#[inline]
pub(super) fn roll(limit: &Distinct, state: &mut [u64], now: u64) {
    let Some(turns) = limit.turns() else { return };
    if let Some(remembered) = limit.remembered() {
        return remembered.roll(turns, state, now);
    }
    let (stored, rolled) = (window(state), calendar::roll(turns, window(state), now));
    if rolled != stored {
        clear(state);
    }
}

#[cold]
fn clear(state: &mut [u64]) {
    state.fill(0);
}

/// Whether a rolled state admits the member. An item that names none is not judged.
pub(super) fn admits(limit: &Distinct, state: &[u64], count: u32, member: Option<Member>) -> bool {
    let Some(member) = member else { return true };
    let state = limit.own(state);
    let (used, notes) = (state[1], count > 0);
    match limit.tally {
        Tally::Sketch { max: None, .. } => true,
        Tally::Sketch { precision, max: Some(max) } => {
            let registers = &state[DISTINCT_HEADER_WORDS..];
            let raised = notes.then(|| sketch::estimate_with(precision, registers, member));
            raised.flatten().unwrap_or(used) <= max
        }
        Tally::Exact { max } => used < max || members(state).contains(&member.hash()),
    }
}

/// Notes the member, admitted or not, if there is room for it. A negative count removes it from a
/// set.
pub(super) fn charge(limit: &Distinct, state: &mut [u64], count: i32, member: Option<Member>) {
    let Some(member) = member else { return };
    let own = limit.own_mut(state);
    let changes = match limit.tally {
        Tally::Sketch { precision, .. } => {
            let registers = &mut own[DISTINCT_HEADER_WORDS..];
            let raises = count > 0 && sketch::note(precision, registers, member);
            if raises {
                own[1] = sketch::estimate(precision, registers);
            }
            raises
        }
        Tally::Exact { .. } if count > 0 => insert(own, member),
        Tally::Exact { .. } => count < 0 && remove(own, member),
    };
    if changes {
        let current = limit.turns().map_or(0, Calendar::current_start);
        match (own[1], limit.remembered()) {
            (0, None) => own[0] = 0,
            (0, Some(remembered)) => remembered.forget_if_unused(state),
            _ if own[0] == 0 => own[0] = current,
            _ => {}
        }
    }
}

/// The members of a set.
fn members(state: &[u64]) -> &[u64] {
    let slots = &state[DISTINCT_HEADER_WORDS..];
    &slots[..slots.len().min(state[1] as usize)]
}

/// False: it is known, or there is no room.
fn insert(state: &mut [u64], member: Member) -> bool {
    let known = members(state);
    let at = DISTINCT_HEADER_WORDS + known.len();
    if known.contains(&member.hash()) || at >= state.len() {
        return false;
    }
    state[at] = member.hash();
    state[1] += 1;
    true
}

/// False: it is not known.
fn remove(state: &mut [u64], member: Member) -> bool {
    let known = members(state);
    let Some(at) = known.iter().position(|&known| known == member.hash()) else { return false };
    let first = DISTINCT_HEADER_WORDS + at;
    let end = DISTINCT_HEADER_WORDS + known.len();
    state.copy_within(first + 1..end, first);
    state[end - 1] = 0;
    state[1] -= 1;
    true
}

/// Whether a set is as one with `room` members is laid out.
#[inline]
pub(super) fn fits(room: usize, state: &[u64]) -> bool {
    state[1] <= room as u64
}

/// Drops the oldest members of a set that are too many for `room`.
pub(super) fn shrink(room: usize, state: &mut [u64]) {
    let known = members(state).len();
    let dropped = known.saturating_sub(room);
    let (first, end) = (DISTINCT_HEADER_WORDS, DISTINCT_HEADER_WORDS + known);
    state.copy_within(first + dropped..end, first);
    state[end - dropped..].fill(0);
    state[1] = (known - dropped) as u64;
}

/// The figures of a rolled state.
pub(super) fn figures(limit: &Distinct, state: &[u64], now: u64) -> Figures {
    let (window, max) = (window(limit.own(state)), limit.max());
    let reset_ms = match limit.turns() {
        Some(turns) => Some(calendar::reset_ms(turns, window, now)),
        None => (window.used == 0).then_some(0),
    };
    Figures { used: window.used, max, remaining: remaining(limit, state), reset_ms }
}

/// Members that are left in a rolled state.
#[inline]
pub(super) fn remaining(limit: &Distinct, state: &[u64]) -> u64 {
    limit.max().saturating_sub(limit.own(state)[1])
}

/// Whether a rolled state is fresh.
#[inline]
pub(super) fn is_fresh(limit: &Distinct, state: &[u64]) -> bool {
    let is_empty = |remembered: &Remembered| remembered.is_empty(state);
    limit.own(state)[1] == 0 && limit.remembered().is_none_or(is_empty)
}

/// Forgets the members, but not what is remembered of windows before.
pub(super) fn clear_window(limit: &Distinct, state: &mut [u64]) {
    match limit.remembered() {
        None => clear(state),
        Some(remembered) => remembered.clear_window(state),
    }
}

/// Milliseconds until a rolled state that refuses a member admits it. None: never.
pub(super) fn retry_ms(limit: &Distinct, state: &[u64], now: u64) -> Option<u64> {
    limit.turns().map(|turns| calendar::reset_ms(turns, window(limit.own(state)), now))
}

/// The length of a rolled state's window.
pub(super) fn window_ms(limit: &Distinct, state: &[u64]) -> Option<u64> {
    limit.turns().map(|turns| calendar::window_ms(turns, window(limit.own(state))))
}

/// An upper bound of the milliseconds from a state's last use until it is fresh. None: forever.
pub(super) fn life_ms(limit: &Distinct) -> Option<u64> {
    let turns = limit.turns()?;
    let windows = limit.past().map_or(0, |past| u64::from(past.windows));
    calendar::life_ms(turns)?.checked_add(windows.checked_mul(turns.unit().longest_ms())?)
}

/// Whether the loss of a state in use cannot be repaired: what a set has refused, it would admit.
pub(super) fn is_kept(limit: &Distinct) -> bool {
    limit.turns.is_none() && limit.precision().is_none()
}

#[cfg(test)]
mod tests;
