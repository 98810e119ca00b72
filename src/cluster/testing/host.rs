//! A host whose courier is played by hand: a service that waits, and the results of its wants.

use crate::lease::Lease;
use crate::nodes::{LeaseMoment, Leases as _, SentRecords};
use crate::testing::shared;
use frs_base::clock;
use frs_engine::testing::{Ask, World, request};
use frs_engine::{Answer, Command, Exchange, ItemError, Request, Service, Stage, StoredKey};
use frs_store::{TakenWant, WantQueue, WantResult};

/// A host whose courier is played by hand.
pub struct Host {
    pub world: World,
    pub service: Service,
    pub courier: Service,
    /// The records that the courier has sent.
    pub sent: SentRecords,
    /// The number of the open ring whose wants are served.
    pub ring: usize,
    queue: WantQueue,
}

impl Host {
    /// A host with this map.
    pub fn of(map: &str) -> Host {
        let world = shared(map);
        let (mut service, courier) = (world.attach(), world.attach());
        service.set_wait_room(100);
        let (sent, queue) = (SentRecords::default(), WantQueue::default());
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
        let mut exchange = Exchange { request, ..Exchange::default() };
        self.run(&mut exchange);
        exchange
    }

    /// All wants that have come.
    pub fn wants(&mut self) -> Vec<TakenWant> {
        let runtime = self.world.runtime();
        let slot = runtime.open_rings().nth(self.ring).expect("a ring is open");
        std::iter::from_fn(|| self.queue.take_next(runtime.slot(slot))).collect()
    }

    /// Sets the result of a want. Returns false if nobody waits for it any more.
    pub fn finish(&mut self, want: &TakenWant, result: WantResult) -> bool {
        let runtime = self.world.runtime();
        let slot = runtime.open_rings().nth(self.ring).expect("a ring is open");
        WantQueue::finish(runtime.slot(slot), want.ticket, result)
    }
}

/// What the ledgers of all tests say of the rest of the world.
const WINDOW: u64 = 1;

impl Host {
    /// The ledger has granted this much of each limit of an item.
    pub fn grant(&mut self, want: &TakenWant, allowance: u64) {
        let boot_ms = clock::boot_ms();
        let key = key_of_want(want);
        let moment = LeaseMoment { boot_ms, wall_ms: clock::now(), ledger_ms: clock::now() };
        let incarnation = crate::Host::incarnation_of(&mut self.courier);
        let granted = self.courier.with_leases(&key, moment, |limits| {
            for limit in limits {
                limit.holding.lease = Lease {
                    incarnation,
                    seq: limit.holding.lease.seq + 1,
                    window: WINDOW,
                    allowance,
                    end_ms: boot_ms + 60_000,
                    gone_ms: boot_ms + 60_000,
                    heard_ms: boot_ms,
                    elsewhere: 0,
                    ..limit.holding.lease
                };
                limit.holding.hold(want.want.need, want.want.deadline_ms);
            }
        });
        granted.unwrap();
    }

    /// Grants this much for each want, and answers it. Returns the number of wants.
    pub fn serve(&mut self, allowance: u64) -> usize {
        let wants = self.wants();
        for want in &wants {
            self.grant(want, allowance);
            assert!(self.finish(want, WantResult::Answered));
        }
        wants.len()
    }

    /// The uses of key `k`.
    pub fn used(&mut self, biz: &str) -> u64 {
        self.service.one(Command::Query, biz, "k", 1, clock::now()).unwrap().figures.used
    }
}

/// The key of a want.
pub fn key_of_want(TakenWant { want, .. }: &TakenWant) -> StoredKey {
    StoredKey { key_word: want.key_word, field: want.field }
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
