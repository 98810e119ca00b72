//! Counts of items and nodes. Invariant: they are exact, in the row of their business, whatever
//! happens to the configuration and to the process that counted.

use frs_store::counter::{BizKey, GroupKey, OUTCOMES};
use frs_store::layout::slot::BIZ_ROWS;
use frs_store::{BizRow, Counter, GroupCounter, Sweep};

use crate::testing::{Ask, World, request};
use crate::{Answers, Command, Extras, ItemError, ItemOptions, Outcome, Request, Role, Service};

const NOW: u64 = 1_700_000_000_000;

fn items(world: &World, key: BizKey) -> [[u64; OUTCOMES]; 2] {
    world.runtime().sums().bizs.get(&key).map(|sums| sums.items).unwrap_or_default()
}

/// The outcomes counted, with their numbers.
fn counted(world: &World, key: BizKey, command: Command) -> Vec<(Outcome, u64)> {
    let counts = items(world, key)[usize::from(command == Command::Update)];
    let all = Outcome::ALL.into_iter().zip(counts);
    all.filter(|(_, count)| *count > 0).collect()
}

// Shows: counters-exact.
#[test]
fn each_item_is_counted_once_by_business_command_and_outcome() {
    let map = "<map>
      <group name='g' files='1' key-nodes='8' chain='8' node-size='128'/>
      <biz id='1' name='two' key='string'>
        <limit policy='interval' interval='1m' max='2'/>
        <allow key='root'/><deny key='eve'/>
      </biz>
      <biz id='2' name='ban' key='string'>
        <limit policy='interval' interval='1m' max='1' ban='1h'/></biz>
      <biz id='3' name='shadow' key='string' mode='shadow'>
        <limit policy='interval' interval='1m' max='1' ban='1h'/></biz>
      <biz id='4294967295' name='off' key='integer' mode='off'>
        <limit policy='interval' interval='1m' max='1'/></biz>
    </map>";
    let world = World::new(map);
    let mut service = world.attach();
    let mut ask = |command, biz, key, count| {
        let _ = service.one(command, biz, key, count, NOW);
    };
    for _ in 0..3 {
        ask(Command::Update, "two", "a", 1);
        ask(Command::Update, "ban", "a", 1);
        ask(Command::Update, "shadow", "a", 1);
        ask(Command::Update, "off", "7", 1);
        ask(Command::Update, "two", "eve", 1);
    }
    ask(Command::Query, "two", "a", 1);
    ask(Command::Query, "two", "b", 1);
    ask(Command::Query, "two", "root", 1);
    ask(Command::Query, "two", "", 1);
    ask(Command::Query, "nobody", "a", 1);
    ask(Command::Update, "off", "no number", 1);
    // Three in one transaction, which is refused because of its last item.
    let all = [Ask("two", "c", 1), Ask("nobody", "c", 1), Ask("two", "a", 1)];
    service.answers(&request(Command::Update, true, &all), NOW);

    use Outcome::*;
    let of = |id, command| counted(&world, BizKey::Id(id), command);
    assert_eq!(of(1, Command::Update), [(Allowed, 3), (Limited, 2), (Listed, 3)]);
    assert_eq!(of(1, Command::Query), [(Allowed, 1), (Limited, 1), (Listed, 1), (Error, 1)]);
    assert_eq!(of(2, Command::Update), [(Allowed, 1), (Banned, 2)]);
    assert_eq!(of(3, Command::Update), [(Allowed, 1), (Shadowed, 2)]);
    assert_eq!(of(u32::MAX, Command::Update), [(Allowed, 3), (Error, 1)]);
    assert_eq!(counted(&world, BizKey::Unknown, Command::Query), [(Error, 1)]);
    assert_eq!(counted(&world, BizKey::Unknown, Command::Update), [(Error, 1)]);
    assert_eq!(items(&world, BizKey::Others), [[0; OUTCOMES]; 2]);
    let errors = world.runtime().sums().item_errors;
    assert_eq!(errors[..2], [2, 2], "unknown-biz, bad-key");
    assert!(errors[2..].iter().all(|&count| count == 0));

    world.publish_degraded(map, 2);
    service.update("two", "a", NOW);
    assert_eq!(of(1, Command::Update)[2], (Degraded, 1));
}

