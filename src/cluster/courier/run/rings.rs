//! The mailboxes of all slots, which the courier drains and replies to.
//!
//! Invariant: each need that is taken is finished. If its owner has given it up or is gone, this
//! has no effect.

use std::collections::{BTreeMap, BTreeSet};

use frs_engine::{Need, NeedEnd, NeedKind, NeededTogether};
use frs_store::{LetterQueue, Reply, Runtime, TakenLetter, Ticket};

use super::Courier;
use crate::courier::core::{AskedNeed, AtomicRequest, Now};
use crate::courier::process::Process;

/// Names a need by its slot and its entry there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingTicket {
    slot: u32,
    ticket: Ticket,
}

/// All rings.
#[derive(Debug, Default)]
pub struct Rings {
    queues: BTreeMap<u32, LetterQueue>,
    /// Slots whose rings are to be drained.
    asked: BTreeSet<u32>,
    /// Slots whose owners are to be woken.
    answered: BTreeSet<u32>,
}

impl Rings {
    /// Has all open rings drained, because an earlier courier may have died with needs that it had
    /// taken.
    pub fn take_all(&mut self, runtime: &Runtime) {
        self.asked.extend(runtime.open_rings());
    }

    /// Takes the needs of all rings that have some.
    pub fn drain(&mut self, runtime: &Runtime) -> Vec<(RingTicket, Need)> {
        self.asked.extend(runtime.asking().take());
        let mut all = Vec::new();
        for slot in std::mem::take(&mut self.asked) {
            let queue = self.queues.entry(slot).or_default();
            while let Some(taken) = queue.take_next(runtime.slot(slot)) {
                let TakenLetter { ticket, letter } = taken;
                if let Some(need) = Need::of_letter(&letter) {
                    all.push((RingTicket { slot, ticket }, need));
                } else if LetterQueue::reply(runtime.slot(slot), ticket, Reply::UNREADABLE) {
                    self.answered.insert(slot);
                }
            }
        }
        all
    }

    /// Finishes a need. False if nobody waits for it any more.
    pub fn finish(&mut self, runtime: &Runtime, ticket: RingTicket, end: NeedEnd) -> bool {
        let RingTicket { slot, ticket } = ticket;
        let is_accepted = LetterQueue::reply(runtime.slot(slot), ticket, end.reply());
        if is_accepted {
            self.answered.insert(slot);
        }
        is_accepted
    }

    /// Wakes the owners of finished needs.
    pub fn ring(&mut self, runtime: &Runtime, process: &dyn Process) {
        for slot in std::mem::take(&mut self.answered) {
            runtime.ring_owner(slot, process.bell_of_slot(slot));
        }
    }
}

impl Courier {
    /// Refuses the needs of all rings, as the cluster cannot be reached.
    pub(super) fn refuse_all(&mut self) {
        for (ticket, _) in self.rings.drain(self.nodes.service.handle().runtime()) {
            self.core.refuse(ticket);
        }
    }

    /// Takes the needs of all rings that have some, and hands them to the core or to the warm tier.
    pub(super) fn drain(&mut self, now: Now) {
        for (ticket, need) in self.rings.drain(self.nodes.service.handle().runtime()) {
            let (key, deadline_ms) = (need.stored_key(), need.deadline_ms);
            if need.kind == NeedKind::Fetch {
                self.warm.warm.need(&mut self.nodes.records(), key, ticket, deadline_ms);
                continue;
            }
            let atomic = need.request.map(|NeededTogether { number, needs }| AtomicRequest {
                slot: ticket.slot,
                number,
                needs: needs.into(),
            });
            let (count, kind) = (need.uses, need.kind);
            let asked = AskedNeed { ticket, key, count, kind, deadline_ms, atomic };
            self.core.need(&mut self.nodes, now, asked);
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
