//! The fast path over nodes of every length.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use frs_conf::KeyType;
use frs_conf::key::{KeyField, Seed};
use frs_store::{Handle, Lead, Moment, NodeOwner, Wanted, Worked};

use crate::testing::World;
use crate::{Command, Role};

const NOW: u64 = 1_700_000_000_000;

/// Sizes for each path: one to four lines, up to eight, and general transactions.
const NODE_BYTES: [u32; 6] = [64, 128, 192, 256, 512, 1024];

/// The stored last use and states of each key.
type Stored = BTreeMap<String, (u64, Vec<u64>)>;

fn stored(world: &World, biz: &str, now: u64) -> Stored {
    let mut reader = crate::inspect::Reader::open(&world.dir, None).unwrap();
    let mut stored = Stored::new();
    reader.for_each_node(now, |record| {
        if record.biz.as_deref() == Some(biz) {
            let states = &record.words[record.states_at..];
            let end = states.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
            stored.insert(record.key, (record.last_use_ms, states[..end].to_vec()));
        }
        ControlFlow::Continue(())
    });
    stored
}

#[test]
fn nodes_of_every_length_are_worked_on_alike() {
    let mut map = "<map>".to_owned();
    for bytes in NODE_BYTES {
        map += &format!(
            r#"<group name="g{bytes}" files="1" key-nodes="8" chain="56" node-size="{bytes}"/>
            <biz id="{bytes}" name="b{bytes}" group="g{bytes}" key="string">
            <limit policy="interval" interval="1m" max="9" debt="2"/></biz>"#
        );
    }
    let world = World::new(&(map + "</map>"));
    let mut service = world.attach();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut now = NOW;
    for step in 0..4000 {
        // Sometimes the clock goes back.
        now = now + next(4000) - next(2) * next(500);
        let command = if next(3) == 0 { Command::Query } else { Command::Update };
        let (key, count) = (format!("k{}", next(12)), next(5) as i32 - 1);
        let answers =
            NODE_BYTES.map(|bytes| service.one(command, &format!("b{bytes}"), &key, count, now));
        assert!(answers.iter().all(|of| of == &answers[0]), "{step} {key}: {answers:?}");
    }
    let all = NODE_BYTES.map(|bytes| stored(&world, &format!("b{bytes}"), now));
    assert_eq!(all[0].len(), 12);
    for of in &all {
        assert_eq!(of, &all[0]);
    }
    world.verify();
}

#[test]
fn work_that_panics_leaves_the_node_as_it_was_and_nothing_held() {
    for node_bytes in NODE_BYTES {
        let map = format!(
            r#"<map><group name="g" files="1" key-nodes="4" chain="4" node-size="{node_bytes}"/>
            <biz id="1" name="a" key="string"><limit policy="total" max="9"/></biz></map>"#
        );
        let world = World::new(&map);
        let mut service = world.attach();
        service.update("a", "k", NOW);

        let mut handle = Handle::attach(&world.dir, &world.dir, Role::Program as u32).unwrap();
        handle.take_groups(&world.conf.map.groups, 1, Duration::from_millis(50)).unwrap();
        let header = handle.groups()[0].header();
        let (geometry, seed) = (header.geometry, Seed(header.seeds));
        let mut field = KeyField::default();
        field.encode(KeyType::String, b"k", geometry.key_bytes, seed).unwrap();
        let key = field.key();
        let wanted = Wanted { group: 0, at: key.locate(1, &geometry, seed) };
        let mut met = false;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let lead = Lead { wanted: &wanted, guess: None };
            let owner = NodeOwner { biz_id: 1, key: &key };
            let moment = Moment { generation: 1, now_ms: NOW };
            handle.with_found(lead, owner, moment, |copy| -> Worked<()> {
                met = true;
                copy.fill(u64::MAX);
                panic!("in the middle of the work");
            })
        }));
        // The largest nodes take the general transaction.
        assert_eq!((met, panicked.is_err()), (node_bytes < 1024, node_bytes < 1024));

        assert_eq!(service.update("a", "k", NOW).figures.used, 2);
        drop(handle);
        world.verify();
    }
}
