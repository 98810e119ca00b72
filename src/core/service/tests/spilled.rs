//! Records that are spilled to the cluster, with a courier that is played by hand.

use std::collections::HashMap;

use crate::base::clock;
use crate::service::{
    Answer, Command, Exchange, Inserted, ItemError, LeaseKey, Record, RecordName, Request, Service,
    Stage, Whereabouts,
};
use crate::store::layout::node;
use crate::store::{GroupCounter, OwnerBell, WantKind, WantQueue, WantResult};
use crate::testing::{Ask, World, request};

/// One chain of eight nodes, which is soon full.
const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="1" chain="8" node-size="256" spill="true"/>
  <biz id="1" name="minute" key="string"><limit policy="interval" interval="1m" max="3"/></biz>
  <biz id="2" name="total" key="string"><limit policy="total" max="3"/></biz>
  <biz id="3" name="both" key="string"><limit policy="interval" interval="1m" max="3"/>
    <limit policy="total" scope="biz" max="100"/></biz>
</map>"#;

struct Host {
    world: World,
    service: Service,
    courier: Service,
    queue: WantQueue,
    /// What the cluster has.
    cluster: HashMap<LeaseKey, Vec<u8>>,
    is_silent: bool,
    asked: usize,
}

impl Host {
    fn new() -> Host {
        Host::with(MAP)
    }

    fn with(map: &str) -> Host {
        let world = World::shared(map);
        let (mut service, courier) = (world.attach(), world.attach());
        service.handle.open_wants(OwnerBell::Futex).unwrap();
        service.set_wait_room(100_000);
        let (queue, cluster) = (WantQueue::default(), HashMap::new());
        Host { world, service, courier, queue, cluster, is_silent: false, asked: 0 }
    }

    /// Runs a request until it is answered, however often it asks.
    fn run(&mut self, request: Request) -> Exchange {
        let mut exchange = Exchange { request, ..Exchange::default() };
        for _ in 0..10 {
            self.service.begin_tick();
            self.service.run_all(std::slice::from_mut(&mut exchange), clock::now());
            if exchange.stage == Stage::Answered {
                return exchange;
            }
            self.serve();
        }
        panic!("it asks again and again");
    }

    /// Does what the courier does.
    fn serve(&mut self) {
        let runtime = self.world.runtime();
        let slot = runtime.open_rings().next().expect("a ring is open");
        while let Some(taken) = self.queue.take_next(runtime.slot(slot)) {
            assert_eq!(taken.want.kind, WantKind::Fetch);
            let key = LeaseKey { key_word: taken.want.key_word, field: taken.want.field };
            let result = match self.is_silent {
                true => WantResult::Unreachable,
                false => self.place(&key),
            };
            assert!(WantQueue::finish(runtime.slot(slot), taken.ticket, result));
        }
    }

    fn place(&mut self, key: &LeaseKey) -> WantResult {
        let now = clock::now();
        let found = match self.courier.whereabouts(key, now).unwrap() {
            Whereabouts::Here => return WantResult::Answered,
            Whereabouts::Nowhere => None,
            Whereabouts::MaybeInCluster => {
                self.asked += 1;
                self.cluster.remove(key)
            }
        };
        let record = found.map(|bytes| Record::decode(&bytes, key).expect("a whole record"));
        loop {
            let inserted = record.as_ref().map(|one| self.courier.insert_record(key, one, now));
            let inserted = match inserted.unwrap_or(Ok(Inserted::Void)) {
                Ok(Inserted::Void) => self.courier.insert_fresh_record(key, now),
                inserted => inserted,
            };
            if inserted != Ok(Inserted::Crowded) {
                assert_eq!(inserted, Ok(Inserted::Yes));
                return WantResult::Answered;
            }
            let chain = self.courier.chain_of(key, now).unwrap();
            let Some(oldest) = chain.records.first() else { return WantResult::Unreachable };
            self.cluster.insert(oldest.key, oldest.record.encode(&oldest.key));
            assert_eq!(self.courier.erase_spilled(oldest, now), Ok(true));
        }
    }

