//! Records that are spilled to the cluster. The test acts as the courier.

use std::collections::HashMap;

use frs_base::clock;
use frs_conf::Overlay;
use frs_engine::testing::{Ask, move_all, request};
use frs_engine::{
    Command, Exchange, ItemError, NeedEnd, NeedKind, RecordName, Request, Stage, StoredKey,
};
use frs_store::GroupCounter;
use frs_store::layout::node;

use crate::nodes::{self, Inserted, KeptRecord, Records as _, Whereabouts};
use crate::testing::host::stored;
use crate::testing::host::{Host, limited};

/// One chain of eight nodes, which is soon full.
const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="1" chain="8" node-size="256" spill="true"/>
  <biz id="1" name="minute" key="string"><limit policy="interval" interval="1m" max="3"/></biz>
  <biz id="2" name="total" key="string"><limit policy="total" max="3"/></biz>
  <biz id="3" name="both" key="string"><limit policy="interval" interval="1m" max="3"/>
    <limit policy="total" scope="biz" max="100"/></biz>
</map>"#;

/// A host with the cluster behind it.
struct Clustered {
    host: Host,
    /// What the cluster has.
    cluster: HashMap<StoredKey, Vec<u8>>,
    is_silent: bool,
    asked: usize,
}

impl Clustered {
    fn new() -> Clustered {
        Clustered::of(MAP)
    }

    fn of(map: &str) -> Clustered {
        let mut host = Host::of(map);
        host.service.set_wait_room(100_000);
        Clustered { host, cluster: HashMap::new(), is_silent: false, asked: 0 }
    }

    /// Runs a request until it is answered, with as many fetches as it needs.
    fn run(&mut self, request: Request) -> Exchange {
        let mut exchange = self.host.begin(request);
        for _ in 0..10 {
            if exchange.stage == Stage::Answered {
                return exchange;
            }
            self.serve();
            self.host.run(&mut exchange);
        }
        panic!("it asks again and again");
    }

    /// Acts as the courier.
    fn serve(&mut self) {
        for taken in self.host.needs() {
            assert_eq!(taken.need.kind, NeedKind::Fetch);
            let result = match self.is_silent {
                true => NeedEnd::Unreachable,
                false => self.place(&taken.need.stored_key()),
            };
            assert!(self.host.finish(&taken, result));
        }
    }

    fn place(&mut self, key: &StoredKey) -> NeedEnd {
        let now = clock::now();
        let found = match stored(&mut self.host.courier, now).whereabouts(key).unwrap() {
            Whereabouts::Here => return NeedEnd::Answered,
            Whereabouts::Nowhere => None,
            Whereabouts::MaybeInCluster => {
                self.asked += 1;
                self.cluster.remove(key)
            }
        };
        let record = found.map(|bytes| KeptRecord::decode(&bytes, key).expect("a whole record"));
        loop {
            let inserted =
                record.as_ref().map(|one| stored(&mut self.host.courier, now).insert(key, one));
            let inserted = match inserted.unwrap_or(Ok(Inserted::Void)) {
                Ok(Inserted::Void) => stored(&mut self.host.courier, now).insert_fresh(key),
                inserted => inserted,
            };
            if inserted != Ok(Inserted::NoRoom) {
                assert_eq!(inserted, Ok(Inserted::Yes));
                return NeedEnd::Answered;
            }
            let chain = stored(&mut self.host.courier, now).chain(key).unwrap();
            let Some(oldest) = chain.records.first() else { return NeedEnd::Unreachable };
            self.cluster.insert(oldest.key, oldest.record.encode(&oldest.key));
            assert_eq!(stored(&mut self.host.courier, now).erase_spilled(oldest), Ok(true));
        }
    }

    fn update(&mut self, biz: &str, key: &str) -> Result<bool, ItemError> {
        allowed(&self.run(request(Command::Update, false, &[Ask(biz, key, 1)])))[0]
    }
}

fn allowed(exchange: &Exchange) -> Vec<Result<bool, ItemError>> {
    limited(exchange).into_iter().map(|one| one.map(|is_limited| !is_limited)).collect()
}

// Shows: spill.
#[test]
fn a_group_too_small_by_half_forgets_nothing() {
    for biz in ["minute", "total"] {
        let mut machine = Clustered::new();
        let keys: Vec<String> = (0..16).map(|nth| format!("k{nth}")).collect();
        // An order that suits no chain.
        for round in 0..6 {
            for nth in 0..16 {
                let key = &keys[nth * 7 % 16];
                assert_eq!(machine.update(biz, key), Ok(round < 3), "{key} in round {round}");
            }
        }
        assert!(machine.asked > 0 && machine.cluster.len() >= 8);
        let runtime = machine.host.world.runtime();
        for evictions in [GroupCounter::EvictionsIdle, GroupCounter::EvictionsLimiting] {
            assert_eq!(runtime.count_of_groups(evictions), 0);
        }
        machine.host.world.verify();
    }
}

