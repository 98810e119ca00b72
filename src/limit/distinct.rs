//! `distinct`: counts different members.
//!
//! ```text
//! word 0    start of the window; 0 if there are no windows
//! word 1    number of members; of a sketch its estimate
//! word 2..  the registers of a sketch; or the members of a set, in the order in which they came
//! ```
//! Invariant: the first two words are the state of `calendar`. It is fresh exactly if there is no
//! member, and then all words are 0. The history of earlier windows is stored apart. The estimate
//! always matches the registers: it is computed when a register changes, and only read otherwise. A
//! set holds each member once, as the 64 bits of its hash, and 0 after the last member.

mod remembered;

use std::borrow::Borrow;

use frs_conf as conf;
use frs_conf::{DISTINCT_HEADER_WORDS, DistinctCounting};

use super::calendar::{Calendar, Windows};
use super::history_ring::Remembered;
use super::interval::Window;
use super::policy::{Policy, Properties};
use super::state_word::{WordNames, WordUnit};
use super::{Figures, Member, Terms, sketch};

/// Prepared settings.
#[derive(Debug, Clone)]
pub(super) struct Distinct<W = Windows> {
    /// The calendar by which it restarts. `None` if it never restarts.
    turns: Option<Calendar<W>>,
    counting: DistinctCounting,
    /// The history. `None` if earlier windows are forgotten.
    remembered: Option<Remembered>,
}

impl Distinct {
    /// Prepares a limit. If it has windows, the time must be set before it is used.
    pub fn new(limit: &conf::Distinct) -> Distinct {
        let turns = limit.turns.as_ref().map(Calendar::counting);
        Distinct { turns, counting: limit.counting, remembered: None }
    }

    /// The same limit with a history, if it has windows.
    pub fn remembering(self, remembered: Remembered) -> Distinct {
        let remembered = self.turns.is_some().then_some(remembered);
        Distinct { remembered, ..self }
    }

    /// The windows by which it counts. The time must be set before it is used. `None` if it never
    /// restarts.
    pub fn windows_mut(&mut self) -> Option<&mut Windows> {
        Some(self.turns.as_mut()?.windows_mut())
    }

    /// The same set with another maximum.
    pub fn with_max(&self, max: u64) -> Distinct<&Windows> {
        let turns = self.turns.as_ref().map(Calendar::borrowed);
        let remembered = self.remembered.clone();
        Distinct { turns, counting: DistinctCounting::Exact { max }, remembered }
    }
}

impl<W: Borrow<Windows>> Distinct<W> {
    /// Its calendar, if it has windows.
    fn calendar(&self) -> Option<&Calendar<W>> {
        self.turns.as_ref()
    }

    /// The words of a state without those of its history.
    #[inline]
    fn own<'w>(&self, state: &'w [u64]) -> &'w [u64] {
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

    /// Bits of a register's number. `None` for a set, which stores the members.
    fn precision(&self) -> Option<u8> {
        match self.counting {
            DistinctCounting::Sketch { precision, .. } => Some(precision),
            DistinctCounting::Exact { .. } => None,
        }
    }

    /// The most members. 0: there is no bound.
    pub const fn max(&self) -> u64 {
        match self.counting {
            DistinctCounting::Exact { max } | DistinctCounting::Sketch { max: Some(max), .. } => {
                max
            }
            DistinctCounting::Sketch { max: None, .. } => 0,
        }
    }
}

impl<W: Borrow<Windows>> Policy for Distinct<W> {
    #[inline]
    fn remembered(&self) -> Option<&Remembered> {
        self.remembered.as_ref()
    }

    fn shape(&self) -> [u64; 2] {
        let unit = self.calendar().map_or(0, |turns| turns.unit() as u64);
        let precision = self.precision();
        precision.map_or([10, unit], |precision| [11, u64::from(precision) << 8 | unit])
    }

    fn words(&self) -> WordNames {
        let rest = match self.counting {
            DistinctCounting::Sketch { .. } => WordUnit::Registers,
            DistinctCounting::Exact { .. } => WordUnit::Fingerprint,
        };
        let first = &[("start", WordUnit::Time), ("used", WordUnit::Members)];
        WordNames { first, rest: Some(rest) }
    }

    fn properties(&self) -> Properties {
        Properties {
            notes_members: true,
            only_counts: matches!(self.counting, DistinctCounting::Sketch { max: None, .. }),
            error_thousandths: self.precision().map(sketch::error_thousandths),
            ..Properties::PLAIN
        }
    }

    #[inline]
    fn roll(&self, state: &mut [u64], now: u64, _: &Terms) {
        let Some(turns) = &self.turns else { return };
        if let Some(remembered) = self.remembered() {
            return remembered.roll(turns, state, now);
        }
        let stored = Window::of(state);
        if turns.rolled(stored, now) != stored {
            clear(state);
        }
    }