    fn update(&mut self, biz: &str, key: &str) -> Result<bool, ItemError> {
        allowed(&self.run(request(Command::Update, false, &[Ask(biz, key, 1)])))[0]
    }
}

fn allowed(exchange: &Exchange) -> Vec<Result<bool, ItemError>> {
    let of = |answer: &Answer| {
        answer.result.as_ref().map(|verdict| !verdict.limited).map_err(|error| *error)
    };
    exchange.answers.items.iter().map(of).collect()
}

#[test]
fn a_group_too_small_by_half_forgets_nothing() {
    for biz in ["minute", "total"] {
        let mut host = Host::new();
        let keys: Vec<String> = (0..16).map(|nth| format!("k{nth}")).collect();
        // In no order that a chain would like.
        for round in 0..6 {
            for nth in 0..16 {
                let key = &keys[nth * 7 % 16];
                assert_eq!(host.update(biz, key), Ok(round < 3), "{key} in round {round}");
            }
        }
        assert!(host.asked > 0 && host.cluster.len() >= 8);
        let runtime = host.world.runtime();
        for evictions in [GroupCounter::EvictionsIdle, GroupCounter::EvictionsLimiting] {
            assert_eq!(runtime.count_of_groups(evictions), 0);
        }
        host.world.verify();
    }
}

#[test]
fn where_there_is_room_nobody_waits() {
    let mut host = Host::new();
    for nth in 0..8 {
        let ask = Ask("minute", &nth.to_string(), 1);
        let mut exchange =
            Exchange { request: request(Command::Update, false, &[ask]), ..Exchange::default() };
        host.service.run_all(std::slice::from_mut(&mut exchange), clock::now());
        assert_eq!(exchange.stage, Stage::Answered);
    }
    assert_eq!(host.asked, 0);
}

#[test]
fn without_the_cluster_a_key_that_may_be_spilled_is_busy() {
    let mut host = Host::new();
    for nth in 0..9 {
        assert_eq!(host.update("minute", &nth.to_string()), Ok(true));
    }
    host.is_silent = true;
    let [spilled] = host.cluster.keys().collect::<Vec<_>>()[..] else { panic!("one is spilled") };
    let key = spilled.key().unwrap();
    let spilled = char::from(key.words()[0] as u8).to_string();
    assert_eq!(host.update("minute", &spilled), Err(ItemError::Busy));
    let query = host.run(request(Command::Query, false, &[Ask("minute", &spilled, 1)]));
    assert_eq!(allowed(&query), [Err(ItemError::Busy)]);
    host.is_silent = false;
    assert_eq!(host.update("minute", &spilled), Ok(true));
}

#[test]
fn without_the_cluster_only_what_refuses_nothing_is_evicted() {
    let mut host = Host::new();
    host.is_silent = true;
    for nth in 0..8 {
        let uses = if nth == 3 { 1 } else { 3 };
        (0..uses).for_each(|_| assert_eq!(host.update("minute", &nth.to_string()), Ok(true)));
    }
    assert_eq!(host.update("minute", "new"), Ok(true), "in the place of 3");
    for nth in [0, 1, 2, 4, 5, 6, 7] {
        assert_eq!(host.update("minute", &nth.to_string()), Ok(false));
    }
    (0..2).for_each(|_| assert_eq!(host.update("minute", "new"), Ok(true)));
    assert_eq!(host.update("minute", "3"), Err(ItemError::Full));
    let refuse = MAP.replace("spill=", "on-full=\"refuse\" spill=");
    let mut host = Host::with(&refuse);
    host.is_silent = true;
    (0..8).for_each(|nth| assert_eq!(host.update("minute", &nth.to_string()), Ok(true)));
    assert_eq!(host.update("minute", "new"), Err(ItemError::Full));
    host.is_silent = false;
    assert_eq!(host.update("minute", "new"), Ok(true));
}