// Shows: growth.
#[test]
fn a_group_that_spills_moves_and_forgets_nothing() {
    const SMALL: &str = r#"files="1" key-nodes="1" chain="8""#;
    const LARGER: &str = r#"files="2" key-nodes="3" chain="12""#;
    for biz in ["minute", "total"] {
        let mut machine = Clustered::new();
        let keys: Vec<String> = (0..16).map(|nth| format!("k{nth}")).collect();
        let use_all = |machine: &mut Clustered, expected: bool| {
            for key in &keys {
                assert_eq!(machine.update(biz, key), Ok(expected), "{key}");
            }
        };
        use_all(&mut machine, true);
        assert!(machine.cluster.len() >= 8, "half of them are spilled");
        let larger = MAP.replace(SMALL, LARGER);
        machine.host.world.begin_moves(&larger, 2);
        // Some records move now, and some come out of the cluster.
        for key in &keys[..6] {
            assert_eq!(machine.update(biz, key), Ok(true), "{key}");
        }
        let mut keeper = machine.host.world.attach();
        move_all(&mut keeper, clock::now());
        for key in &keys[6..] {
            assert_eq!(machine.update(biz, key), Ok(true), "{key}");
        }
        machine.host.world.end_moves(&larger, 3);
        drop(keeper);
        use_all(&mut machine, true);
        use_all(&mut machine, false);
        assert!(machine.cluster.is_empty(), "all have room now");
        machine.host.world.verify();
    }
}

#[test]
fn where_there_is_room_nobody_waits() {
    let mut machine = Clustered::new();
    for nth in 0..8 {
        let ask = Ask("minute", &nth.to_string(), 1);
        let mut exchange = Exchange::of(request(Command::Update, false, &[ask]));
        machine.host.service.run_all(std::slice::from_mut(&mut exchange), clock::now());
        assert_eq!(exchange.stage, Stage::Answered);
    }
    assert_eq!(machine.asked, 0);
}

// Shows: spill.
#[test]
fn without_the_cluster_a_key_that_may_be_spilled_is_busy() {
    let mut machine = Clustered::new();
    for nth in 0..9 {
        assert_eq!(machine.update("minute", &nth.to_string()), Ok(true));
    }
    machine.is_silent = true;
    let [spilled] = machine.cluster.keys().collect::<Vec<_>>()[..] else {
        panic!("one is spilled")
    };
    let key = spilled.key().unwrap();
    let spilled = char::from(key.words()[0] as u8).to_string();
    assert_eq!(machine.update("minute", &spilled), Err(ItemError::Busy));
    let query = machine.run(request(Command::Query, false, &[Ask("minute", &spilled, 1)]));
    assert_eq!(allowed(&query), [Err(ItemError::Busy)]);
    machine.is_silent = false;
    assert_eq!(machine.update("minute", &spilled), Ok(true));
}

// Shows: spill.
#[test]
fn without_the_cluster_only_what_refuses_nothing_is_evicted() {
    let mut machine = Clustered::new();
    machine.is_silent = true;
    for nth in 0..8 {
        let uses = if nth == 3 { 1 } else { 3 };
        (0..uses).for_each(|_| assert_eq!(machine.update("minute", &nth.to_string()), Ok(true)));
    }
    assert_eq!(machine.update("minute", "new"), Ok(true), "in the place of 3");
    for nth in [0, 1, 2, 4, 5, 6, 7] {
        assert_eq!(machine.update("minute", &nth.to_string()), Ok(false));
    }
    (0..2).for_each(|_| assert_eq!(machine.update("minute", "new"), Ok(true)));
    assert_eq!(machine.update("minute", "3"), Err(ItemError::Full));
    let refuse = MAP.replace("spill=", "on-full=\"refuse\" spill=");
    let mut machine = Clustered::of(&refuse);
    machine.is_silent = true;
    (0..8).for_each(|nth| assert_eq!(machine.update("minute", &nth.to_string()), Ok(true)));
    assert_eq!(machine.update("minute", "new"), Err(ItemError::Full));
    machine.is_silent = false;
    assert_eq!(machine.update("minute", "new"), Ok(true));
}

#[test]
fn who_does_not_wait_and_who_edits_evict_nothing_in_use() {
    let mut machine = Clustered::new();
    for nth in 0..8 {
        assert_eq!(machine.update("minute", &nth.to_string()), Ok(true));
    }
    let now = clock::now();
    // Like an item whose wait has timed out because its courier died.
    for atomic in [false, true] {
        let late = request(Command::Update, atomic, &[Ask("minute", "new", 1)]);
        let answers = machine.host.service.answers(&late, now);
        assert_eq!(answers.items[0].result.as_ref().err(), Some(&ItemError::Full));
    }
    let new = RecordName::of_key("minute", "new");
    assert_eq!(
        machine.host.service.set_used(new, 1, 1, now).map(drop),
        Err(ItemError::Full.into())
    );
    // There is nothing to erase here, and nothing could come back.
    assert_eq!(machine.host.service.erase(new, now), Ok(None));
    for nth in 0..8 {
        assert_eq!(machine.host.service.used("minute", &nth.to_string(), now), 1, "{nth}");
    }
}

