//! The reader over real data directories, live and damaged.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use frs_conf::Scope;
use frs_conf::key::KeyNodeId;
use frs_store::inspect::{LiveReport, NamedKeyNode};
use frs_store::semaphore::Token;
use frs_store::slot::{Intent, SlotState};
use frs_store::{Fault, Rank};

use super::{By, Error, Look, NodePlace, NodeRecord, Reader, Skipped};
use crate::testing::World;
use crate::{Command, Role, Service};

mod fresh;
mod holds;
mod image;
mod registers;

const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="8" chain="8" node-size="128"/>
  <group name="log" files="1" key-nodes="4" chain="8" node-size="128" hash="siphash"/>
  <biz id="1" name="login" key="string">
    <limit policy="interval" interval="60s" max="5" ban="10m"/>
    <override key="vip" limit="1" max="50"/>
  </biz>
  <biz id="2" name="sms" key="integer" group="log">
    <limit policy="sliding" interval="1m" max="3"/>
    <limit policy="token" rate="10/s" burst="20"/>
  </biz>
  <biz id="3" name="sale" key="ip">
    <limit policy="total" scope="biz" max="100"/>
    <limit policy="calendar" unit="day" max="3"/>
  </biz>
  <biz id="4" name="secret" key="digest"><limit policy="count"/></biz>
</map>"#;

const T: u64 = 1_800_000_000_000;

fn used() -> World {
    let world = World::new(MAP);
    let mut service = world.attach();
    for (biz, key, count) in [
        ("login", "alice", 3),
        ("login", "vip", 9),
        ("sms", "17", 2),
        ("sale", "10.1.2.3", 2),
        ("sale", "2001:db8::1", 1),
        ("secret", "nobody shall know", 4),
    ] {
        service.one(Command::Update, biz, key, count, T).unwrap();
    }
    service.one(Command::Update, "login", "mallory", 1, T - 1000).unwrap();
    service.one(Command::Update, "login", "mallory", 5, T).unwrap();
    world
}

fn reader(world: &World) -> Reader {
    Reader::open(&world.dir, None).unwrap()
}

fn at(look: Look) -> NodeRecord {
    match look {
        Look::At(record) => *record,
        other => panic!("{other:?}"),
    }
}

fn all(reader: &mut Reader, now: u64) -> Vec<NodeRecord> {
    let mut records = Vec::new();
    let walked = reader.for_each_node(now, |record| {
        records.push(record);
        ControlFlow::Continue(())
    });
    assert_eq!((walked.nodes, walked.skipped), (records.len() as u64, vec![]));
    records
}

#[test]
fn a_node_tells_what_its_limits_say_now() {
    let world = used();
    let mut reader = reader(&world);
    let alice = at(reader.node("login", "alice", T).unwrap());
    assert_eq!((alice.biz.as_deref(), alice.biz_id, &*alice.key), (Some("login"), 1, "alice"));
    assert_eq!((alice.last_use_ms, alice.rank, alice.is_limiting()), (T, Rank::Idle, false));
    let figures = alice.limits[0].figures;
    assert_eq!((figures.used, figures.max, figures.remaining), (3, 5, 2));
    assert_eq!(figures.reset_ms, Some(60_000));

    let mallory = at(reader.node("1", "mallory", T).unwrap());
    assert_eq!(mallory.banned_until_ms, Some(T + 600_000));
    assert_eq!((mallory.rank, mallory.is_limiting()), (Rank::Banned, true));
    assert_eq!(at(reader.node("login", "vip", T).unwrap()).limits[0].figures.max, 50, "override");

    let sms = at(reader.node("sms", "017", T + 50).unwrap());
    assert_eq!((&*sms.key, sms.limits.len(), &*sms.group), ("17", 2, "log"));
    assert_eq!((sms.limits[0].figures.used, sms.limits[1].policy), (2, "token"));
    assert_eq!(reader.ring_times(&sms), [T, T]);
    let names: Vec<_> = reader.state_words(&sms).iter().map(|word| word.name).collect();
    assert_eq!(names, ["level", "last", "ring-base", "ring", "ring-uses", "ring-uses"]);

    let whole = at(reader.whole("sale", T).unwrap());
    assert_eq!((whole.scope, &*whole.key, whole.used()), (Scope::Biz, "*", 3));
    assert_eq!(whole.limits.iter().map(|limit| limit.index).collect::<Vec<_>>(), [1]);
    let address = at(reader.node("sale", "10.1.2.3", T).unwrap());
    assert_eq!(address.limits.iter().map(|limit| limit.index).collect::<Vec<_>>(), [2]);
    let secret = at(reader.node("secret", "nobody shall know", T).unwrap());
    assert!(secret.key.starts_with("digest:"), "{}", secret.key);
}

