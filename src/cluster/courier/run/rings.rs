//! The rings of wants of all slots, which the courier drains and answers.
//!
//! Invariant: each want that is taken is finished. If its owner has given it up or is gone, this
//! has no effect.

use std::collections::{BTreeMap, BTreeSet};

use frs_engine::StoredKey;
use frs_store::{Runtime, TakenWant, WantKind, WantQueue, WantResult, WantedTogether};

use super::Courier;
use super::host_nodes::HostNodes;
use super::ring_ticket::RingTicket;
use crate::courier::core::{Asked, Fate, Group, Now};
use crate::courier::process::Process;

/// All rings.
#[derive(Debug, Default)]
pub struct Rings {
    queues: BTreeMap<u32, WantQueue>,
    /// Slots whose rings are to be drained.
    asked: BTreeSet<u32>,
    /// Slots whose owners are to be woken.
    answered: BTreeSet<u32>,
}

impl Rings {
    /// Has all open rings drained, because an earlier courier may have died with wants that it had
    /// taken.
    pub fn take_all(&mut self, runtime: &Runtime) {
        self.asked.extend(runtime.open_rings());
    }

    /// Takes the wants of all rings that have some.
    fn drain(&mut self, runtime: &Runtime) -> Vec<Drained> {
        self.asked.extend(runtime.asking().take());
        let mut all = Vec::new();
        for slot in std::mem::take(&mut self.asked) {
            let queue = self.queues.entry(slot).or_default();
            while let Some(taken) = queue.take_next(runtime.slot(slot)) {
                all.push(drained(slot, &taken));
            }
        }
        all
    }

    /// Finishes a want. False if nobody waits for it any more.
    pub fn finish(&mut self, runtime: &Runtime, ticket: RingTicket, fate: Fate) -> bool {
        let result = match fate {
            Fate::Answered => WantResult::Answered,
            Fate::Unreachable => WantResult::Unreachable,
            Fate::Full => WantResult::Full,
            Fate::Unserved => WantResult::Unserved,
        };
        let RingTicket { slot, ticket } = ticket;
        let is_heard = WantQueue::finish(runtime.slot(slot), ticket, result);
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

/// A want that was taken from a ring.
enum Drained {
    /// A want of a lease.
    Lease(Asked<HostNodes>),
    /// A want of a record.
    Record { ticket: RingTicket, key: StoredKey, deadline_ms: u64 },
}

fn drained(slot: u32, taken: &TakenWant) -> Drained {
    let TakenWant { ticket, want } = taken;
    let ticket = RingTicket { slot, ticket: *ticket };
    let key = StoredKey { key_word: want.key_word, field: want.field };
    if want.kind == WantKind::Fetch {
        return Drained::Record { ticket, key, deadline_ms: want.deadline_ms };
    }
    Drained::Lease(Asked {
        ticket,
        key,
        count: want.need,
        kind: want.kind,
        deadline_ms: want.deadline_ms,
        group: want.request.map(|WantedTogether { number, wants }| Group {
            slot,
            number,
            wants: wants.into(),
        }),
    })
}

impl Courier {
    /// Refuses the wants of all rings, as the cluster cannot be reached.
    pub(super) fn refuse_all(&mut self) {
        for want in self.rings.drain(self.nodes.service.handle().runtime()) {
            let (Drained::Lease(Asked { ticket, .. }) | Drained::Record { ticket, .. }) = want;
            self.core.refuse(ticket);
        }
    }

    /// Takes the wants of all rings that have some, and hands them to the core or to the warm tier.
    pub(super) fn drain(&mut self, now: Now) {
        let wants = self.rings.drain(self.nodes.service.handle().runtime());
        for want in wants {
            match want {
                Drained::Lease(asked) => self.core.want(&mut self.nodes, now, asked),
                Drained::Record { ticket, key, deadline_ms } => {
                    self.warm.want(&mut self.nodes, key, ticket, deadline_ms);
                }
            }
        }
    }
}