#[test]
fn one_that_refuses_nothing_is_found_behind_many_that_refuse() {
    let mut machine = Clustered::of(&MAP.replace("chain=\"8\"", "chain=\"24\""));
    machine.is_silent = true;
    for nth in 0..24 {
        let uses = if nth == 23 { 1 } else { 3 };
        (0..uses).for_each(|_| assert_eq!(machine.update("minute", &nth.to_string()), Ok(true)));
    }
    assert_eq!(machine.update("minute", "new"), Ok(true), "in the place of 23");
}

#[test]
fn a_ban_gets_room_as_well() {
    let bans = MAP.replace("max=\"3\"", "max=\"3\" ban=\"1h\"");
    for atomic in [false, true] {
        let mut machine = Clustered::of(&bans);
        (0..8).for_each(|nth| assert_eq!(machine.update("minute", &nth.to_string()), Ok(true)));
        let too_much = request(Command::Update, atomic, &[Ask("minute", "new", 4)]);
        assert_eq!(allowed(&machine.run(too_much)), [Ok(false)]);
        assert_eq!(machine.update("minute", "new"), Ok(false), "atomic: {atomic}");
        machine.host.world.verify();
    }
}

// Shows: bans-in-the-cluster.
#[test]
fn a_ban_that_is_lifted_while_it_is_spilled_does_not_come_back() {
    let bans = MAP.replace("interval=\"1m\" max=\"3\"", "interval=\"1h\" max=\"3\" ban=\"1h\"");
    let mut machine = Clustered::of(&bans);
    let is_banned = |machine: &mut Clustered| {
        let query = machine.run(request(Command::Query, false, &[Ask("minute", "0", 1)]));
        let verdict = query.answers.items[0].result.unwrap();
        assert_eq!(verdict.figures.used, 3, "counts stay");
        verdict.banned
    };
    let spill = |machine: &mut Clustered, round: u32| {
        let mut others = (0..100).map(|nth| format!("{round}-{nth}"));
        while !machine.cluster.contains_key(&key_0()) {
            let _ = machine.update("minute", &others.next().expect("it goes before"));
        }
    };
    (0..4).for_each(|nth| assert_eq!(machine.update("minute", "0"), Ok(nth < 3)));
    let mut overlay = Overlay::default();
    for (round, generation) in (0..3).zip(2..) {
        assert!(is_banned(&mut machine));
        spill(&mut machine, 2 * round);
        assert!(is_banned(&mut machine), "it comes back as it went");
        spill(&mut machine, 2 * round + 1);
        overlay.lift_bans(1, clock::now()).unwrap();
        machine.host.world.publish_overlaid(&bans, generation, &overlay);
        machine.host.courier.begin_tick();
        assert!(!is_banned(&mut machine), "lifted {} times", round + 1);
        // The next ban, in the same second, does not count as one from before the lift.
        assert_eq!(machine.update("minute", "0"), Ok(false));
    }
    machine.host.world.verify();
}

// Shows: spill.
#[test]
fn a_record_is_erased_only_as_the_cluster_has_it() {
    let mut machine = Clustered::new();
    (0..8).for_each(|nth| assert_eq!(machine.update("minute", &nth.to_string()), Ok(true)));
    let now = clock::now();
    let any = stored(&mut machine.host.courier, now).chain(&key_0()).unwrap();
    assert_eq!((any.length, any.records.len()), (8, 8));
    let of_0 = any.records.iter().find(|one| one.key.key().unwrap().words()[0] == 0x30).unwrap();
    assert_eq!(machine.update("minute", "0"), Ok(true));
    assert_eq!(stored(&mut machine.host.courier, now).erase_spilled(of_0), Ok(false));
    assert_eq!(machine.host.service.used("minute", "0", now), 2);
    assert_eq!(
        stored(&mut machine.host.courier, now).whereabouts(&of_0.key),
        Ok(Whereabouts::Here)
    );
    let again = stored(&mut machine.host.courier, now).chain(&of_0.key).unwrap();
    let of_0 = again.records.into_iter().find(|one| one.key == of_0.key).unwrap();
    assert_eq!(stored(&mut machine.host.courier, now).erase_spilled(&of_0), Ok(true));
    assert_eq!(
        stored(&mut machine.host.courier, now).whereabouts(&of_0.key),
        Ok(Whereabouts::MaybeInCluster)
    );
    assert_eq!(
        stored(&mut machine.host.courier, now).erase_spilled(&of_0),
        Ok(false),
        "it is not here"
    );
}

