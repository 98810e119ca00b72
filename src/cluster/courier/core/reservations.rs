//! The split of a lease among the requests that wait for it: which uses are reserved, and which
//! request asks for more.
//!
//! Invariant: uses are reserved in the order of arrival, and no longer than a request waits. A node
//! has at most as many reserved uses as the courier has reserved for requests.

use super::ledger_turn::{FirstRequest, Gate, LedgerTurn, TurnOutcome};
use super::nodes::Leased;
use crate::lease::{Asking, Holding};

/// The pause while requests with reserved uses have yet to run.
const RESERVED_PAUSE_MS: u64 = 2;

impl LedgerTurn<'_> {
    /// Makes uses spendable again that were reserved for requests that no longer wait.
    pub(super) fn release(&self, node: &mut Holding) {
        let reserved = node.reserved(self.now_ms);
        if reserved > self.reserved.count {
            node.reserve(self.reserved.count, self.reserved.until_ms);
        }
    }

    /// Reserves what is spendable for the waiting requests. Returns the first request that needs
    /// more, and what it asks for.
    pub(super) fn serve(&self, leased: &mut Leased, outcome: &mut TurnOutcome) -> FirstRequest {
        let Leased { settings, request_size, holding: node, .. } = leased;
        let now_ms = self.now_ms;
        for (nth, waiter) in self.waiters.iter().enumerate() {
            let spendable = node.spendable(now_ms);
            if spendable >= waiter.count {
                if waiter.is_next {
                    let until_ms = match node.reserved(now_ms) {
                        0 => waiter.until_ms,
                        _ => waiter.until_ms.max(node.lease.reserved_until_ms),
                    };
                    node.reserve(node.reserved(now_ms) + waiter.count, until_ms);
                    outcome.reserved.push(waiter.request);
                }
                continue;
            }
            if !waiter.may_ask {
                continue;
            }
            let uses = waiter.count - spendable;
            match node.asking(uses, now_ms) {
                // The reserved uses belong to other requests. They are not known to be spent until
                // those have run.
                Asking::Refuse { .. } if node.reserved(now_ms) > 0 => {
                    outcome.look_at(now_ms + RESERVED_PAUSE_MS);
                }
                Asking::Refuse { .. } => outcome.refused.push(waiter.request),
                _ if self.gate == Gate::Closed => outcome.unreachable.push(waiter.request),
                asking => {
                    let others = self.waiters[nth..].iter().filter(|other| other.may_ask);
                    let all: u64 = others.map(|other| other.count).sum();
                    let request =
                        request_size.uses(settings, all.saturating_sub(spendable).max(uses));
                    outcome.needs_uses = true;
                    outcome.is_paused =
                        matches!(asking, Asking::Wait { .. }) && !node.lease.in_flight;
                    return FirstRequest { uses, request, asking: Some(asking) };
                }
            }
        }
        FirstRequest::default()
    }
}
