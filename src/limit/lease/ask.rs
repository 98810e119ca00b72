//! When a host asks, for how much, and when it gives back or reports by itself.
//!
//! Invariant: a host that was refused asks again after a bounded time, so that no lost message and
//! no lost publication refuses a key for good.

use super::{Holding, Kind, Lease, Settings};

/// The first pause between two messages about a key, doubled with each try.
const FIRST_PAUSE_MS: u64 = 100;

/// The longest pause.
const LONGEST_PAUSE_MS: u64 = 2_000;

/// A host that refuses by what it has heard asks again after this time at the latest: what is
/// published to it can be lost, and a total has no turn.
pub const LONGEST_REFUSAL_MS: u64 = 60_000;

/// Uses that were not used for so long go back.
const IDLE_MS: u64 = 10_000;

/// Unless their window turns within this time.
const SOON_MS: u64 = 60_000;

/// Spenders of tokens report so long after their last use.
const REPORT_MS: u64 = 500;

/// How much a host asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Appetite {
    /// As much as there is (`share="cluster"`). The ledger's slice bounds it by who else holds
    /// some, and what turns out to be too much is recalled, or given back when idle.
    Most,
    /// What waits (`share="exact"`).
    Needed,
    /// Nothing, of a limit that refuses nothing: the host only tells what was used.
    Nothing,
}

impl Appetite {
    /// The uses to ask for in all.
    pub fn want(self, settings: &Settings, need: u64) -> u64 {
        match self {
            Appetite::Most => settings.max.max(need),
            Appetite::Needed => need,
            Appetite::Nothing => 0,
        }
    }
}

/// What a host does for uses that it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asking {
    /// It binds itself and asks.
    Now,
    /// It waits for the answer, or for the end of a pause.
    Wait {
        /// When to repeat the message, or to ask.
        until_ms: u64,
    },
    /// It refuses by what it has heard.
    Refuse {
        /// When it would ask.
        until_ms: u64,
    },
}

impl Settings {
    /// For how long a host refuses that lacks so many uses, where the pool grows by itself: until
    /// they can be there, and at least a tenth of the time in which all come back, so that it does
    /// not ask for each use.
    pub(super) fn growth_ms(&self, lacks: u64) -> Option<u64> {
        let (uses, in_ms) = match self.kind {
            Kind::Token { rate, period_ms } => (rate, period_ms),
            // What the window before weighs falls by at most so much.
            Kind::SlidingCounter { interval_ms } => (self.max, interval_ms),
            Kind::Interval { .. } | Kind::Calendar { .. } | Kind::Total | Kind::Sliding { .. } => {
                return None;
            }
        };
        let after_ms = |count: u64| {
            let after_ms = (u128::from(count) * u128::from(in_ms)).div_ceil(uses.max(1).into());
            u64::try_from(after_ms).unwrap_or(u64::MAX)
        };
        let least_ms = (after_ms(self.max) / 10).clamp(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
        Some(after_ms(lacks).max(least_ms))
    }
}

impl Lease {
    /// The pause after so many tries.
    pub(super) fn pause_ms(&self) -> u64 {
        let doubled = u32::from(self.tries).saturating_sub(1).min(16);
        (FIRST_PAUSE_MS << doubled).min(LONGEST_PAUSE_MS)
    }
}

impl Holding {
    /// What to do for `need` uses beyond those that are unspent.
    pub fn asking(&self, need: u64, now_ms: u64) -> Asking {
        let lease = &self.lease;
        let until_ms = lease.again_ms;
        if lease.in_flight {
            Asking::Wait { until_ms }
        } else if now_ms >= until_ms || lease.is_exhausted && !self.is_live(now_ms) {
            Asking::Now
        } else if !lease.is_exhausted {
            Asking::Wait { until_ms }
        } else if need > lease.elsewhere {
            Asking::Refuse { until_ms }
        } else {
            Asking::Now
        }
    }

    /// There are uses to be had again: somebody has given some back, or answered a recall.
    pub fn has_again(&mut self) {
        self.lease.is_exhausted = false;
        self.lease.tries = 0;
        if !self.lease.in_flight {
            self.lease.again_ms = 0;
        }
    }

    /// Has the host had uses without using any for so long? Then it gives them back, but for those
    /// of a window that turns soon: another host recalls them if it needs them, and this one would
    /// have to ask again.
    pub fn is_idle(&self, settings: &Settings, now_ms: u64) -> bool {
        let since = now_ms.saturating_sub(self.lease.used_ms.max(self.lease.heard_ms));
        let turns_soon =
            settings.kind.has_turns() && self.lease.end_ms.saturating_sub(now_ms) <= SOON_MS;
        let is_unused = !self.lease.in_flight && self.unspent(now_ms) > self.held(now_ms);
        is_unused && since >= IDLE_MS && !turns_soon
    }

    /// Is the ledger to hear what was spent? A token flows back only when it is known to be spent.
    pub fn is_report_due(&self, settings: &Settings, now_ms: u64) -> bool {
        let Lease { used_ms, sent_ms, in_flight, .. } = self.lease;
        let is_due = used_ms >= sent_ms && now_ms >= used_ms.saturating_add(REPORT_MS);
        matches!(settings.kind, Kind::Token { .. }) && self.is_live(now_ms) && !in_flight && is_due
    }
}