#[test]
fn what_is_not_there_is_told_from_what_cannot_be() {
    let world = used();
    let mut reader = reader(&world);
    let bob = reader.node("login", "bob", T);
    assert!(matches!(bob, Ok(Look::Absent { group, .. }) if group == "default"));
    assert!(
        matches!(reader.node("nope", "bob", T), Err(Error::UnknownBiz(name, _)) if name == "nope")
    );
    assert!(matches!(reader.node("sms", "bob", T), Err(Error::BadKey(..))));
    let nowhere = tempfile::tempdir().unwrap();
    assert!(matches!(Reader::open(nowhere.path(), None), Err(Error::NoConfiguration { .. })));
}

#[test]
fn every_node_is_walked_once() {
    let world = used();
    let mut reader = reader(&world);
    let mut names: Vec<_> = all(&mut reader, T)
        .into_iter()
        .map(|record| format!("{} {}", record.biz.unwrap(), record.key.split(':').next().unwrap()))
        .collect();
    names.sort();
    let expected = [
        "login alice",
        "login mallory",
        "login vip",
        "sale *",
        "sale 10.1.2.3",
        "sale 2001",
        "secret digest",
        "sms 17",
    ];
    assert_eq!(names, expected);
    let stats = reader.group_stats(T);
    assert_eq!(
        stats.iter().map(|group| (group.live, group.expired)).collect::<Vec<_>>(),
        [(7, 0), (1, 0)]
    );
    // Only mallory: the override of vip leaves some uses.
    assert_eq!((stats[0].limiting, stats[0].whole, stats[0].free), (1, 1, 2 * 8 * 8 - 7));
    for group in &stats {
        let chains = group.chains.iter().sum::<u64>();
        assert_eq!(chains, u64::from(group.geometry.files * group.geometry.key_nodes));
        let nodes = group.chains.iter().zip(0..).map(|(count, length)| count * length).sum::<u64>();
        assert_eq!(nodes, group.live + group.expired);
    }
    // A minute later only records of longer limits still count.
    let later = reader.group_stats(T + 120_000);
    assert_eq!((later[0].live, later[0].expired), (5, 2), "the ban, the sale, the count");
    assert_eq!((later[1].live, later[1].expired), (0, 1));
}

#[test]
fn the_most_used_and_the_latest_come_first() {
    let world = used();
    let mut reader = reader(&world);
    let mut top = |n, by| -> Vec<String> {
        reader.top("login", n, by, T).unwrap().into_iter().map(|node| node.key).collect()
    };
    assert_eq!(top(9, By::Used), ["vip", "alice", "mallory"]);
    assert_eq!(top(1, By::Used), ["vip"]);
    assert_eq!(top(0, By::Used), [""; 0]);
    assert_eq!(top(9, By::Last)[0], "vip", "of equals the most used");
    assert_eq!(reader.top("sale", 9, By::Used, T).unwrap().len(), 2, "without the whole");
}

#[test]
fn other_limits_and_no_business_are_told() {
    let world = used();
    let map = MAP
        .replace("interval=\"60s\"", "interval=\"61s\"")
        .replace("<biz id=\"4\" name=\"secret\"", "<biz id=\"5\" name=\"other\"");
    let mut reader = reader(&world);
    assert!(!reader.refresh().unwrap());
    world.publish(&map, 2);
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.generation(), 2);
    let alice = at(reader.node("login", "alice", T).unwrap());
    assert!(alice.outdated && alice.is_expired() && reader.state_words(&alice).is_empty());
    assert_eq!(alice.limits[0].figures.used, 0, "fresh at its next use");
    let unnamed = all(&mut reader, T).into_iter().find(|record| record.biz_id == 4).unwrap();
    assert!(unnamed.biz.is_none() && unnamed.is_expired() && unnamed.limits.is_empty());
}

#[test]
fn a_damaged_node_is_named_and_nothing_else() {
    let world = used();
    let mut reader = reader(&world);
    let alice = at(reader.node("login", "alice", T).unwrap());
    let group = world.group("default");
    let word = group.node(alice.place.key_node, alice.place.place) + alice.states_at;
    let region = group.file(alice.place.file);
    region.store(word, region.load(word) ^ 1);
    let walked = reader.for_each_node(T, |_| ControlFlow::Continue(()));
    let damaged =
        Skipped::Damaged { group: "default".into(), place: alice.place, fault: Fault::Crc };
    assert_eq!((walked.nodes, walked.skipped), (7, vec![damaged]));
    let found = reader.node("login", "alice", T).unwrap();
    assert_eq!(found, Look::Damaged { place: alice.place, fault: Fault::Crc });
}

