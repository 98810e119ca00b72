//! When a host gives back or reports by itself.
//!
//! Invariant: what lasts is reported now and then, so that no report causes the next one at once.

use frs_limit::lease::{Appetite, Keep, Kind};

use super::nodes::Leased;

/// Between two reports of a log that holds more than its share.
const REPORT_MS: u64 = 500;

/// Does somebody wait for uses of a ledger, or for what it knows?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// Nobody.
    No,
    /// After a pause.
    Later,
    /// It is to be asked now.
    Now,
}

/// What a host keeps if it binds itself, for those who wait or of its own accord. None: there is
/// no reason to.
pub(super) fn keep(leased: &Leased, asks: Asks, now_ms: u64) -> Option<Keep> {
    let Leased { settings, appetite, holding: node, .. } = leased;
    if *appetite == Appetite::Nothing {
        return node.is_tell_due(now_ms).then_some(Keep::Held);
    }
    if asks == Asks::Now || reports_at_once(leased, now_ms) {
        return Some(Keep::All);
    }
    if asks == Asks::No && (node.is_idle(settings, now_ms) || returns_at_once(leased, now_ms)) {
        return Some(Keep::Held);
    }
    node.is_report_due(settings, now_ms).then_some(Keep::All)
}

/// Are there uses that were given back, and that others may wait for?
fn returns_at_once(Leased { settings, holding: node, .. }: &Leased, now_ms: u64) -> bool {
    let is_free = node.unspent(now_ms) > node.held(now_ms);
    // A log outlives its lease: the ledger hears of it as it grants another one.
    let is_log = matches!(settings.kind, Kind::Sliding { .. }) && !node.is_live(now_ms);
    node.lease.has_given_back && (is_free || is_log)
}

/// Is the ledger to hear of uses beyond the lease now? What was made beyond it at once; that a
/// log holds more than its share now and then, as that lasts.
fn reports_at_once(Leased { holding: node, .. }: &Leased, now_ms: u64) -> bool {
    let is_new = node.lease.extra != 0;
    let lasts = now_ms < node.lease.heard_ms.saturating_add(REPORT_MS);
    node.must_report(now_ms) && (is_new || !lasts)
}