#[test]
fn who_does_not_wait_and_who_edits_evict_nothing_in_use() {
    let mut host = Host::new();
    for nth in 0..8 {
        assert_eq!(host.update("minute", &nth.to_string()), Ok(true));
    }
    let now = clock::now();
    // As one that has waited in vain, because its courier died.
    for atomic in [false, true] {
        let late = request(Command::Update, atomic, &[Ask("minute", "new", 1)]);
        let answers = host.service.answers(&late, now);
        assert_eq!(answers.items[0].result.as_ref().err(), Some(&ItemError::Full));
    }
    let new = RecordName::of_key("minute", "new");
    assert_eq!(host.service.set_used(new, 1, 1, now), Err(ItemError::Full.into()));
    // There is nothing to erase here, and nothing that could come back.
    assert_eq!(host.service.erase(new, now), Ok(false));
    for nth in 0..8 {
        assert_eq!(host.service.used("minute", &nth.to_string(), now), 1, "{nth}");
    }
}

#[test]
fn one_that_refuses_nothing_is_found_behind_many_that_refuse() {
    let mut host = Host::with(&MAP.replace("chain=\"8\"", "chain=\"24\""));
    host.is_silent = true;
    for nth in 0..24 {
        let uses = if nth == 23 { 1 } else { 3 };
        (0..uses).for_each(|_| assert_eq!(host.update("minute", &nth.to_string()), Ok(true)));
    }
    assert_eq!(host.update("minute", "new"), Ok(true), "in the place of 23");
}

#[test]
fn a_ban_gets_room_as_well() {
    let bans = MAP.replace("max=\"3\"", "max=\"3\" ban=\"1h\"");
    for atomic in [false, true] {
        let mut host = Host::with(&bans);
        (0..8).for_each(|nth| assert_eq!(host.update("minute", &nth.to_string()), Ok(true)));
        let too_much = request(Command::Update, atomic, &[Ask("minute", "new", 4)]);
        assert_eq!(allowed(&host.run(too_much)), [Ok(false)]);
        assert_eq!(host.update("minute", "new"), Ok(false), "atomic: {atomic}");
        host.world.verify();
    }
}

#[test]
fn a_record_is_erased_only_as_the_cluster_has_it() {
    let mut host = Host::new();
    (0..8).for_each(|nth| assert_eq!(host.update("minute", &nth.to_string()), Ok(true)));
    let now = clock::now();
    let any = host.courier.chain_of(&key_0(), now).unwrap();
    assert_eq!((any.length, any.records.len()), (8, 8));
    let of_0 = any.records.iter().find(|one| one.key.key().unwrap().words()[0] == 0x30).unwrap();
    assert_eq!(host.update("minute", "0"), Ok(true));
    assert_eq!(host.courier.erase_spilled(of_0, now), Ok(false));
    assert_eq!(host.service.used("minute", "0", now), 2);
    assert_eq!(host.courier.whereabouts(&of_0.key, now), Ok(Whereabouts::Here));
    let again = host.courier.chain_of(&of_0.key, now).unwrap();
    let of_0 = again.records.into_iter().find(|one| one.key == of_0.key).unwrap();
    assert_eq!(host.courier.erase_spilled(&of_0, now), Ok(true));
    assert_eq!(host.courier.whereabouts(&of_0.key, now), Ok(Whereabouts::MaybeInCluster));
    assert_eq!(host.courier.erase_spilled(&of_0, now), Ok(false), "it is not here");
}

/// The key 0 of the first biz.
fn key_0() -> LeaseKey {
    let mut field = [0; crate::key::MAX_KEY_WORDS];
    field[0] = 0x30;
    let form = crate::key::KeyForm::Text as u8;
    LeaseKey { key_word: node::key_word(1, form, 1), field }
}

