//! The log of a sliding limit: the ring of its scope, which other limits may share.
//!
//! Invariant: the log alone determines the uses of the host. The lease only says how many of its
//! uses may be in the log.

use frs_limit::ring::{self, Ring, Uses};

use super::Shared;
use crate::lease::Kind;

impl Shared {
    pub(super) fn log<'s>(&self, state: &'s [u64]) -> &'s [u64] {
        let words = self.ring.map_or(0, ring::words);
        &state[state.len() - words..]
    }

    pub(super) fn log_mut<'s>(&self, state: &'s mut [u64]) -> &'s mut [u64] {
        let words = self.ring.map_or(0, ring::words);
        let from = state.len() - words;
        &mut state[from..]
    }

    /// The uses in the log.
    pub(super) fn logged(&self, state: &[u64]) -> u64 {
        let Kind::Sliding { interval_ms } = self.settings.kind else { return 0 };
        Uses::of(self.log(state)).count(self.clock.boot_ms(), interval_ms) as u64
    }

    /// How many of `count` returned uses its ledger must look for: those that no limit finds in the
    /// log. 0 if another limit with the same log reports them.
    pub(super) fn beyond_log(&self, ring: Ring, state: &[u64], count: u64) -> u64 {
        let uses = Uses::of(self.log(state)).count(self.clock.boot_ms(), ring.longest_ms);
        if self.reports_returns { count.saturating_sub(uses as u64) } else { 0 }
    }

    /// Takes the newest uses out of a log until this many are left.
    pub fn shorten_log(&self, state: &mut [u64], used: u64) {
        if let Some(ring) = self.ring {
            let less = self.logged(state).saturating_sub(used).min(i32::MAX as u64);
            ring::charge(ring, self.log_mut(state), self.clock.boot_ms(), -(less as i32));
        }
    }
}
