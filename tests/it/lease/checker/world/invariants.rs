//! The invariants of every state.

use std::ops::Range;

use frs_cluster::lease::Kind;

use super::{Bounds, Claiming, TICKS, World};

impl World {
    pub(super) fn length(&self) -> usize {
        match self.bounds.kind {
            Kind::Interval { interval_ms } => (interval_ms / self.bounds.tick_ms) as usize,
            Kind::Calendar { start_ms, end_ms, .. } => {
                ((end_ms - start_ms) / self.bounds.tick_ms) as usize
            }
            Kind::Sliding { interval_ms } | Kind::SlidingCounter { interval_ms } => {
                (interval_ms / self.bounds.tick_ms) as usize
            }
            _ => TICKS,
        }
    }

    /// A window of the ledger has more than max uses. Forced uses may come on top, and after a
    /// failover the uses that lost nodes had spent.
    pub(super) fn too_many(&self) -> Option<String> {
        let had_failover = self.left.failovers < self.bounds.failovers;
        let lost = if had_failover { self.lost } else { 0 };
        let max = self.bounds.max as i64 + i64::from(lost);
        match self.bounds.kind {
            Kind::Sliding { .. } => return self.too_many_in_an_interval(max),
            Kind::Token { rate, period_ms } => return self.too_many_tokens(max, rate, period_ms),
            Kind::SlidingCounter { .. } => return self.too_many_weighed(max),
            _ => {}
        }
        (0..TICKS).filter(|start| self.windows >> start & 1 == 1).find_map(|start| {
            let window = start..TICKS.min(start + self.length());
            let admitted: i64 = self.admitted[window.clone()].iter().map(|n| i64::from(*n)).sum();
            let forced: i64 = self.forced[window].iter().map(|n| i64::from(*n)).sum();
            let most = self.bounds.max as i64 + forced + i64::from(lost);
            (admitted > most)
                .then(|| format!("{admitted} admitted of {most} in the window of tick {start}"))
        })
    }

    /// The uses in some ticks, without the forced ones.
    fn admitted_in(&self, window: Range<usize>) -> i64 {
        let forced: i64 = self.forced[window.clone()].iter().map(|n| i64::from(*n)).sum();
        self.admitted[window].iter().map(|n| i64::from(*n)).sum::<i64>() - forced
    }

    fn too_many_in_an_interval(&self, max: i64) -> Option<String> {
        (0..TICKS).find_map(|start| {
            let admitted = self.admitted_in(start..TICKS.min(start + self.length()));
            (admitted > max)
                .then(|| format!("{admitted} of {max} in the interval from tick {start}"))
        })
    }

    fn too_many_tokens(&self, max: i64, rate: u64, period_ms: u64) -> Option<String> {
        let pairs = (0..TICKS).flat_map(|from| (from..TICKS).map(move |to| [from, to]));
        pairs.into_iter().find_map(|[from, to]| {
            let admitted = self.admitted_in(from..to + 1);
            let passed_ms = (to - from) as i64 * self.bounds.tick_ms as i64;
            let (rate, period_ms) = (rate as i64, period_ms as i64);
            ((admitted - max) * period_ms > passed_ms * rate)
                .then(|| format!("{admitted} tokens of a bucket of {max}, ticks {from} to {to}"))
        })
    }

    /// Checks a sliding counter. Only uses of this tick can exceed its limit, because the weight of
    /// earlier ones falls.
    fn too_many_weighed(&self, max: i64) -> Option<String> {
        let (tick, length) = (usize::from(self.tick), self.length());
        let start = tick - tick % length;
        let now = self.admitted_in(start..tick + 1);
        let before = self.admitted_in(start.saturating_sub(length)..start);
        let weighed = now * length as i64 + before * (length - tick % length) as i64;
        (self.admitted[tick] > 0 && weighed > max * length as i64)
            .then(|| format!("{now} of {max} in tick {tick}, and {before} in the window before"))
    }

    /// With no message in flight, the ledger of a total counts a use that was not admitted: more is
    /// granted than is used or can be.
    pub(super) fn counted_unused(&self) -> Option<String> {
        let Bounds { kind, evictions, losses, restores, forced, returns, .. } = *self.bounds;
        let is_exact = evictions + losses + restores + forced + returns == 0;
        if kind != Kind::Total || !is_exact || !self.is_settled() {
            return None;
        }
        let admitted: i64 = self.admitted.iter().map(|n| i64::from(*n)).sum();
        let [granted, unspent] = self.ledger.granted();
        (granted - unspent > admitted)
            .then(|| format!("{} counted as used, {admitted} admitted", granted - unspent))
    }

    /// Whether no message is in flight, and no host has anything to report.
    fn is_settled(&self) -> bool {
        self.hosts[..self.bounds.hosts].iter().enumerate().all(|(nth, host)| {
            let is_quiet = host.node.is_none_or(|node| {
                let lease = node.lease;
                !lease.in_flight && !node.must_report(self.boot_ms(nth)) && !host.timed_out
            });
            is_quiet && host.claiming == Claiming::Done
        })
    }

    /// With no message in flight, the ledger has granted less than was used.
    pub(super) fn not_debited(&self) -> Option<String> {
        let is_window =
            matches!(self.bounds.kind, Kind::Interval { .. } | Kind::Calendar { .. } | Kind::Total);
        let start_ms = self.ledger.window().filter(|_| is_window)?;
        let had_failover = self.left.failovers < self.bounds.failovers;
        if !self.is_settled() || had_failover && self.lost > 0 {
            return None;
        }
        let start = self.tick_of(start_ms);
        if usize::from(self.tick) >= start + self.length() {
            return None;
        }
        let window = start.min(TICKS)..TICKS.min(start + self.length());
        let admitted: i64 = self.admitted[window].iter().map(|n| i64::from(*n)).sum();
        let [granted, _] = self.ledger.granted();
        let unreported = i64::from(self.unreported);
        (admitted > granted + unreported)
            .then(|| format!("{admitted} admitted, {granted} granted, all quiet"))
    }
}