/// Ends the threads beside a test, even if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Makes a slot look as if its owner were in a transaction on the key-node of a place.
fn begin(world: &World, slot: u32, place: NodePlace) {
    let (runtime, group) = (world.runtime(), world.group("default"));
    let NodePlace { file, key_node, .. } = place;
    let intent = Intent { group: group.header().id, file, key_node };
    let words = runtime.slot(slot);
    frs_store::testing::pose(words, &[intent], 1);
    group.semaphore(file, key_node).try_take(Token::new(slot, words.state().epoch)).unwrap();
}

/// Makes a slot look as if its owner were at the commit point of such a transaction.
fn commit(world: &World, slot: u32, NodePlace { file, key_node, .. }: NodePlace) {
    let intent = Intent { group: world.group("default").header().id, file, key_node };
    frs_store::testing::pose(world.runtime().slot(slot), &[intent], 0);
}

/// Damages a node.
fn tear(world: &World, record: &NodeRecord) {
    let group = world.group("default");
    let word = group.node(record.place.key_node, record.place.place) + record.states_at;
    group.file(record.place.file).store(word, 1);
}

#[test]
fn a_node_in_a_transaction_is_not_called_damaged() {
    let world = used();
    let service = world.attach();
    let slot = world.runtime().slots()[0].slot;
    let mut reader = reader(&world);
    let alice = at(reader.node("login", "alice", T).unwrap());
    begin(&world, slot, alice.place);
    assert_eq!(at(reader.node("login", "alice", T).unwrap()), alice, "whole all the same");
    tear(&world, &alice);
    assert_eq!(reader.node("login", "alice", T).unwrap(), Look::InTransaction { slot });
    let walked = reader.for_each_node(T, |_| ControlFlow::Continue(()));
    let busy = Skipped::InTransaction { group: "default".into(), place: alice.place, slot };
    assert_eq!(walked.skipped, [busy]);
    let at = named(alice.place, slot);
    assert_eq!(verified(&reader).in_transaction, [at]);
    frs_store::testing::pose(world.runtime().slot(slot), &[], 0);
    drop(service);
}

fn named(NodePlace { file, key_node, .. }: NodePlace, slot: u32) -> NamedKeyNode {
    NamedKeyNode { at: KeyNodeId { file, key_node }, slot }
}

fn verified(reader: &Reader) -> LiveReport {
    reader.groups().next().unwrap().1.unwrap().verify(&reader.pass())
}

// Shows: inspection.
#[test]
fn where_nobody_is_attached_nobody_is_in_a_transaction() {
    let world = used();
    // A slot as a killed process leaves it.
    let slot = {
        let service = world.attach();
        let slot = world.runtime().slots()[0].slot;
        let state = world.runtime().slot(slot).state();
        drop(service);
        world.runtime().slot(slot).set_state(state);
        slot
    };
    let mut reader = reader(&world);
    let alice = at(reader.node("login", "alice", T).unwrap());
    let place = named(alice.place, slot);
    begin(&world, slot, alice.place);
    assert_eq!((verified(&reader).held_by_dead, verified(&reader).orphans.len()), (1, 0));
    tear(&world, &alice);
    let found = verified(&reader);
    assert_eq!((found.in_transaction, found.half_written), (vec![], vec![place]));
    assert_eq!(reader.node("login", "alice", T).unwrap(), Look::HalfWritten { slot });
    let walked = reader.for_each_node(T, |_| ControlFlow::Continue(()));
    let half = Skipped::HalfWritten { group: "default".into(), place: alice.place, slot };
    assert_eq!(walked.skipped, [half]);
    // Committed: a torn node is now damage. It is damage as well if no slot holds the key-node.
    for detached in [false, true] {
        commit(&world, slot, alice.place);
        if detached {
            let state = world.runtime().slot(slot).state();
            world.runtime().slot(slot).set_state(SlotState { used: false, ..state });
        }
        let found = verified(&reader);
        assert_eq!((found.in_transaction, found.half_written), (vec![], vec![]));
        assert_eq!(found.report.findings.len(), 1);
        assert_eq!(found.orphans, if detached { vec![place] } else { vec![] });
        let damaged = Look::Damaged { place: alice.place, fault: Fault::Crc };
        assert_eq!(reader.node("login", "alice", T).unwrap(), damaged);
    }
}