    /// An item that names no member is not judged.
    fn admits(&self, state: &[u64], _: u64, count: u32, terms: &Terms) -> bool {
        let Some(member) = terms.member() else { return true };
        let state = self.own(state);
        let (used, notes) = (state[1], count > 0);
        match self.counting {
            DistinctCounting::Sketch { max: None, .. } => true,
            DistinctCounting::Sketch { precision, max: Some(max) } => {
                let registers = &state[DISTINCT_HEADER_WORDS..];
                let raised = notes.then(|| sketch::estimate_with(precision, registers, member));
                raised.flatten().unwrap_or(used) <= max
            }
            DistinctCounting::Exact { max } => {
                used < max || members(state).contains(&member.hash())
            }
        }
    }

    /// Notes the member if there is room for it. A negative count removes it from a set.
    fn charge(&self, state: &mut [u64], _: u64, count: i32, terms: &Terms) {
        let Some(member) = terms.member() else { return };
        let own = self.own_mut(state);
        let changes = match self.counting {
            DistinctCounting::Sketch { precision, .. } => {
                let registers = &mut own[DISTINCT_HEADER_WORDS..];
                let raises = count > 0 && sketch::note(precision, registers, member);
                if raises {
                    own[1] = sketch::estimate(precision, registers);
                }
                raises
            }
            DistinctCounting::Exact { .. } if count > 0 => insert(own, member),
            DistinctCounting::Exact { .. } => count < 0 && remove(own, member),
        };
        if changes {
            let current = self.calendar().map_or(0, Calendar::start);
            match (own[1], self.remembered()) {
                (0, None) => own[0] = 0,
                (0, Some(remembered)) => remembered.forget_if_unused(state),
                _ if own[0] == 0 => own[0] = current,
                _ => {}
            }
        }
    }

    fn figures(&self, state: &[u64], now: u64, terms: &Terms) -> Figures {
        let (window, max) = (Window::of(self.own(state)), self.max());
        let reset_ms = match &self.turns {
            Some(turns) => Some(turns.reset_ms(window, now)),
            None => (window.used == 0).then_some(0),
        };
        Figures { used: window.used, max, remaining: self.remaining(state, now, terms), reset_ms }
    }

    #[inline]
    fn remaining(&self, state: &[u64], _: u64, _: &Terms) -> u64 {
        self.max().saturating_sub(self.own(state)[1])
    }

    fn retry_ms(&self, state: &[u64], now: u64, _: u32, _: &Terms) -> Option<u64> {
        Some(self.calendar()?.reset_ms(Window::of(self.own(state)), now))
    }

    fn window_ms(&self, state: &[u64], terms: &Terms) -> Option<u64> {
        self.calendar()?.window_ms(self.own(state), terms)
    }

    fn quota(&self, _: &Terms) -> Option<(u64, Option<u64>)> {
        let window_ms = self.calendar().map(Calendar::current_ms);
        (!self.properties().only_counts).then(|| (self.max(), window_ms))
    }

    fn life_ms(&self) -> Option<u64> {
        let turns = self.calendar()?;
        let windows = self.remembered().map_or(0, |own| u64::from(own.past.windows));
        turns.life_ms()?.checked_add(windows.checked_mul(turns.unit().longest_ms())?)
    }

    #[inline]
    fn is_fresh(&self, state: &[u64]) -> bool {
        let is_empty = |remembered: &Remembered| remembered.is_empty(state);
        self.own(state)[1] == 0 && self.remembered().is_none_or(is_empty)
    }

    /// A set that never restarts would admit members that it has refused, if it were lost.
    fn is_kept(&self, _: &[u64]) -> bool {
        self.turns.is_none() && self.precision().is_none()
    }

    #[inline]
    fn counts_since(&self, _: &[u64], _: u64) -> bool {
        false
    }

    fn clear(&self, state: &mut [u64]) -> bool {
        match self.remembered() {
            None => clear(state),
            Some(remembered) => remembered.clear_window(state),
        }
        true
    }
}

#[cold]
fn clear(state: &mut [u64]) {
    state.fill(0);
}

/// The members of a set.
fn members(state: &[u64]) -> &[u64] {
    let slots = &state[DISTINCT_HEADER_WORDS..];
    &slots[..slots.len().min(state[1] as usize)]
}

/// Adds a member. False if it is known already, or if there is no room.
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

/// Removes a member. False if it is not known.
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

/// Whether the members of a set fit into room for `room` members.
#[inline]
pub(super) fn fits(room: usize, state: &[u64]) -> bool {
    state[1] <= room as u64
}

/// Drops the oldest members of a set until at most `room` remain.
pub(super) fn shrink(room: usize, state: &mut [u64]) {
    let known = members(state).len();
    let dropped = known.saturating_sub(room);
    let (first, end) = (DISTINCT_HEADER_WORDS, DISTINCT_HEADER_WORDS + known);
    state.copy_within(first + dropped..end, first);
    state[end - dropped..].fill(0);
    state[1] = (known - dropped) as u64;
}

#[cfg(test)]
mod tests;