// Shows: counters-exact.
#[test]
fn each_hold_is_counted_once_when_it_is_made_and_when_it_ends() {
    let world = World::new(
        "<map><group name='g' files='1' key-nodes='8' chain='8' node-size='192'/>
        <biz id='1' name='places' key='string' hold-ttl='10s'>
          <limit policy='concurrent' max='3'/></biz></map>",
    );
    let mut service = world.attach();
    let mut ask = |command, id, count, now| {
        let mut request = Request::default();
        request.begin(command);
        request.push("places", "k", ItemOptions::of(count));
        request.bring(Extras { hold: Some(id), ..Extras::NONE });
        service.answers(&request, now);
        let sums = world.runtime().sums();
        [Counter::HoldsMade, Counter::HoldsEnded, Counter::HoldsLapsed].map(|of| sums.count(of))
    };
    use Command::{Query, Update};
    assert_eq!(ask(Query, "a", 1, NOW), [0, 0, 0]);
    assert_eq!(ask(Update, "a", 1, NOW), [1, 0, 0]);
    assert_eq!(ask(Update, "a", 2, NOW), [1, 0, 0], "it holds more");
    assert_eq!(ask(Update, "b", 2, NOW), [1, 0, 0], "refused");
    assert_eq!(ask(Update, "b", 1, NOW), [2, 0, 0]);
    assert_eq!(ask(Update, "a", 0, NOW), [2, 1, 0]);
    assert_eq!(ask(Update, "a", 0, NOW), [2, 1, 0], "it is gone");
    assert_eq!(ask(Update, "b", 1, NOW + 9999), [2, 1, 0], "renewed");
    let later = NOW + 30_000;
    assert_eq!(ask(Query, "c", 1, later), [2, 1, 0], "a Query ends nothing");
    assert_eq!(ask(Update, "c", 9, later), [2, 1, 0], "nor does a refused Update");
    assert_eq!(ask(Update, "c", 1, later), [3, 1, 1]);
    assert_eq!(ask(Update, "c", 0, later), [3, 2, 1]);
}

#[test]
fn errors_are_told_by_their_own_words() {
    use ItemError::*;
    let all = [
        (UnknownBiz, "unknown-biz"),
        (BadKey, "bad-key"),
        (BadCount, "bad-count"),
        (Store, "store"),
        (Busy, "busy"),
        (Full, "full"),
        (BadRate, "bad-rate"),
        (BadMember, "bad-member"),
        (BadOnce, "bad-once"),
        (BadHold, "bad-hold"),
        (FullHolds, "full-holds"),
        (Forbidden, "forbidden"),
    ];
    assert_eq!(ItemError::ALL, all.map(|(error, _)| error));
    for (nth, (error, word)) in all.into_iter().enumerate() {
        assert_eq!(error as usize, nth);
        assert_eq!((error.word(), &*error.to_string()), (word, word));
    }
}

fn map(bizs: &[(u32, &str)]) -> String {
    let biz = |(id, name): &(u32, &str)| {
        format!(
            "<biz id='{id}' name='{name}' key='string'>\
             <limit policy='interval' interval='1h' max='1000'/></biz>"
        )
    };
    let bizs: String = bizs.iter().map(biz).collect();
    format!("<map><group name='g' files='1' key-nodes='8' chain='8' node-size='64'/>{bizs}</map>")
}

// Shows: counters-exact.
#[test]
fn a_business_keeps_its_row_through_reloads_and_owners() {
    let world = World::new(&map(&[(5, "a"), (3, "b")]));
    let mut service = world.attach();
    let updates = |id| items(&world, BizKey::Id(id))[1][0];
    let charge = |service: &mut Service, names: &[&str]| {
        names.iter().for_each(|name| {
            service.update(name, "k", NOW);
        });
    };
    charge(&mut service, &["a", "b", "b"]);
    assert_eq!((updates(5), updates(3)), (1, 2));
    // Another order and one more business, then a renamed one, and then one less.
    world.publish(&map(&[(9, "c"), (3, "renamed"), (5, "a")]), 2);
    charge(&mut service, &["a", "renamed", "c"]);
    assert_eq!((updates(5), updates(3), updates(9)), (2, 3, 1));
    world.publish(&map(&[(9, "a")]), 3);
    charge(&mut service, &["a", "a"]);
    assert_eq!((updates(5), updates(3), updates(9)), (2, 3, 3), "the name went to another");
    // The next owner of the slot continues in the same rows. A process beside it uses rows of its
    // own.
    drop(service);
    world.publish(&map(&[(3, "b"), (4, "d")]), 4);
    let (mut next, mut beside) = (world.attach(), world.attach());
    charge(&mut next, &["b", "d"]);
    charge(&mut beside, &["d"]);
    assert_eq!([5, 3, 9, 4].map(updates), [2, 4, 3, 2]);
    let rows = next.handle().biz_rows(&[5, 3, 9, 4]);
    let mut distinct = rows.clone();
    distinct.dedup();
    assert_eq!(distinct, rows);
    assert_eq!(next.handle().biz_rows(&[3, 4, 5, 9]), [rows[1], rows[3], rows[0], rows[2]]);
}

