//! The uses of a limit that refuses nothing: charged at once, and shown for all machines.
//!
//! Invariant: values in, values out. No use is refused here.

use frs_limit::{Figures, MAX_USED};

use super::TALLY_MAX;
use crate::lease::{Holding, Kind};

/// A limit that refuses nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    /// The maximum that answers show. `None`: it only counts.
    pub max: Option<u64>,
}

impl Tally {
    /// Whether these uses stay within the maximum. Uses beyond it are admitted and flagged. A tally
    /// without a maximum flags none.
    pub fn admits(&self, kind: &Kind, holding: &Holding, count: u64, now_ms: u64) -> bool {
        self.max.is_none() || count <= self.remaining(kind, holding, now_ms)
    }

    /// Charges uses that must be reported to the ledger. `own_end_ms` returns the end of a window
    /// of the host's own that begins now. Returns true if they must be reported to the ledger at
    /// once: the courier's rounds look at a node with a window once a second, but not before it has
    /// one. After an outage the uses of an ended window are not reported: they would count in
    /// another window.
    pub fn charge(
        holding: &mut Holding,
        kind: &Kind,
        own_end_ms: impl FnOnce() -> u64,
        count: u64,
        now_ms: u64,
    ) -> bool {
        if !holding.is_live(now_ms) && now_ms >= holding.lease.alone_end_ms {
            if holding.lease.alone_end_ms > 0 {
                holding.lease.extra = 0;
            }
            holding.lease.alone_end_ms = own_end_ms();
        }
        let was_extra = holding.lease.extra > 0 || holding.lease.in_flight;
        holding.overspend(kind, count, now_ms);
        !was_extra && holding.lease.extra > 0
    }

    /// The figures of all machines.
    #[inline(never)]
    pub fn figures(
        &self,
        kind: &Kind,
        holding: &Holding,
        reset_ms: Option<u64>,
        now_ms: u64,
    ) -> Figures {
        let (max, used) = (self.max.unwrap_or(0), used_by_all(kind, holding, now_ms));
        // A bucket shows at most its burst as used.
        let shown = if matches!(kind, Kind::Token { .. }) { used.min(max) } else { used };
        Figures { used: shown, max, remaining: max.saturating_sub(used), reset_ms }
    }

    /// Uses that all machines together have left until the maximum.
    pub fn remaining(&self, kind: &Kind, holding: &Holding, now_ms: u64) -> u64 {
        self.max.unwrap_or(0).saturating_sub(used_by_all(kind, holding, now_ms))
    }
}

/// The uses of all machines: the sum of the last answer, less the uses that count no more, plus the
/// uses of this machine since.
fn used_by_all(kind: &Kind, holding: &Holding, now_ms: u64) -> u64 {
    let lease = &holding.lease;
    let (is_live, counts) = (holding.is_live(now_ms), holding.counts(now_ms));
    let of_all = i128::from(TALLY_MAX) - i128::from(lease.obtainable);
    let since = i128::from(holding.used) - i128::from(lease.allowance);
    let beyond = i128::from(lease.extra) + i128::from(lease.sent_extra.max(0));
    let used = match *kind {
        // Uses of other machines stay in their logs after the lease; the log of this machine
        // holds all of its own uses.
        Kind::Sliding { .. } if counts => of_all + since,
        Kind::Sliding { .. } => holding.used.into(),
        Kind::Token { rate, period_ms } if is_live => {
            let passed_ms = now_ms.saturating_sub(lease.answered_ms);
            let flowed = i128::from(rate) * i128::from(passed_ms) / i128::from(period_ms);
            (of_all - flowed).max(0) + since + beyond
        }
        // The known window is the previous one now, and its weight falls.
        Kind::SlidingCounter { interval_ms } if counts && !is_live => {
            let weight_ms = lease.gone_ms.saturating_sub(now_ms).min(interval_ms);
            (of_all + since) * i128::from(weight_ms) / i128::from(interval_ms) + beyond
        }
        _ if is_live => of_all + since + beyond,
        _ => beyond,
    };
    used.clamp(0, MAX_USED.into()) as u64
}
