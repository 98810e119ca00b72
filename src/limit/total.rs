//! `total`: counts up to its max and never resets.
//!
//! Invariant: the state is `used`. Waiting never helps, so there is no retry. Once something is
//! used, there is no reset.

use frs_conf::Total;

use super::policy::{Policy, Properties, own_words};
use super::state_word::{WordNames, WordUnit};
use super::{Figures, MAX_USED, Terms, use_more};

impl Policy for Total {
    fn shape(&self) -> [u64; 2] {
        [2, 0]
    }

    fn words(&self) -> WordNames {
        WordNames::only(&[("used", WordUnit::Uses)])
    }

    fn properties(&self) -> Properties {
        Properties::PLAIN
    }

    /// Time does not change the state.
    #[inline]
    fn roll(&self, state: &mut [u64], _: u64, _: &Terms) {
        state[0] = state[0].min(MAX_USED);
    }

    #[inline]
    fn admits(&self, state: &[u64], _: u64, count: u32, _: &Terms) -> bool {
        state[0] + u64::from(count) <= self.max
    }

    #[inline]
    fn charge(&self, state: &mut [u64], _: u64, count: i32, _: &Terms) {
        state[0] = use_more(state[0], count);
    }

    #[inline]
    fn figures(&self, state: &[u64], now: u64, terms: &Terms) -> Figures {
        let used = state[0];
        Figures {
            used,
            max: self.max,
            remaining: self.remaining(state, now, terms),
            reset_ms: (used == 0).then_some(0),
        }
    }

    #[inline]
    fn remaining(&self, state: &[u64], _: u64, _: &Terms) -> u64 {
        self.max.saturating_sub(state[0])
    }

    fn retry_ms(&self, _: &[u64], _: u64, _: u32, _: &Terms) -> Option<u64> {
        None
    }

    #[inline]
    fn window_ms(&self, _: &[u64], _: &Terms) -> Option<u64> {
        None
    }

    fn quota(&self, _: &Terms) -> Option<(u64, Option<u64>)> {
        Some((self.max, None))
    }

    fn life_ms(&self) -> Option<u64> {
        None
    }

    own_words!();

    fn is_kept(&self, _: &[u64]) -> bool {
        true
    }

    #[inline]
    fn counts_since(&self, _: &[u64], _: u64) -> bool {
        true
    }
}
