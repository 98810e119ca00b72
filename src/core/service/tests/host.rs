//! A host whose courier is played by hand: a service that waits, and what its wants get.

use crate::base::clock;
use crate::service::{Answer, Command, Exchange, ItemError, Request, SentRecords, Service, Stage};
use crate::store::{OwnerBell, TakenWant, WantQueue, WantResult};
use crate::testing::{Ask, World, request};

/// A host whose courier is played by hand.
pub(super) struct Host {
    pub world: World,
    pub service: Service,
    pub courier: Service,
    /// What the courier knows of records that it has sent.
    pub sent: SentRecords,
    /// Whose wants are served, of all that may want something.
    pub ring: usize,
    queue: WantQueue,
}

impl Host {
    /// One with this map.
    pub fn of(map: &str) -> Host {
        let world = World::shared(map);
        let (mut service, courier) = (world.attach(), world.attach());
        service.handle.open_wants(OwnerBell::Futex).unwrap();
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

    /// Tells what became of a want; false: nobody waits for it any more.
    pub fn finish(&mut self, want: &TakenWant, result: WantResult) -> bool {
        let runtime = self.world.runtime();
        let slot = runtime.open_rings().nth(self.ring).expect("a ring is open");
        WantQueue::finish(runtime.slot(slot), want.ticket, result)
    }
}

pub(super) fn update(items: &[Ask<'_>]) -> Request {
    request(Command::Update, false, items)
}

pub(super) fn limited(exchange: &Exchange) -> Vec<Result<bool, ItemError>> {
    let of = |answer: &Answer| {
        answer.result.as_ref().map(|verdict| verdict.limited).map_err(|error| *error)
    };
    exchange.answers.items.iter().map(of).collect()
}
