//! A host whose courier is played by hand: a service that waits, and the ends of its needs.

use frs_base::clock::{self, Millis};
use frs_engine::testing::{Ask, World, request};
use frs_engine::{
    Answer, Command, Exchange, ItemError, ItemMoment, Need, NeedEnd, Request, Service, Stage,
};
use frs_store::{LetterQueue, TakenLetter, Ticket};

use crate::lease::Lease;
use crate::nodes::{self, SentRecords, StoredRecords};
use crate::testing::shared;

/// A need that the courier has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenNeed {
    /// Names the need in its reply.
    pub ticket: Ticket,
    /// The need.
    pub need: Need,
}

/// A host whose courier is played by hand.
pub struct Host {
    /// Its data directory.
    pub world: World,
    /// What answers requests.
    pub service: Service,
    /// What changes leases and records.
    pub courier: Service,
    /// The records that the courier has sent.
    pub sent: SentRecords,
    /// The number of the open ring whose needs are served.
    pub ring: usize,
    queue: LetterQueue,
}

impl Host {
    /// A host with this map.
    pub fn of(map: &str) -> Host {
        let world = shared(map);
        let (mut service, courier) = (world.attach(), world.attach());
        service.set_wait_room(100);
        let (sent, queue) = (SentRecords::default(), LetterQueue::default());
        Host { world, service, courier, sent, ring: 0, queue }
    }

    /// Runs an exchange once.
    pub fn run(&mut self, exchange: &mut Exchange) -> Stage {
        self.service.begin_tick();
        self.service.run_all(std::slice::from_mut(exchange), clock::now());
        exchange.stage
    }

    /// Runs a request for the first time.
    pub fn begin(&mut self, request: Request) -> Exchange {
        let mut exchange = Exchange::of(request);
        self.run(&mut exchange);
        exchange
    }

    /// All needs that have come.
    pub fn needs(&mut self) -> Vec<TakenNeed> {
        let runtime = self.world.runtime();
        let slot = runtime.open_rings().nth(self.ring).expect("a ring is open");
        let letters = std::iter::from_fn(|| self.queue.take_next(runtime.slot(slot)));
        let taken = |TakenLetter { ticket, letter }| TakenNeed {
            ticket,
            need: Need::of_letter(&letter).expect("a need"),
        };
        letters.map(taken).collect()
    }

    /// Ends the wait for a need. Returns false if nobody waits for it any more.
    pub fn finish(&mut self, taken: &TakenNeed, end: NeedEnd) -> bool {
        let runtime = self.world.runtime();
        let slot = runtime.open_rings().nth(self.ring).expect("a ring is open");
        LetterQueue::reply(runtime.slot(slot), taken.ticket, end.reply())
    }
}

/// The window of the ledgers of all tests.
const WINDOW: u64 = 1;

impl Host {
    /// The ledger has granted this much of each limit of an item.
    pub fn grant(&mut self, taken: &TakenNeed, allowance: u64) {
        let boot_ms = clock::boot_ms();
        let key = taken.need.stored_key();
        let moment = ItemMoment { boot_ms, wall_ms: clock::now() };
        let incarnation = crate::HostCluster::incarnation_of(&mut self.courier);
        let granted = nodes::with_leases(&mut self.courier, &key, moment, clock::now(), |limits| {
            for limit in limits {
                limit.holding.lease = Lease {
                    incarnation,
                    seq: limit.holding.lease.seq + 1,
                    window: WINDOW,
                    allowance,
                    end_ms: boot_ms + 60_000,
                    gone_ms: boot_ms + 60_000,
                    answered_ms: boot_ms,
                    obtainable: 0,
                    ..limit.holding.lease
                };
                limit.holding.reserve(taken.need.uses, taken.need.deadline_ms);
            }
        });
        granted.unwrap();
    }

    /// Grants this much for each need, and answers it. Returns the number of needs.
    pub fn serve(&mut self, allowance: u64) -> usize {
        let needs = self.needs();
        for need in &needs {
            self.grant(need, allowance);
            assert!(self.finish(need, NeedEnd::Answered));
        }
        needs.len()
    }

    /// The uses of key `k`.
    pub fn used(&mut self, biz: &str) -> u64 {
        self.service.one(Command::Query, biz, "k", 1, clock::now()).unwrap().figures.used
    }
}

/// The records of a service at a time.
pub fn stored(service: &mut Service, now: Millis) -> StoredRecords<'_> {
    StoredRecords { service, now }
}

/// An Update of these items.
pub fn update(items: &[Ask<'_>]) -> Request {
    request(Command::Update, false, items)
}

/// Whether each item is refused.
pub fn limited(exchange: &Exchange) -> Vec<Result<bool, ItemError>> {
    let of = |answer: &Answer| {
        answer.result.as_ref().map(|verdict| verdict.limited).map_err(|error| *error)
    };
    exchange.answers.items.iter().map(of).collect()
}
