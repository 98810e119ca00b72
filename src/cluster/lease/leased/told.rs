//! A limit that refuses nothing: it charges its uses at once, and shows the sum of all machines.
//!
//! Invariant: it requests no lease, and nothing waits.

use frs_limit::{Figures, MAX_USED};

use super::Leased;
use crate::lease::{Holding, Kind, TOLD_MAX};

impl Leased {
    /// Charges uses that must be reported to the ledger. The courier's rounds visit a node with a
    /// window once a second; the first use before the node has a window calls the courier. After an
    /// outage the uses of an ended window are not reported: they would count in another window.
    pub(super) fn charge_untold(&self, holding: &mut Holding, wall_ms: u64, count: u64) {
        let now_ms = self.clock.boot_ms();
        if !holding.is_live(now_ms) && now_ms >= holding.lease.alone_end_ms {
            if holding.lease.alone_end_ms > 0 {
                holding.lease.extra = 0;
            }
            holding.lease.alone_end_ms = self.own_end_ms(wall_ms);
        }
        let was_extra = holding.lease.extra > 0 || holding.lease.in_flight;
        holding.overspend(&self.settings.kind, count, now_ms);
        if !was_extra && holding.lease.extra > 0 {
            self.clock.note_news();
        }
    }

    /// The figures of a limit that refuses nothing.
    #[inline(never)]
    pub(super) fn told_figures(&self, holding: &Holding) -> Figures {
        let (max, used) = (self.shown_max, self.used_by_all(holding));
        // A bucket shows at most its burst as used.
        let is_token = matches!(self.settings.kind, Kind::Token { .. });
        let shown = if is_token { used.min(max) } else { used };
        let remaining = max.saturating_sub(used);
        Figures { used: shown, max, remaining, reset_ms: self.reset_ms(holding) }
    }

    /// The uses of all machines of a limit that refuses nothing: the sum of the last answer, less
    /// the uses that count no more, plus the uses of this machine since.
    fn used_by_all(&self, holding: &Holding) -> u64 {
        let (lease, now_ms) = (&holding.lease, self.clock.boot_ms());
        let (is_live, counts) = (holding.is_live(now_ms), holding.counts(now_ms));
        let heard = i128::from(TOLD_MAX) - i128::from(lease.elsewhere);
        let since = i128::from(holding.used) - i128::from(lease.allowance);
        let beyond = i128::from(lease.extra) + i128::from(lease.sent_extra.max(0));
        let used = match self.settings.kind {
            // Uses of other machines stay in their logs after the lease; the log of this machine
            // holds all of its own uses.
            Kind::Sliding { .. } if counts => heard + since,
            Kind::Sliding { .. } => holding.used.into(),
            Kind::Token { rate, period_ms } if is_live => {
                let passed_ms = now_ms.saturating_sub(lease.heard_ms);
                let flowed = i128::from(rate) * i128::from(passed_ms) / i128::from(period_ms);
                (heard - flowed).max(0) + since + beyond
            }
            // The known window is the previous one now, and its weight falls.
            Kind::SlidingCounter { interval_ms } if counts && !is_live => {
                let weight_ms = lease.gone_ms.saturating_sub(now_ms).min(interval_ms);
                (heard + since) * i128::from(weight_ms) / i128::from(interval_ms) + beyond
            }
            _ if is_live => heard + since + beyond,
            _ => beyond,
        };
        used.clamp(0, MAX_USED.into()) as u64
    }
}
