//! When a host gives back or reports by itself.
//!
//! Invariant: what lasts is reported now and then, so that no report causes the next one at once.

use frs::lease::Holding;

/// Between two reports of a log that holds more than its share.
const REPORT_MS: u64 = 500;

/// Is the ledger to hear of uses beyond the lease now? What was made beyond it at once; that a
/// log holds more than its share now and then, as that lasts.
pub(super) fn reports_at_once(node: &Holding, now_ms: u64) -> bool {
    let is_new = node.lease.extra != 0;
    let lasts = now_ms < node.lease.heard_ms.saturating_add(REPORT_MS);
    node.must_report(now_ms) && (is_new || !lasts)
}
