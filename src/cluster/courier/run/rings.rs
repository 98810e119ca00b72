//! The mailboxes of all slots, which the courier drains and replies to.
//!
//! Invariant: each need that is taken is finished. If its owner has given it up or is gone, this
//! has no effect.

use std::collections::{BTreeMap, BTreeSet};

use frs_engine::{Need, NeedEnd, NeedKind, NeededTogether, StoredKey};
use frs_store::{LetterQueue, Reply, Runtime, TakenLetter};

use super::Courier;
use super::host_nodes::HostNodes;
use super::ring_ticket::RingTicket;
use crate::courier::core::{Asked, Fate, Group, Now};
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
    fn drain(&mut self, runtime: &Runtime) -> Vec<Drained> {
        self.asked.extend(runtime.asking().take());
        let mut all = Vec::new();
        for slot in std::mem::take(&mut self.asked) {
            let queue = self.queues.entry(slot).or_default();
            while let Some(taken) = queue.take_next(runtime.slot(slot)) {
                let TakenLetter { ticket, letter } = taken;
                if let Some(need) = Need::of_letter(&letter) {
                    all.push(drained(RingTicket { slot, ticket }, &need));
                } else if LetterQueue::reply(runtime.slot(slot), ticket, Reply::UNREADABLE) {
                    self.answered.insert(slot);
                }
            }
        }
        all
    }

    /// Finishes a need. False if nobody waits for it any more.
    pub fn finish(&mut self, runtime: &Runtime, ticket: RingTicket, fate: Fate) -> bool {
        let end = match fate {
            Fate::Answered => NeedEnd::Answered,
            Fate::Unreachable => NeedEnd::Unreachable,
            Fate::Full => NeedEnd::Full,
            Fate::Unserved => NeedEnd::Unserved,
        };
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

/// A need that was taken from a ring.
enum Drained {
    /// A need of a lease.
    Lease(Asked<HostNodes>),
    /// A need of a record.
    Record { ticket: RingTicket, key: StoredKey, deadline_ms: u64 },
}

fn drained(ticket: RingTicket, need: &Need) -> Drained {
    let key = StoredKey::of_need(need);
    if need.kind == NeedKind::Fetch {
        return Drained::Record { ticket, key, deadline_ms: need.deadline_ms };
    }
    Drained::Lease(Asked {
        ticket,
        key,
        count: need.uses,
        kind: need.kind,
        deadline_ms: need.deadline_ms,
        group: need.request.map(|NeededTogether { number, needs }| Group {
            slot: ticket.slot,
            number,
            wants: needs.into(),
        }),
    })
}

impl Courier {
    /// Refuses the needs of all rings, as the cluster cannot be reached.
    pub(super) fn refuse_all(&mut self) {
        for need in self.rings.drain(self.nodes.service.handle().runtime()) {
            let (Drained::Lease(Asked { ticket, .. }) | Drained::Record { ticket, .. }) = need;
            self.core.refuse(ticket);
        }
    }

    /// Takes the needs of all rings that have some, and hands them to the core or to the warm tier.
    pub(super) fn drain(&mut self, now: Now) {
        let needs = self.rings.drain(self.nodes.service.handle().runtime());
        for need in needs {
            match need {
                Drained::Lease(asked) => self.core.want(&mut self.nodes, now, asked),
                Drained::Record { ticket, key, deadline_ms } => {
                    self.warm.want(&mut self.nodes, key, ticket, deadline_ms);
                }
            }
        }
    }
}
