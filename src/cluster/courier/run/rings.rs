//! The mailboxes of all slots, which the courier drains and replies to.
//!
//! Invariant: each need that is taken is finished. If its owner has given it up or is gone, this
//! has no effect.

use std::collections::{BTreeMap, BTreeSet};

use frs_engine::{Need, NeedEnd, NeedKind, NeededTogether};
use frs_store::{LetterQueue, Reply, Runtime, TakenLetter};

use super::Courier;
use super::ring_ticket::RingTicket;
use crate::courier::core::{Asked, Group, Now};
use crate::courier::process::Process;

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
    fn drain(&mut self, runtime: &Runtime) -> Vec<(RingTicket, Need)> {
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
        let is_heard = LetterQueue::reply(runtime.slot(slot), ticket, end.reply());
        if is_heard {
            self.answered.insert(slot);
        }
        is_heard
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
                self.warm.need(&mut self.nodes, key, ticket, deadline_ms);
                continue;
            }
            let group = need.request.map(|NeededTogether { number, needs }| Group {
                slot: ticket.slot,
                number,
                needs: needs.into(),
            });
            let (count, kind) = (need.uses, need.kind);
            let asked = Asked { ticket, key, count, kind, deadline_ms, group };
            self.core.need(&mut self.nodes, now, asked);
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use frs_store::Letter;

    use super::*;
    use crate::testing::host::Host;

    #[test]
    fn a_letter_that_is_no_need_ends_unserved_and_its_owner_is_rung() {
        let host = Host::of(
            "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='256'/>
             <biz id='1' name='b' key='string'><limit policy='count'/></biz></map>",
        );
        let (runtime, owner) = (host.world.runtime(), host.service.handle());
        let mailbox = owner.mailbox().expect("open");
        let mut rings = Rings::default();
        let ticket = mailbox.push(&Letter { kind: 9, head: [0; 5], tail: [0; 32] }).expect("room");
        assert_eq!(rings.drain(&runtime), []);
        assert_eq!(rings.answered, BTreeSet::from([owner.slot_number()]));
        assert_eq!(mailbox.poll(ticket).map(NeedEnd::of_reply), Some(NeedEnd::Unserved));
    }
}
