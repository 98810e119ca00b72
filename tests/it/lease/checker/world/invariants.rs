//! What holds in every state.

use frs::lease::Kind;

use super::{Claiming, TICKS, World};

impl World {
    pub(super) fn length(&self) -> usize {
        match self.bounds.kind {
            Kind::Interval { interval_ms } => (interval_ms / self.bounds.tick_ms) as usize,
            Kind::Calendar { start_ms, end_ms, .. } => {
                ((end_ms - start_ms) / self.bounds.tick_ms) as usize
            }
            _ => TICKS,
        }
    }

    /// Never more than max in any window of the ledger; what is used by force comes on top, and
    /// after a failover what lost nodes had spent.
    pub(super) fn too_many(&self) -> Option<String> {
        let had_failover = self.left.failovers < self.bounds.failovers;
        let lost = if had_failover { self.lost } else { 0 };
        (0..TICKS).filter(|start| self.windows >> start & 1 == 1).find_map(|start| {
            let window = start..TICKS.min(start + self.length());
            let admitted: i64 = self.admitted[window.clone()].iter().map(|n| i64::from(*n)).sum();
            let forced: i64 = self.forced[window].iter().map(|n| i64::from(*n)).sum();
            let most = self.bounds.max as i64 + forced + i64::from(lost);
            (admitted > most)
                .then(|| format!("{admitted} admitted of {most} in the window of tick {start}"))
        })
    }

    /// Where nothing is on its way, the ledger has granted what was used.
    pub(super) fn not_debited(&self) -> Option<String> {
        let start_ms = self.ledger.window()?;
        let is_settled = self.hosts[..self.bounds.hosts].iter().enumerate().all(|(nth, host)| {
            let is_quiet = host.node.is_none_or(|node| {
                let lease = node.lease;
                !lease.in_flight && !node.must_report(self.boot_ms(nth)) && !host.timed_out
            });
            is_quiet && host.claiming == Claiming::Done
        });
        let had_failover = self.left.failovers < self.bounds.failovers;
        if !is_settled || had_failover && self.lost > 0 {
            return None;
        }
        let start = self.tick_of(start_ms);
        if usize::from(self.tick) >= start + self.length() {
            return None;
        }
        let window = start.min(TICKS)..TICKS.min(start + self.length());
        let admitted: i64 = self.admitted[window].iter().map(|n| i64::from(*n)).sum();
        let [granted, _] = self.ledger.granted();
        let unheard = i64::from(self.unheard);
        (admitted > granted + unheard)
            .then(|| format!("{admitted} admitted, {granted} granted, all quiet"))
    }
}
