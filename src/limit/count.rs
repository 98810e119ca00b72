//! `count`: counts and never refuses.
//!
//! Invariant: the state is `used` alone if the count never restarts, and that of `calendar`
//! otherwise. There is no maximum, so `remaining` is 0.

use std::borrow::Borrow;

use frs_conf as conf;

use super::calendar::{Calendar, Windows};
use super::interval::Window;
use super::policy::{Policy, Properties, own_words};
use super::state_word::{WordNames, WordUnit};
use super::{Figures, MAX_USED, Terms, use_more};

/// Prepared settings: the calendar by which it restarts. `None` if it never restarts.
#[derive(Debug, Clone)]
pub(super) struct Count(Option<Box<Calendar>>);

impl Count {
    /// Prepares a limit. If it restarts, the time must be set before it is used.
    pub fn new(limit: &conf::Count) -> Count {
        Count(limit.turns.as_ref().map(|turns| Box::new(Calendar::counting(turns))))
    }

    /// The calendar of a count that restarts, or the count itself if it never restarts.
    pub fn into_calendar(self) -> Result<Calendar, Count> {
        self.0.map(|calendar| *calendar).ok_or(Count(None))
    }

    /// The windows by which it counts. The time must be set before it is used. `None` if it
    /// never restarts.
    pub fn windows_mut(&mut self) -> Option<&mut Windows> {
        Some(self.0.as_mut()?.windows_mut())
    }
}

impl Policy for Count {
    fn shape(&self) -> [u64; 2] {
        [7, self.0.as_ref().map_or(0, |calendar| calendar.unit() as u64)]
    }

    fn words(&self) -> WordNames {
        match self.0 {
            Some(_) => Window::WORDS,
            None => WordNames::only(&[("used", WordUnit::Uses)]),
        }
    }

    fn properties(&self) -> Properties {
        Properties { only_counts: true, ..Properties::PLAIN }
    }

    #[inline]
    fn roll(&self, state: &mut [u64], now: u64, terms: &Terms) {
        match &self.0 {
            Some(calendar) => calendar.roll(state, now, terms),
            None => state[0] = state[0].min(MAX_USED),
        }
    }

    #[inline]
    fn admits(&self, _: &[u64], _: u64, _: u32, _: &Terms) -> bool {
        true
    }

    #[inline]
    fn charge(&self, state: &mut [u64], now: u64, count: i32, terms: &Terms) {
        match &self.0 {
            Some(calendar) => calendar.charge(state, now, count, terms),
            None => state[0] = use_more(state[0], count),
        }
    }

    #[inline]
    fn figures(&self, state: &[u64], now: u64, _: &Terms) -> Figures {
        match &self.0 {
            Some(calendar) => figures_of_turns(calendar, Window::of(state), now),
            None => Figures { used: state[0], reset_ms: (state[0] == 0).then_some(0), ..NOTHING },
        }
    }

    #[inline]
    fn remaining(&self, _: &[u64], _: u64, _: &Terms) -> u64 {
        0
    }

    fn retry_ms(&self, _: &[u64], _: u64, _: u32, _: &Terms) -> Option<u64> {
        None
    }

    #[inline]
    fn window_ms(&self, _: &[u64], _: &Terms) -> Option<u64> {
        None
    }

    fn quota(&self, _: &Terms) -> Option<(u64, Option<u64>)> {
        None
    }

    fn life_ms(&self) -> Option<u64> {
        self.0.as_ref()?.life_ms()
    }

    own_words!();

    fn is_kept(&self, _: &[u64]) -> bool {
        false
    }

    #[inline]
    fn counts_since(&self, state: &[u64], made_ms: u64) -> bool {
        self.0.is_none() || state[0] <= made_ms
    }
}

const NOTHING: Figures = Figures { used: 0, max: 0, remaining: 0, reset_ms: None };

/// The figures of a count that restarts with each calendar window.
#[inline]
pub(super) fn figures_of_turns<W: Borrow<Windows>>(
    calendar: &Calendar<W>,
    window: Window,
    now: u64,
) -> Figures {
    let reset_ms = Some(calendar.reset_ms(window, now));
    Figures { used: window.used, reset_ms, ..NOTHING }
}