#[test]
fn a_semaphore_that_names_who_does_not_hold_it_is_found() {
    let world = used();
    let (mut service, _idle) = (world.attach(), world.attach());
    let runtime = world.runtime();
    let tokens: Vec<Token> = runtime
        .slots()
        .iter()
        .map(|slot| Token::new(slot.slot, runtime.slot(slot.slot).state().epoch))
        .collect();
    let mut reader = reader(&world);
    let alice = at(reader.node("login", "alice", T).unwrap()).place;
    let group = world.group("default");
    let semaphore = group.semaphore(alice.file, alice.key_node);
    // A busy slot whose owner works on another key-node, an idle one, one that does not exist, and
    // an older epoch.
    let (busy, idle) = (tokens[0], tokens[1]);
    let older = Token::new(busy.slot(), busy.epoch() + 1);
    for token in [busy, idle, Token::new(9, 1), older] {
        semaphore.try_take(token).unwrap();
        for _ in 0..3 {
            service.update("sms", "17", T);
            let found = verified(&reader);
            assert_eq!(found.orphans, [named(alice, token.slot())]);
        }
        semaphore.release();
    }
    assert_eq!(verified(&reader).orphans, []);
}

// Shows: inspection.
#[test]
fn a_live_group_that_is_scribbled_over_all_the_time_is_looked_through_in_bounded_time() {
    let map = MAP.replace("key-nodes=\"8\"", "key-nodes=\"300\"");
    let world = World::new(&map);
    let mut service = world.attach();
    let slot = world.runtime().slots()[0].slot;
    let group = world.group("default");
    let mut reader = reader(&world);
    let (is_over, begun) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let (is_over, group, world) = (&is_over, &group, &world);
        let _over = Over(is_over);
        scope.spawn(move || {
            // The live slot seems to work on every node that is read.
            let epoch = world.runtime().slot(slot).state().epoch;
            let token = u64::from(slot | epoch << 8);
            let mut random: u64 = 1;
            while !is_over.load(Ordering::Relaxed) {
                for file in 0..2 {
                    for key_node in 0..300 {
                        let (region, head) = (group.file(file), group.head(key_node));
                        region.store(head, token);
                        for word in 1..8 + 8 * 16 {
                            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                            region.store(head + word, random);
                        }
                    }
                }
            }
        });
        let id = group.header().id;
        let intent = |nth: u32| Intent { group: id, file: nth / 300, key_node: nth % 300 };
        let intents: Vec<Intent> = (0..600).map(intent).collect();
        frs_store::testing::pose(world.runtime().slot(slot), &intents, 0);
        while group.semaphore(1, 299).word() == 0 {
            std::thread::yield_now();
        }
        let walked = reader.for_each_node(T, |_| ControlFlow::Continue(()));
        assert!(!walked.skipped.is_empty());
        verified(&reader);
        let _ = (reader.top("login", 9, By::Used, T), reader.group_stats(T));
        let _ = reader.node("login", "alice", T);
    });
    // A hundred looks and 80 pauses for each node would take many minutes.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    frs_store::testing::pose(world.runtime().slot(slot), &[], 0);
    let _ = service.one(Command::Update, "login", "alice", 1, T);
}

#[test]
fn nobody_attaches_while_files_are_repaired() {
    let map = MAP.replace("key-nodes=\"8\"", "key-nodes=\"20000\"");
    let world = World::new(&map);
    let group = world.group("default");
    // A scan frees all semaphores: the first at its beginning, the last at its end.
    let (first, last) = (group.semaphore(0, 0), group.semaphore(1, group.geometry().key_nodes - 1));
    let token = Token::new(9, 1);
    [first, last].iter().for_each(|semaphore| semaphore.try_take(token).unwrap());
    let over = AtomicBool::new(false);
    let attached = std::thread::scope(|scope| {
        let attaching = scope.spawn(|| {
            let mut attached = 0;
            while first.word() != 0 && !over.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            while last.word() != 0 && !over.load(Ordering::SeqCst) {
                let service = Service::attach(&world.dir, Role::Program, None);
                attached += u64::from(service.is_ok() && last.word() != 0);
            }
            attached
        });
        let repaired = crate::inspect::repair(&world.conf);
        over.store(true, Ordering::SeqCst);
        repaired.unwrap();
        attaching.join().unwrap()
    });
    assert_eq!(attached, 0);
}

#[test]
fn a_file_full_of_damage_is_looked_through_at_once() {
    let map = MAP.replace("key-nodes=\"8\"", "key-nodes=\"300\"");
    let world = World::new(&map);
    let group = world.group("default");
    for key_node in 0..300 {
        for word in 1..8 + 8 * 16 {
            group.file(0).store(group.head(key_node) + word, 0x5a5a_5a5a_5a5a_5a5a);
        }
    }
    let mut reader = reader(&world);
    let begun = Instant::now();
    let walked = reader.for_each_node(T, |_| ControlFlow::Continue(()));
    assert_eq!((walked.nodes, walked.skipped.len()), (0, 300 * 8));
    let found = verified(&reader);
    assert_eq!(found.in_transaction, []);
    assert_eq!(found.report.findings.len(), 300 * 56);
    // A pause for each would take about 10 seconds.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
