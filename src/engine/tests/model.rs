//! The store against a plain map: random keys, times and counts, and full chains.

use std::collections::HashMap;

use frs_store::GroupCounter;
use proptest::prelude::*;

use crate::testing::World;
use crate::{Command, ItemError};

const NOW: u64 = 1_700_000_000_000;

/// An interval limit of 5 in 1000 ms, as a map of its keys.
#[derive(Default)]
struct Model(HashMap<String, (u64, u64)>);

impl Model {
    fn update(&mut self, key: &str, count: u64, now: u64) -> (bool, u64) {
        let (start, used) = self.0.get(key).copied().unwrap_or((now, 0));
        let (start, used) = if now - start >= 1000 { (now, 0) } else { (start, used) };
        let limited = used + count > 5;
        let used = if limited { used } else { used + count };
        if used > 0 {
            self.0.insert(key.to_string(), (start, used));
        } else {
            self.0.remove(key);
        }
        (limited, used)
    }
}

fn steps(keys: u32) -> impl Strategy<Value = Vec<(u32, u64, u64)>> {
    proptest::collection::vec((0..keys, 0..4u64, 0..300u64), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn with_room_for_all_every_answer_is_the_models(steps in steps(40)) {
        let world = World::new(
            r#"<map><group name="g" files="3" key-nodes="16" chain="16" node-size="64"/>
            <biz id="9" name="b" key="string"><limit policy="interval" interval="1s" max="5"/></biz></map>"#,
        );
        let mut service = world.attach();
        let (mut model, mut now) = (Model::default(), NOW);
        for (key, count, pass) in steps {
            now += pass;
            let key = format!("key-{key}");
            let verdict = service.one(Command::Update, "b", &key, count as i32, now).unwrap();
            let (limited, used) = model.update(&key, count, now);
            prop_assert_eq!((verdict.limited, verdict.figures.used), (limited, used));
            prop_assert_eq!(service.used("b", &key, now), used);
        }
        world.verify();
    }

    #[test]
    fn with_full_chains_an_answer_is_the_models_or_that_of_an_evicted_key(steps in steps(30)) {
        let world = World::new(
            r#"<map><group name="g" files="1" key-nodes="2" chain="5" node-size="64"/>
            <biz id="9" name="b" key="string"><limit policy="interval" interval="1s" max="5"/></biz></map>"#,
        );
        let mut service = world.attach();
        let (mut model, mut now) = (Model::default(), NOW);
        for (key, count, pass) in steps {
            now += pass;
            let key = format!("key-{key}");
            if service.used("b", &key, now) == 0 {
                // Evicted or expired: for the service this key is new.
                model.0.remove(&key);
            }
            let verdict = service.one(Command::Update, "b", &key, count as i32, now).unwrap();
            let (limited, used) = model.update(&key, count, now);
            prop_assert_eq!((verdict.limited, verdict.figures.used), (limited, used));
        }
        world.verify();
    }
}

#[test]
fn eviction_takes_expired_then_idle_then_limiting_oldest_first() {
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="1" chain="4" node-size="64"/>
        <biz id="1" name="b" key="string"><limit policy="interval" interval="1m" max="2"/></biz></map>"#,
    );
    let mut service = world.attach();
    let twice = |service: &mut crate::Service, key: &str, now| {
        service.update("b", key, now);
        service.update("b", key, now);
    };
    service.update("b", "gone", NOW - 59_000);
    twice(&mut service, "limiting", NOW);
    service.update("b", "idle-old", NOW + 10);
    service.update("b", "idle-new", NOW + 20);
    service.update("b", "1", NOW + 1001);
    assert_eq!(used(&mut service, "gone"), 0);
    service.update("b", "2", NOW + 1002);
    assert_eq!((used(&mut service, "idle-old"), used(&mut service, "limiting")), (0, 2));
    for (key, now) in [("3", 1003), ("4", 1004), ("5", 1005)] {
        twice(&mut service, key, NOW + now);
    }
    // All nodes limit now and none is idle: the oldest one is evicted.
    assert_eq!(used(&mut service, "limiting"), 2);
    service.update("b", "6", NOW + 1006);
    assert_eq!(used(&mut service, "limiting"), 0);
    let runtime = world.runtime();
    assert_eq!(runtime.count_of_groups(GroupCounter::EvictionsExpired), 1);
    assert!(runtime.count_of_groups(GroupCounter::EvictionsIdle) >= 4);
    assert_eq!(runtime.count_of_groups(GroupCounter::EvictionsLimiting), 1);
    world.verify();
}

fn used(service: &mut crate::Service, key: &str) -> u64 {
    service.used("b", key, NOW + 1010)
}