/// The key 0 of the first biz.
fn key_0() -> StoredKey {
    let mut field = [0; frs_conf::key::MAX_KEY_WORDS];
    field[0] = 0x30;
    let form = frs_conf::key::KeyForm::Text as u8;
    StoredKey { key_word: node::key_word(1, form, 1), field }
}

#[test]
fn an_atomic_request_gets_room_for_all_its_items() {
    let mut machine = Clustered::new();
    for nth in 0..8 {
        (0..3).for_each(|_| assert_eq!(machine.update("minute", &nth.to_string()), Ok(true)));
    }
    let items = [Ask("minute", "a", 1), Ask("minute", "b", 1), Ask("minute", "c", 3)];
    let exchange = machine.run(request(Command::Update, true, &items));
    assert_eq!(allowed(&exchange), [Ok(true); 3]);
    // One of the two keys was spilled, and refuses.
    let items = [Ask("minute", "a", 1), Ask("minute", "0", 1)];
    let exchange = machine.run(request(Command::Update, true, &items));
    assert!(exchange.answers.refused);
    let now = clock::now();
    assert_eq!(machine.host.service.used("minute", "a", now), 1);
    machine.host.world.verify();
}

#[test]
fn the_record_of_a_whole_biz_gets_room_as_well() {
    let mut machine = Clustered::new();
    for nth in 0..8 {
        (0..3).for_each(|_| assert_eq!(machine.update("minute", &nth.to_string()), Ok(true)));
    }
    assert_eq!(machine.update("both", "k"), Ok(true));
    assert_eq!(machine.host.service.used("both", "k", clock::now()), 1);
    (0..8).for_each(|nth| assert_eq!(machine.update("minute", &nth.to_string()), Ok(false)));
    let exchange = machine.run(request(Command::Update, true, &[Ask("both", "other", 1)]));
    assert_eq!(allowed(&exchange), [Ok(true)]);
    machine.host.world.verify();
}

#[test]
fn a_filter_forgets_after_two_periods() {
    let mut machine = Clustered::new();
    for nth in 0..9 {
        assert_eq!(machine.update("minute", &nth.to_string()), Ok(true));
    }
    let spilled = *machine.cluster.keys().next().unwrap();
    for expected in [Whereabouts::MaybeInCluster, Whereabouts::MaybeInCluster, Whereabouts::Nowhere]
    {
        assert_eq!(
            stored(&mut machine.host.courier, clock::now()).whereabouts(&spilled),
            Ok(expected)
        );
        assert_eq!(nodes::turn_filters(&machine.host.courier, "g", 0, 10), None);
    }
    let groups = nodes::spilling_groups(&machine.host.courier);
    // A total is never forgotten.
    assert_eq!((groups.len(), groups[0].name.as_str(), groups[0].life_ms), (1, "g", None));
    let only_minutes =
        MAP.replace("policy=\"total\" max", "policy=\"interval\" interval=\"1h\" max");
    let machine = Clustered::of(&only_minutes);
    let life_ms = nodes::spilling_groups(&machine.host.courier)[0].life_ms.unwrap();
    assert!((3_600_000..7_300_000).contains(&life_ms), "{life_ms}");
}

#[test]
fn an_erased_record_and_one_from_before_a_reset_do_not_come_back() {
    let mut machine = Clustered::new();
    for nth in 0..9 {
        (0..3).for_each(|_| assert_eq!(machine.update("minute", &nth.to_string()), Ok(true)));
    }
    // Key 0 is in the cluster. Its copy stays there when it is erased here.
    assert_eq!(machine.update("minute", "0"), Ok(false));
    let name = RecordName::of_key("minute", "0");
    let kept = stored(&mut machine.host.courier, clock::now()).chain(&key_0()).unwrap();
    let of_0 = kept.records.into_iter().find(|one| one.key == key_0()).unwrap();
    machine.cluster.insert(of_0.key, of_0.record.encode(&of_0.key));
    assert!(matches!(machine.host.courier.erase(name, clock::now()), Ok(Some(_))));
    // Other keys would take its place if the place were free.
    for nth in 0..40 {
        let _ = machine.update("minute", &format!("other{nth}"));
    }
    assert_eq!(machine.update("minute", "0"), Ok(true), "as it was erased");
    let void = KeptRecord { check: of_0.record.check ^ 1 << 48, ..of_0.record };
    stored(&mut machine.host.courier, clock::now()).forget(&of_0.key).unwrap();
    assert_eq!(
        stored(&mut machine.host.courier, clock::now()).insert(&of_0.key, &void),
        Ok(Inserted::Void)
    );
}
