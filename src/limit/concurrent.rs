//! `concurrent`: at most so much held at once.
//!
//! Invariant: the state is the holds of the record, which all such limits of the business share. A
//! limit only counts them: [`Rules`](super::Rules) makes, renews and ends them.

use frs_conf as conf;

use super::holds;
use super::policy::{Policy, Properties};
use super::state_word::WordNames;
use super::{Figures, Terms};

/// Prepared settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Concurrent {
    max: u64,
    /// The longest life of a hold that is not renewed.
    ttl_ms: u64,
}

impl Concurrent {
    pub const fn new(limit: &conf::Concurrent, ttl_ms: u64) -> Concurrent {
        Concurrent { max: limit.max, ttl_ms }
    }

    /// The same with another maximum.
    pub const fn with_max(self, max: u64) -> Concurrent {
        Concurrent { max, ..self }
    }
}

impl Policy for Concurrent {
    fn shape(&self) -> [u64; 2] {
        [16, 0]
    }

    fn words(&self) -> WordNames {
        WordNames::only(&[])
    }

    fn properties(&self) -> Properties {
        Properties::PLAIN
    }

    fn roll(&self, _: &mut [u64], _: u64, _: &Terms<'_>) {}

    /// `count` is what an item asks for beyond what its hold has.
    fn admits(&self, table: &[u64], _: u64, count: u32, _: &Terms<'_>) -> bool {
        holds::held(table).saturating_add(count.into()) <= self.max
    }

    fn charge(&self, _: &mut [u64], _: u64, _: i32, _: &Terms<'_>) {}

    fn figures(&self, table: &[u64], now: u64, _: &Terms<'_>) -> Figures {
        let used = holds::held(table);
        let reset_ms = holds::last_end_ms(table).map_or(0, |end_ms| end_ms.saturating_sub(now));
        let remaining = self.max.saturating_sub(used);
        Figures { used, max: self.max, remaining, reset_ms: Some(reset_ms) }
    }

    /// Its own hold frees nothing: once it lapses, the item asks for its whole count.
    fn retry_ms(&self, table: &[u64], now: u64, count: u32, terms: &Terms<'_>) -> Option<u64> {
        let own = terms.brought.and_then(|brought| brought.hold).map(|hold| hold.id);
        let has = own.map_or(0, |id| holds::held_by(table, id));
        let room = self.max.checked_sub(u64::from(count) + has)?;
        Some(holds::falls_to_ms(table, own, room, now) - now)
    }

    fn window_ms(&self, _: &[u64], _: &Terms<'_>) -> Option<u64> {
        None
    }

    fn quota(&self, _: &Terms<'_>) -> Option<(u64, Option<u64>)> {
        Some((self.max, None))
    }

    fn life_ms(&self) -> Option<u64> {
        Some(self.ttl_ms)
    }

    fn is_fresh(&self, table: &[u64]) -> bool {
        holds::len(table) == 0
    }

    fn is_kept(&self, _: &[u64]) -> bool {
        false
    }

    /// Nothing that was held comes back.
    fn counts_since(&self, _: &[u64], _: u64) -> bool {
        false
    }

    /// Ends all holds.
    fn clear(&self, table: &mut [u64]) -> bool {
        holds::clear(table);
        true
    }
}
