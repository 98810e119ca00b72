//! Uses that a host admits without a lease: while it is cut off, or while an answer is late.
//!
//! Invariant: the settings alone bound these uses in a window, whatever the ledger answers
//! meanwhile.

use frs_limit::window_at;

use super::Shared;
use crate::lease::{Holding, Kind};

impl Shared {
    /// Uses left of those that the host admits while it is cut off.
    pub(super) fn cut_off_left(&self, holding: &Holding) -> u64 {
        let now_ms = self.clock.boot_ms();
        let used = if !self.has_own_window(holding) {
            holding.used
        } else if now_ms < holding.lease.alone_end_ms {
            holding.lease.alone_used
        } else {
            0
        };
        self.sharing.cut_off_max(self.settings.max).saturating_sub(used)
    }

    /// Whether a host that is cut off counts in a window of its own: it has no log, and it counts
    /// tokens or knows no live window of the ledger.
    pub(super) fn has_own_window(&self, holding: &Holding) -> bool {
        let is_token = matches!(self.settings.kind, Kind::Token { .. });
        self.ring.is_none() && (is_token || !holding.is_live(self.clock.boot_ms()))
    }

    /// Uses left of those that the host admits while an answer is late.
    pub(super) fn missed_left(&self, holding: &Holding) -> u64 {
        let is_over = self.clock.boot_ms() >= holding.lease.alone_end_ms;
        let used = if is_over { 0 } else { holding.lease.alone_used };
        self.sharing.largest_lease(self.settings.max).saturating_sub(used)
    }

    /// The end of the host's own window, for uses without a lease, if the window begins now.
    pub(super) fn own_end_ms(&self, wall_ms: u64) -> u64 {
        let left_ms = match &self.turns {
            Some(turns) => Some(window_at(turns, wall_ms).until.saturating_sub(wall_ms)),
            None => self.length_ms(),
        };
        left_ms.map_or(u64::MAX, |left_ms| self.clock.boot_ms().saturating_add(left_ms))
    }

    /// Milliseconds in which this many tokens flow back.
    pub(super) fn tokens_ms(&self, tokens: u64) -> u64 {
        let Kind::Token { rate, period_ms } = self.settings.kind else { return 0 };
        let all_ms = u128::from(tokens) * u128::from(period_ms);
        u64::try_from(all_ms.div_ceil(u128::from(rate.max(1)))).unwrap_or(u64::MAX)
    }
}