#[test]
fn an_atomic_request_gets_room_for_all_its_items() {
    let mut host = Host::new();
    for nth in 0..8 {
        (0..3).for_each(|_| assert_eq!(host.update("minute", &nth.to_string()), Ok(true)));
    }
    let items = [Ask("minute", "a", 1), Ask("minute", "b", 1), Ask("minute", "c", 3)];
    let exchange = host.run(request(Command::Update, true, &items));
    assert_eq!(allowed(&exchange), [Ok(true); 3]);
    // One of them was spilled, and refuses.
    let items = [Ask("minute", "a", 1), Ask("minute", "0", 1)];
    let exchange = host.run(request(Command::Update, true, &items));
    assert!(exchange.answers.refused);
    let now = clock::now();
    assert_eq!(host.service.used("minute", "a", now), 1);
    host.world.verify();
}

#[test]
fn the_record_of_a_whole_biz_gets_room_as_well() {
    let mut host = Host::new();
    for nth in 0..8 {
        (0..3).for_each(|_| assert_eq!(host.update("minute", &nth.to_string()), Ok(true)));
    }
    assert_eq!(host.update("both", "k"), Ok(true));
    assert_eq!(host.service.used("both", "k", clock::now()), 1);
    (0..8).for_each(|nth| assert_eq!(host.update("minute", &nth.to_string()), Ok(false)));
    let exchange = host.run(request(Command::Update, true, &[Ask("both", "other", 1)]));
    assert_eq!(allowed(&exchange), [Ok(true)]);
    host.world.verify();
}

#[test]
fn a_filter_forgets_after_two_periods() {
    let mut host = Host::new();
    for nth in 0..9 {
        assert_eq!(host.update("minute", &nth.to_string()), Ok(true));
    }
    let spilled = *host.cluster.keys().next().unwrap();
    for expected in [Whereabouts::MaybeInCluster, Whereabouts::MaybeInCluster, Whereabouts::Nowhere]
    {
        assert_eq!(host.courier.whereabouts(&spilled, clock::now()), Ok(expected));
        assert_eq!(host.courier.turn_filters("g", 0, 10), None);
    }
    let groups = host.courier.spilling_groups();
    // A total is never forgotten.
    assert_eq!((groups.len(), groups[0].name.as_str(), groups[0].life_ms), (1, "g", None));
    let only_minutes =
        MAP.replace("policy=\"total\" max", "policy=\"interval\" interval=\"1h\" max");
    let host = Host::with(&only_minutes);
    let life_ms = host.courier.spilling_groups()[0].life_ms.unwrap();
    assert!((3_600_000..7_300_000).contains(&life_ms), "{life_ms}");
}

#[test]
fn an_erased_record_and_one_from_before_a_reset_do_not_come_back() {
    let mut host = Host::new();
    for nth in 0..9 {
        (0..3).for_each(|_| assert_eq!(host.update("minute", &nth.to_string()), Ok(true)));
    }
    // 0 is in the cluster; its copy stays there when it is erased.
    assert_eq!(host.update("minute", "0"), Ok(false));
    let name = RecordName::of_key("minute", "0");
    let kept = host.courier.chain_of(&key_0(), clock::now()).unwrap();
    let of_0 = kept.records.into_iter().find(|one| one.key == key_0()).unwrap();
    host.cluster.insert(of_0.key, of_0.record.encode(&of_0.key));
    assert_eq!(host.courier.erase(name, clock::now()), Ok(true));
    // Others would take its place, if it were free.
    for nth in 0..40 {
        let _ = host.update("minute", &format!("other{nth}"));
    }
    assert_eq!(host.update("minute", "0"), Ok(true), "as it was erased");
    let void = Record { check: of_0.record.check ^ 1 << 48, ..of_0.record };
    host.courier.forget_record(&of_0.key, clock::now()).unwrap();
    assert_eq!(host.courier.insert_record(&of_0.key, &void, clock::now()), Ok(Inserted::Void));
}
