//! `interval`: a window that opens at the first use and turns every interval from there.
//!
//! Invariant: the state is (start, used). It is fresh exactly if `used` is 0, and then `start` is 0
//! too. A refused use does not move `start`: repeated requests do not lengthen the window.

use frs_conf::Interval;

use super::policy::{Policy, Properties, own_words};
use super::state_word::{WordNames, WordUnit};
use super::{Figures, MAX_USED, Terms, use_more};

/// The state of one window, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Window {
    /// When it opened, in milliseconds since the epoch.
    pub start: u64,
    /// Uses in it, plus the debt of the windows before.
    pub used: u64,
}

impl Window {
    const FRESH: Window = Window { start: 0, used: 0 };
    /// Its words.
    pub const WORDS: WordNames =
        WordNames::only(&[("start", WordUnit::Time), ("used", WordUnit::Uses)]);

    #[inline]
    pub const fn of(state: &[u64]) -> Window {
        Window { start: state[0], used: state[1] }
    }

    #[inline]
    pub const fn store(self, state: &mut [u64]) {
        state[0] = self.start;
        state[1] = self.used;
    }

    #[inline]
    pub const fn or_fresh(self) -> Window {
        if self.used == 0 { Window::FRESH } else { self }
    }
}

/// The arithmetic, on a window by value: the most common policy is computed in registers.
impl Window {
    /// The window at `now`, with all completed windows settled. If the clock was set back by an
    /// interval or more, the window is fresh.
    #[inline]
    pub fn rolled(self, limit: &Interval, now: u64) -> Window {
        let Window { start, used } = self;
        let used = used.min(MAX_USED);
        if now.abs_diff(start) < limit.interval_ms {
            return Window { start, used }.or_fresh();
        }
        if now < start || limit.debt == 0 {
            return Window::FRESH;
        }
        let turns = (now - start) / limit.interval_ms;
        let used = used.saturating_sub(turns.saturating_mul(limit.max));
        Window { start: start + turns * limit.interval_ms, used }.or_fresh()
    }

    #[inline]
    pub fn admits(self, limit: &Interval, count: u32) -> bool {
        self.used + u64::from(count) <= ceiling(limit)
    }

    /// The first use opens the window.
    #[inline]
    pub fn charged(self, now: u64, count: i32) -> Window {
        let start = if self.used == 0 { now } else { self.start };
        Window { start, used: use_more(self.used, count) }.or_fresh()
    }

    #[inline]
    pub fn figures(self, limit: &Interval, now: u64) -> Figures {
        Figures {
            used: self.used,
            max: limit.max,
            remaining: self.remaining(limit),
            reset_ms: Some(self.reset_ms(limit, now)),
        }
    }

    /// Uses left, debt included.
    #[inline]
    fn remaining(self, limit: &Interval) -> u64 {
        ceiling(limit).saturating_sub(self.used)
    }

    /// Milliseconds until the window turns; 0 while nothing is used. A clock that was set back
    /// before `start` counts as `start`.
    #[inline]
    const fn reset_ms(self, limit: &Interval, now: u64) -> u64 {
        let elapsed_ms = now.saturating_sub(self.start);
        if self.used == 0 { 0 } else { limit.interval_ms.saturating_sub(elapsed_ms) }
    }

    /// Milliseconds until the turn after which `count` fits. Each turn settles `max` uses of a
    /// limit with debt, and all uses of a limit without debt.
    #[inline(always)]
    pub fn retry_ms(self, limit: &Interval, now: u64, count: u32) -> Option<u64> {
        if u64::from(count) > ceiling(limit) {
            return None;
        }
        let excess = (self.used + u64::from(count)).saturating_sub(ceiling(limit));
        let turns = if limit.debt == 0 { 1 } else { excess.div_ceil(limit.max.max(1)) };
        let later = turns.saturating_sub(1).saturating_mul(limit.interval_ms);
        Some(self.reset_ms(limit, now).saturating_add(later))
    }
}

/// The most uses of a window: the maximum plus the debt.
#[inline]
const fn ceiling(limit: &Interval) -> u64 {
    limit.max.saturating_add(limit.debt)
}

impl Policy for Interval {
    fn shape(&self) -> [u64; 2] {
        [1, self.interval_ms]
    }

    fn words(&self) -> WordNames {
        Window::WORDS
    }

    fn properties(&self) -> Properties {
        Properties { lends: self.debt > 0, ..Properties::PLAIN }
    }

    #[inline]
    fn roll(&self, state: &mut [u64], now: u64, _: &Terms) {
        Window::of(state).rolled(self, now).store(state);
    }

    #[inline]
    fn admits(&self, state: &[u64], _: u64, count: u32, _: &Terms) -> bool {
        Window::of(state).admits(self, count)
    }

    #[inline]
    fn charge(&self, state: &mut [u64], now: u64, count: i32, _: &Terms) {
        Window::of(state).charged(now, count).store(state);
    }

    #[inline]
    fn figures(&self, state: &[u64], now: u64, _: &Terms) -> Figures {
        Window::of(state).figures(self, now)
    }

    #[inline]
    fn remaining(&self, state: &[u64], _: u64, _: &Terms) -> u64 {
        Window::of(state).remaining(self)
    }

    fn retry_ms(&self, state: &[u64], now: u64, count: u32, _: &Terms) -> Option<u64> {
        Window::of(state).retry_ms(self, now, count)
    }

    #[inline]
    fn window_ms(&self, _: &[u64], _: &Terms) -> Option<u64> {
        Some(self.interval_ms)
    }

    fn quota(&self, _: &Terms) -> Option<(u64, Option<u64>)> {
        Some((ceiling(self), Some(self.interval_ms)))
    }

    /// A clock that was set back by up to an interval may have stamped the last use before the
    /// start. Hence the bound is one interval longer than the window takes.
    fn life_ms(&self) -> Option<u64> {
        let turns = if self.debt == 0 { 1 } else { MAX_USED.div_ceil(self.max.max(1)) };
        (turns + 1).checked_mul(self.interval_ms)
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
