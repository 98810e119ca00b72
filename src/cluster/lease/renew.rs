//! When a host requests uses and how many, and when it returns or reports uses unasked.
//!
//! Invariant: a host that was refused asks again after a bounded time, so that no lost message and
//! no lost publication refuses a key for good.

use super::{Holding, Kind, Lease, Settings};

/// The first pause between two messages about a key, doubled with each try.
const FIRST_PAUSE_MS: u64 = 100;

/// The longest pause.
const LONGEST_PAUSE_MS: u64 = 2_000;

/// The longest time for which a host refuses by an earlier answer before it requests again: a
/// publication to it can be lost, and a total has no turn.
pub const LONGEST_REFUSAL_MS: u64 = 60_000;

/// Uses that stay unspent for this long are returned.
const IDLE_MS: u64 = 10_000;

/// They are kept if their window turns within this time.
const SOON_MS: u64 = 60_000;

/// Time after the last use when a host reports its spent tokens.
const REPORT_MS: u64 = 500;

/// How many uses a host requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestSize {
    /// As many as possible (`share="cluster"`). The ledger's slice bounds the grant, depending on
    /// the other hosts with grants. Excess uses are recalled, or returned when idle.
    Largest,
    /// Only the uses that waiting requests need (`share="exact"`).
    Needed,
    /// No uses, for a limit that refuses nothing: the host only reports.
    Zero,
}

impl RequestSize {
    /// The number of uses to request in all.
    pub fn uses(self, settings: &Settings, need: u64) -> u64 {
        match self {
            RequestSize::Largest => settings.max.max(need),
            RequestSize::Needed => need,
            RequestSize::Zero => 0,
        }
    }
}

/// The action of a host that needs uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asking {
    /// It binds itself and sends a request.
    Now,
    /// It waits for the answer, or for the end of a pause.
    Wait {
        /// When to repeat the message, or to send a request.
        until_ms: u64,
    },
    /// It refuses by the last answer.
    Refuse {
        /// When it would send a request.
        until_ms: u64,
    },
}

impl Settings {
    /// How long a host refuses that needs this many uses, if the pool grows by itself: until the
    /// pool can have grown enough, and at least a tenth of the time in which all uses come back, so
    /// that the host does not send a request for each use.
    pub(super) fn growth_ms(&self, need: u64) -> Option<u64> {
        let (uses, in_ms) = match self.kind {
            Kind::Token { rate, period_ms } => (rate, period_ms),
            // The weight of the previous window falls at most this fast.
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
        Some(after_ms(need).max(least_ms))
    }
}

impl Lease {
    /// The pause after the current number of tries.
    pub(super) fn pause_ms(&self) -> u64 {
        let doubled = u32::from(self.tries).saturating_sub(1).min(16);
        (FIRST_PAUSE_MS << doubled).min(LONGEST_PAUSE_MS)
    }
}

impl Holding {
    /// The action for `need` uses beyond the unspent ones.
    pub fn asking(&self, need: u64, now_ms: u64) -> Asking {
        let lease = &self.lease;
        let until_ms = lease.again_ms;
        if lease.in_flight {
            Asking::Wait { until_ms }
        } else if now_ms >= until_ms || lease.is_exhausted && !self.is_live(now_ms) {
            Asking::Now
        } else if !lease.is_exhausted {
            Asking::Wait { until_ms }
        } else if need > lease.obtainable {
            Asking::Refuse { until_ms }
        } else {
            Asking::Now
        }
    }

    /// Records that uses are available again: a host has returned some, or answered a recall.
    pub fn has_again(&mut self) {
        self.lease.is_exhausted = false;
        self.lease.tries = 0;
        if !self.lease.in_flight {
            self.lease.again_ms = 0;
        }
    }

    /// Has the host left its uses unspent for so long that it returns them? It keeps uses of a
    /// window that turns soon: another host can recall them, and this host would have to request
    /// them again.
    pub fn is_idle(&self, settings: &Settings, now_ms: u64) -> bool {
        let since = now_ms.saturating_sub(self.lease.used_ms.max(self.lease.answered_ms));
        let turns_soon =
            settings.kind.has_turns() && self.lease.end_ms.saturating_sub(now_ms) <= SOON_MS;
        let is_unused = !self.lease.in_flight && self.unspent(now_ms) > self.reserved(now_ms);
        is_unused && since >= IDLE_MS && !turns_soon
    }

    /// Is a report of spent uses due? A token flows back only when the ledger knows that it is
    /// spent.
    pub fn is_report_due(&self, settings: &Settings, now_ms: u64) -> bool {
        let Lease { used_ms, sent_ms, in_flight, .. } = self.lease;
        let is_due = used_ms >= sent_ms && now_ms >= used_ms.saturating_add(REPORT_MS);
        matches!(settings.kind, Kind::Token { .. }) && self.is_live(now_ms) && !in_flight && is_due
    }
}