#[test]
fn totals_in_use_and_whole_biz_nodes_are_never_evicted() {
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="1" chain="4" node-size="64"/>
        <biz id="1" name="t" key="string"><limit policy="total" max="9"/></biz>
        <biz id="2" name="w" key="string"><limit policy="interval" interval="1m" scope="biz" max="9"/></biz>
        <biz id="3" name="b" key="string"><limit policy="interval" interval="1m" max="9"/></biz></map>"#,
    );
    let mut service = world.attach();
    for key in ["1", "2"] {
        service.update("t", key, NOW);
    }
    service.update("w", "any", NOW);
    for key in ["x", "y", "z"] {
        service.update("b", key, NOW);
    }
    assert_eq!(service.used("t", "1", NOW) + service.used("t", "2", NOW), 2);
    assert_eq!(service.used("w", "any", NOW), 1);
    service.update("t", "3", NOW);
    assert_eq!(service.one(Command::Update, "b", "q", 1, NOW), Err(ItemError::Full));
    // All uses are returned, so the record is free.
    service.one(Command::Update, "t", "3", -1, NOW).unwrap();
    service.update("b", "q", NOW);
    world.verify();
}

#[test]
fn on_full_refuse_takes_only_free_and_expired_places() {
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="1" chain="2" node-size="64" on-full="refuse"/>
        <biz id="3" name="b" key="string"><limit policy="interval" interval="1m" max="9"/></biz></map>"#,
    );
    let mut service = world.attach();
    service.update("b", "x", NOW);
    service.update("b", "y", NOW + 1);
    assert_eq!(service.one(Command::Update, "b", "z", 1, NOW + 2), Err(ItemError::Full));
    assert!(service.one(Command::Update, "b", "z", 1, NOW + 60_000).is_ok());
    world.verify();
}

// Shows: damaged-files.
#[test]
fn a_scribbled_node_is_dropped_and_counted() {
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="1" chain="1" node-size="64"/>
        <biz id="3" name="b" key="string"><limit policy="interval" interval="1m" max="9"/></biz></map>"#,
    );
    let mut service = world.attach();
    service.update("b", "x", NOW);
    let group = world.group("g");
    let at = group.node(0, 0) + 7;
    group.file(0).store(at, 1_000_000);
    assert_eq!(service.used("b", "x", NOW), 0);
    assert_eq!(world.runtime().count_of_groups(GroupCounter::DroppedCrc), 1);
    assert_eq!(service.update("b", "x", NOW).figures.used, 1);
    world.verify();
}

#[test]
fn a_node_of_one_interval_limit_takes_64_bytes() {
    let world = World::new(
        r#"<map><group name="g" files="2" key-nodes="10" chain="56" node-size="64" key-bytes="24"/>
        <biz id="3" name="b" key="string"><limit policy="interval" interval="1m" max="9"/></biz></map>"#,
    );
    let mut service = world.attach();
    service.update("b", "a-key-of-24-bytes-text-x", NOW);
    let bytes: u64 = (0..2)
        .map(|file| std::fs::metadata(world.dir.join(format!("g.{file}.mmap"))).unwrap().len())
        .sum();
    assert_eq!(bytes, 2 * (4096 + 10 * (64 + 56 * 64)));
    assert_eq!(world.group("g").verify().nodes, 1);
}

#[test]
fn a_new_node_goes_home_or_to_the_next_free_place() {
    let world = World::new(
        "<map><group name='g' files='1' key-nodes='1' chain='56' node-size='64'/>
        <biz id='1' name='a' key='string'>
          <limit policy='interval' interval='1h' max='9'/></biz></map>",
    );
    let mut service = world.attach();
    let group = world.group("g");
    let tags = || -> Vec<u8> {
        let words = (1..8).map(|word| group.file(0).load(group.head(0) + word));
        words.flat_map(u64::to_le_bytes).collect()
    };
    let mut at_home = 0;
    for key in 0..56 {
        let before = tags();
        service.update("a", &key.to_string(), NOW);
        let after = tags();
        let place = (0..56).find(|&place| before[place] != after[place]).expect("a new one");
        let home = group.home(after[place]);
        let way: Vec<usize> = (home..56).chain(0..home).take_while(|&at| at != place).collect();
        assert!(way.iter().all(|&at| before[at] != 0), "{key}: a place nearer home was free");
        at_home += usize::from(key < 28 && way.is_empty());
    }
    assert!(at_home >= 14, "of the first half {at_home} are at home");
    // A key whose node is far from its home place is found too.
    for key in 0..56 {
        assert_eq!(service.update("a", &key.to_string(), NOW).figures.used, 2, "{key}");
    }
    let homes: Vec<usize> = (1..=255).map(|tag| group.home(tag)).collect();
    assert!(homes.is_sorted() && homes[0] == 0 && homes[254] < 56);
    assert!((0..56).all(|place| (4..=5).contains(&homes.iter().filter(|&&h| h == place).count())));
}
