//! The rings of wants of all slots, as the courier drains and answers them.
//!
//! Invariant: a want that is taken is finished; one whose owner has given it up, or is gone, is
//! finished in vain.

use std::collections::{BTreeMap, BTreeSet};

use frs_engine::LeaseKey;
use frs_store::{Runtime, TakenWant, WantKind, WantQueue, WantResult, WantedTogether};

use super::Courier;
use super::host_nodes::HostNodes;
use super::ring_ticket::RingTicket;
use crate::courier::core::{Asked, Fate, Group, Now};
use crate::process::bells::Bells;

/// All rings.
#[derive(Debug, Default)]
pub struct Rings {
    queues: BTreeMap<u32, WantQueue>,
    /// Slots that are to be looked at.
    asked: BTreeSet<u32>,
    /// Slots whose owners are to be called.
    answered: BTreeSet<u32>,
}

impl Rings {
    /// A courier before this one may have died with wants that it had taken: all open rings are
    /// looked at.
    pub fn take_all(&mut self, runtime: &Runtime) {
        self.asked.extend(runtime.open_rings());
    }

    /// Takes what is asked.
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

    /// Says what became of a want; false: nobody waits for it any more.
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

    /// Calls the owners of wants that were finished.
    pub fn ring(&mut self, runtime: &Runtime, bells: &Bells) {
        for slot in std::mem::take(&mut self.answered) {
            runtime.ring_owner(slot, bells.of_slot(slot));
        }
    }
}

/// A want that was taken.
enum Drained {
    /// Of a lease.
    Lease(Asked<HostNodes>),
    /// Of a record.
    Record { ticket: RingTicket, key: LeaseKey, deadline_ms: u64 },
}

fn drained(slot: u32, taken: &TakenWant) -> Drained {
    let TakenWant { ticket, want } = taken;
    let ticket = RingTicket { slot, ticket: *ticket };
    let key = LeaseKey::of_want(want);
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
    /// Refuses what is asked in all rings that say so: the cluster cannot be reached.
    pub(super) fn refuse_all(&mut self) {
        for want in self.rings.drain(self.nodes.service.handle().runtime()) {
            let (Drained::Lease(Asked { ticket, .. }) | Drained::Record { ticket, .. }) = want;
            self.core.refuse(ticket);
        }
    }

    /// Takes what is asked in all rings that say so.
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
