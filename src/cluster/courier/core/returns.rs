//! How returned uses get back to the ledger: when a host returns or reports uses by itself, and who
//! has used those that the ledger cannot assign to a host.
//!
//! Invariant: a lasting state is reported at intervals, so that no report causes the next one at
//! once.

use super::nodes::Leased;
use crate::lease::{Keep, Kind};

/// The interval between two reports of a log that holds more than its share.
const REPORT_MS: u64 = 500;

/// Whether a request waits for uses of a ledger, or for its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// No request waits.
    No,
    /// The ledger is to be asked after a pause.
    Later,
    /// The ledger is to be asked now.
    Now,
}

/// What a host keeps if it binds itself, for waiting requests or of its own accord. `None` if it
/// has no reason to bind itself.
pub(super) fn keep(leased: &Leased, asks: Asks, now_ms: u64) -> Option<Keep> {
    let Leased { settings, holding: node, .. } = leased;
    if leased.is_tally() {
        return node.is_tally_due(now_ms).then_some(Keep::Reserved);
    }
    if asks == Asks::Now || reports_at_once(leased, now_ms) {
        return Some(Keep::All);
    }
    if asks == Asks::No && (node.is_idle(settings, now_ms) || returns_at_once(leased, now_ms)) {
        return Some(Keep::Reserved);
    }
    node.is_report_due(settings, now_ms).then_some(Keep::All)
}

/// Whether there are returned uses that others may wait for.
fn returns_at_once(Leased { settings, holding: node, .. }: &Leased, now_ms: u64) -> bool {
    let is_free = node.unspent(now_ms) > node.reserved(now_ms);
    // A log outlives its lease. The ledger learns of the return when it grants another lease.
    let is_log = matches!(settings.kind, Kind::Sliding { .. }) && !node.is_live(now_ms);
    node.lease.has_returned && (is_free || is_log)
}

/// Whether uses beyond the lease are reported now. New uses beyond it are reported at once; a log
/// that holds more than its share, which lasts, at intervals.
fn reports_at_once(Leased { holding: node, .. }: &Leased, now_ms: u64) -> bool {
    let is_new = node.lease.extra != 0;
    let lasts = now_ms < node.lease.answered_ms.saturating_add(REPORT_MS);
    node.must_report(now_ms) && (is_new || !lasts)
}

/// How often returned uses are reported again, and the pause before the first repetition.
const UNPLACED_TRIES: u32 = 6;
const UNPLACED_PAUSE_MS: u64 = 30;

/// Returned uses that no host has reported as used. The hosts are recalled, and the ledger gets
/// another report after they have answered. This ends after two seconds, as later uses are others.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unplaced {
    count: u64,
    tries: u32,
    due_ms: u64,
}

impl Unplaced {
    /// Adds returned uses that the ledger could not assign to any host. Returns when they are
    /// reported again; `None` if they are given up.
    pub fn add(&mut self, count: u64, now_ms: u64) -> Option<u64> {
        if self.tries == UNPLACED_TRIES {
            *self = Unplaced::default();
            return None;
        }
        self.count = self.count.saturating_add(count);
        self.due_ms = now_ms + (UNPLACED_PAUSE_MS << self.tries);
        self.tries += 1;
        Some(self.due_ms)
    }

    /// Starts to count the tries anew, as the ledger has assigned all returned uses to hosts.
    pub fn forget_tries(&mut self) {
        if self.count == 0 {
            self.tries = 0;
        }
    }

    /// Whether no uses are to be reported again.
    pub fn is_none(&self) -> bool {
        self.count == 0
    }

    /// Takes the uses that are to be reported again now.
    pub fn take_due(&mut self, now_ms: u64) -> u64 {
        if now_ms < self.due_ms { 0 } else { std::mem::take(&mut self.count) }
    }
}