#[test]
fn businesses_beyond_the_table_are_counted_together() {
    let world = World::new(&map(&[(1, "a")]));
    let service = world.attach();
    let ids: Vec<u32> = (1..=BIZ_ROWS as u32).collect();
    let rows = service.handle().biz_rows(&ids);
    let room = BIZ_ROWS - 2;
    assert!(!rows[..room].contains(&BizRow::OTHERS));
    assert_eq!(rows[room..], [BizRow::OTHERS; 2]);
    let counters = service.handle().counters().unwrap();
    rows.iter().for_each(|&row| counters.count_item(row, true, Outcome::Allowed as usize));
    assert_eq!(items(&world, BizKey::Id(room as u32))[1][0], 1);
    assert_eq!(items(&world, BizKey::Others)[1][0], 2);
    assert_eq!(world.runtime().sums().bizs.len(), room + 1);
    // A business with a row keeps it beside any others.
    assert_eq!(service.handle().biz_rows(&[9999, 7]), [BizRow::OTHERS, rows[6]]);
}

#[test]
fn only_rows_in_use_take_blocks() {
    use std::os::unix::fs::MetadataExt;
    let world = World::new(&map(&[(1, "a")]));
    let path = world.dir.join("runtime.mmap");
    let taken = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let service = world.attach();
    let before = taken();
    world.runtime().sums();
    let ids: Vec<u32> = (1..=1000).collect();
    assert_eq!(taken(), before, "a look takes none");
    service.handle().biz_rows(&ids);
    let most = 1003 * 1024 + 2 * 4096;
    assert!((1_000_000..=most).contains(&(taken() - before)), "{}", taken() - before);
}

#[test]
fn groups_are_counted_each() {
    let world = World::new(
        "<map>
          <group name='one' files='1' key-nodes='1' chain='2' node-size='64'/>
          <group name='two' files='1' key-nodes='8' chain='8' node-size='64'/>
          <biz id='1' name='a' key='string'><limit policy='interval' interval='1m' max='1'/></biz>
          <biz id='2' name='b' key='string' group='two'>
            <limit policy='interval' interval='1m' max='9'/></biz>
        </map>",
    );
    let mut service = world.attach();
    for key in ["x", "y", "z"] {
        service.update("a", key, NOW);
        service.update("b", key, NOW);
    }
    let sums = world.runtime().sums();
    let count = |name: &str, counter| sums.groups[&GroupKey::Name(name.into())].count(counter);
    use GroupCounter::*;
    assert_eq!([Creates, EvictionsLimiting, EvictionsIdle].map(|c| count("one", c)), [3, 1, 0]);
    assert_eq!([Creates, EvictionsLimiting, EvictionsIdle].map(|c| count("two", c)), [3, 0, 0]);
}

#[test]
fn a_sweep_finds_what_is_there_in_portions_of_any_size() {
    let world = World::new(
        "<map>
          <group name='g' files='2' key-nodes='8' chain='56' node-size='64'/>
          <group name='empty' files='1' key-nodes='3' chain='7' node-size='64'/>
          <biz id='1' name='short' key='string'>
            <limit policy='interval' interval='1m' max='9'/></biz>
          <biz id='2' name='long' key='string'>
            <limit policy='interval' interval='1h' max='9'/></biz>
        </map>",
    );
    let mut service = Service::attach(&world.dir, Role::Keeper, None).unwrap();
    for key in 0..40 {
        service.update("short", &format!("s{key}"), NOW);
    }
    for key in 0..60 {
        service.update("long", &format!("l{key}"), NOW);
    }
    let later = NOW + 120_000;
    for most in [1, 7, 100_000] {
        let mut sweep = Sweep::default();
        let mut steps = 0;
        while !service.sweep(&mut sweep, |_| {}, most, later + most as u64) {
            steps += 1;
            assert!(steps < 1000);
        }
        assert_eq!(steps > 3, most < 100, "{most}");
        let sums = world.runtime().sums();
        let nodes = |name: &str| sums.groups[&GroupKey::Name(name.into())].nodes.clone().unwrap();
        let found = nodes("g");
        assert_eq!((found.live, found.expired, found.free), (60, 40, 2 * 8 * 56 - 100));
        assert_eq!(found.chains.iter().sum::<u64>(), 16);
        let weighed = found.chains.iter().zip(0..).map(|(chains, length)| chains * length);
        assert_eq!(weighed.sum::<u64>(), 100);
        assert_eq!(found.swept_ms, later + most as u64);
        let empty = nodes("empty");
        assert_eq!((empty.free, empty.chains[0]), (21, 3));
    }
    world.verify();
}

