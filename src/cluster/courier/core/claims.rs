//! The pass over all nodes: the claims of leases after a failover, and what no request waits for:
//! repeats, returns of idle leases, reports.
//!
//! Invariant: a lease that a new master may not know is bound under a new seq before it can take an
//! answer of the old master (rule 8).

use std::ops::Range;

use super::ledger_state::LedgerState;
use super::nodes::{Leased, Nodes, Now};
use super::returns::{self, Asks};
use super::state::Core;
use crate::name::LedgerId;

impl<N: Nodes> Core<N> {
    /// Looks at the leases of an item, and queues those that are due: for a repeat, for a return or
    /// a report, or for a claim.
    pub fn look(&mut self, nodes: &mut N, now: Now, key: &N::Key) {
        let (incarnation, now_ms) = (nodes.incarnation(), now.boot_ms);
        let may_claim = |seq: u64| seq <= self.claimed_seq && !self.claimed.is_empty();
        let due = |leased: &Leased| {
            let of_host = Leased { holding: leased.holding.of_host(incarnation), ..*leased };
            let lease = &of_host.holding.lease;
            let is_live = of_host.holding.counts(now_ms) || lease.in_flight || lease.extra != 0;
            let is_due = match lease.in_flight {
                true => now_ms >= lease.again_ms,
                false => returns::keep(&of_host, Asks::No, now_ms).is_some(),
            };
            let may_claim = may_claim(lease.seq);
            (is_live && (is_due || may_claim)).then_some((leased.ledger, is_due, may_claim))
        };
        let due = |leased: &mut [Leased]| leased.iter().filter_map(due).collect::<Vec<_>>();
        for (ledger, is_due, may_claim) in nodes.with_leases(key, now, due).unwrap_or_default() {
            let is_claimed = may_claim && self.claimed.contains(&ledger.slot(&self.cluster));
            if is_due || is_claimed {
                self.state_of(ledger, key).reasons.is_claimed |= is_claimed;
                self.look_soon(ledger);
            }
        }
    }

    /// Begins the claims in slots whose masters may not know the grants there. The caller then
    /// looks at all nodes, and calls [`Core::end_claims`].
    pub fn new_master(&mut self, nodes: &mut N, slots: &[Range<u16>]) {
        self.reach.clear();
        self.claimed_seq = nodes.next_seq();
        for range in slots {
            self.claimed.extend(range.clone());
            self.followed.extend(range.clone().filter(|slot| self.met.contains(slot)));
            self.met.extend(range.clone());
        }
        let is_there = |slot: u16| slots.iter().any(|range| range.contains(&slot));
        // The other ledgers are claimed in the pass over all nodes.
        let is_busy =
            |state: &LedgerState<N::Key>| state.flight.is_some() || !state.waiting.is_empty();
        let states =
            self.ledgers.iter().filter(|(_, state)| is_there(state.slot) && is_busy(state));
        let ledgers: Vec<LedgerId> = states.map(|(ledger, _)| *ledger).collect();
        for ledger in ledgers {
            let Some(state) = self.ledgers.get_mut(&ledger) else { continue };
            // An answer of the old master is void.
            if let Some(flight) = state.flight.take() {
                self.flights.remove(&flight.id);
            }
            state.reasons.is_claimed = true;
            self.look_soon(ledger);
        }
    }

    /// Ends the claims, after a pass over all nodes since the last [`Core::new_master`].
    pub fn end_claims(&mut self) {
        self.claimed.clear();
    }

    /// Whether a round may go on. It pauses while so many messages are under way that a claim would
    /// have to wait.
    pub fn has_room(&self) -> bool {
        self.flights.len() < self.bounds.messages
    }

    /// Notes that a master is connected again.
    pub fn up(&mut self) {
        self.reach.clear();
    }
}
