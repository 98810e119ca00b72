//! Duties of nodes that no request waits for: repeats, returns of idle leases, reports, and the
//! claims after a change of masters.
//!
//! Invariant: a lease that a new master may not know is bound under a new seq before it can take an
//! answer of the old master (rule 8).

use std::ops::Range;

use super::ledger_state::LedgerState;
use super::nodes::{Leased, LedgerId, Nodes, Now};
use super::returns::{self, Asks};
use super::state::Core;

/// A reason to look at a node.
#[derive(Debug, Clone, Copy)]
struct Duty {
    ledger: LedgerId,
    is_due: bool,
    may_claim: bool,
}

impl<N: Nodes> Core<N> {
    /// Looks at the leases of an item. False if none of them has to be looked at again.
    pub fn look(&mut self, nodes: &mut N, now: Now, key: &N::Key) -> bool {
        let (incarnation, claimed_seq) = (nodes.incarnation(), self.claimed_seq);
        let duty = |leased: &Leased| {
            let node = leased.holding.of_host(incarnation);
            let (lease, now_ms) = (&node.lease, now.boot_ms);
            let is_due = match lease.in_flight {
                true => now_ms >= lease.again_ms,
                false => {
                    let of_host = Leased { holding: node, ..*leased };
                    returns::keep(&of_host, Asks::No, now_ms).is_some()
                }
            };
            let is_live = node.counts(now_ms) || lease.in_flight || lease.extra != 0;
            let may_claim = is_live && lease.seq <= claimed_seq;
            is_live.then_some(Duty { ledger: leased.ledger, is_due, may_claim })
        };
        let duties = |leased: &mut [Leased]| leased.iter().filter_map(duty).collect::<Vec<_>>();
        let Ok(duties) = nodes.with_leases(key, now, duties) else { return false };
        for duty in &duties {
            let is_claimed = duty.may_claim
                && !self.claimed.is_empty()
                && self.claimed.has(duty.ledger.slot(&self.cluster));
            if !duty.is_due && !is_claimed {
                continue;
            }
            let state = self.state_of(duty.ledger, key);
            state.reasons.is_claimed |= is_claimed;
            self.look_soon(duty.ledger);
        }
        !duties.is_empty()
    }

    /// Begins the claims in slots whose masters may not know the grants there. The caller then
    /// looks at all nodes, and calls [`Core::end_claims`].
    pub fn new_master(&mut self, nodes: &mut N, slots: &[Range<u16>]) {
        self.reach.clear();
        self.claimed_seq = nodes.next_seq();
        for range in slots {
            self.claimed.add(range);
            for slot in range.clone().filter(|slot| self.met.has(*slot)) {
                self.followed.add(&(slot..slot + 1));
            }
            self.met.add(range);
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
            state.flight.take().map(|flight| self.flights.remove(&flight.id));
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