#[test]
fn a_sweep_passes_over_a_group_that_is_quarantined() {
    let world = World::new(&map(&[(1, "a")]));
    let mut service = world.attach();
    service.update("a", "k", NOW);
    world.quarantine("g");
    assert!(service.sweep(&mut Sweep::default(), |_| {}, 10, NOW));
    assert!(world.runtime().sums().groups.values().all(|group| group.nodes.is_none()));
}

#[test]
fn a_scribbled_node_is_no_reason_to_stop() {
    let world = World::new(&map(&[(1, "a")]));
    let mut service = world.attach();
    service.update("a", "k", NOW);
    let group = world.group("g");
    let report = group.verify();
    assert_eq!(report.nodes, 1);
    for key_node in 0..8 {
        for place in 0..8 {
            let at = group.node(key_node, place) + 3;
            group.file(0).store(at, group.file(0).load(at) ^ 1);
        }
    }
    assert!(!service.sweep(&mut Sweep::default(), |_| {}, 9, NOW + 1_000_000_000));
    let sums = world.runtime().sums();
    let nodes = sums.groups[&GroupKey::Name("g".into())].nodes.as_ref().unwrap();
    assert_eq!((nodes.live, nodes.expired), (1, 0), "what is torn is taken for in use");
}

#[test]
fn what_a_scan_drops_is_counted_by_reason() {
    let world = World::new(&map(&[(1, "a")]));
    let mut service = world.attach();
    for key in 0..20 {
        service.update("a", &format!("k{key}"), NOW);
    }
    drop(service);
    let group = world.group("g");
    let mut taken = (0..8).flat_map(|key_node| (0..8).map(move |place| (key_node, place)));
    let mut next = || {
        let is_taken = |&(key_node, place): &(u32, usize)| {
            group.file(0).load(group.head(key_node) + 1 + place / 8) >> (place % 8 * 8) & 0xff != 0
        };
        taken.find(is_taken).map(|(key_node, place)| group.node(key_node, place)).unwrap()
    };
    // One node is scribbled over. Another one is copied over a node of another key-node.
    let (scribbled, copied) = (next(), next());
    group.file(0).store(scribbled + 3, 1);
    let mut words = vec![0; group.node_words()];
    group.file(0).read(copied, &mut words);
    let elsewhere = loop {
        let at = next();
        if at >= group.node(4, 0) {
            break at;
        }
    };
    group.file(0).write(elsewhere, &words);
    world.quarantine("g");
    assert_eq!(world.prepare().dropped_nodes, 2);
    use GroupCounter::*;
    let runtime = world.runtime();
    let counts = [DroppedCrc, DroppedMisplaced, DroppedDuplicate];
    assert_eq!(counts.map(|counter| runtime.count_of_groups(counter)), [1, 1, 0]);
    assert!(runtime.slots().is_empty(), "who counted it has left");
}

#[test]
fn items_of_a_request_that_meets_a_reload_are_counted_where_they_belong() {
    let world = World::new(&map(&[(1, "a"), (2, "b")]));
    let mut service = world.attach();
    let asks = [Ask("a", "k", 1), Ask("b", "k", 1), Ask("b", "l", 1)];
    for (atomic, generation) in [(false, 2), (true, 4)] {
        let request = request(Command::Update, atomic, &asks);
        let mut answers = Answers::default();
        service.begin_tick();
        // A different order: positions in the table change in the middle of the request.
        world.publish(&map(&[(3, "c"), (2, "b"), (1, "a")]), generation);
        service.run(&request, NOW, &mut answers);
        assert_eq!(service.generation(), generation);
        assert!(answers.items.iter().all(|answer| answer.result.is_ok()));
        world.publish(&map(&[(1, "a"), (2, "b")]), generation + 1);
    }
    let updates = |id| items(&world, BizKey::Id(id))[1][0];
    assert_eq!([1, 2, 3].map(updates), [2, 4, 0]);
}

// Shows: figures-of-the-living.
#[test]
fn a_process_in_the_slot_of_another_one_has_none_of_its_clients() {
    let world = World::new(&map(&[(1, "a")]));
    let service = world.attach();
    let counters = service.handle().counters().expect("its own");
    counters.set_open(3);
    counters.set_parked(2);
    let clients = || {
        let runtime = world.runtime();
        let counts = |slot: u32| runtime.slot_counts(slot);
        let all: Vec<_> = runtime.slots().iter().map(|slot| counts(slot.slot)).collect();
        all.iter().map(|counts| (counts.connections, counts.parked)).collect::<Vec<_>>()
    };
    assert_eq!(clients(), [(3, 2)]);
    drop(service);
    let _service = world.attach();
    assert_eq!(clients(), [(0, 0)]);
}
