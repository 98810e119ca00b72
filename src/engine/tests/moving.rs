//! A group that grows, or is made smaller, while it serves: no count is lost or counted twice.

use frs_store::{Group, Moves, Runtime};

use crate::testing::{World, move_all};
use crate::{Answers, Command, Extras, ItemError, ItemOptions, MovePass, MoveStep, Request};

const NOW: u64 = 1_700_000_000_000;

/// A map with a group of this geometry, and one that never moves.
fn map(geometry: &str) -> String {
    format!(
        r#"<map><group name="g" {geometry} hash="siphash"/>
        <group name="still" files="1" key-nodes="64" chain="8" node-size="64"/>
        <biz id="1" name="window" group="g" key="string">
          <limit policy="interval" interval="1h" max="100" ban="1m"/></biz>
        <biz id="2" name="both" group="g" key="integer">
          <limit policy="total" max="100"/><limit policy="total" scope="biz" max="100000"/></biz>
        <biz id="3" name="ring" group="g" key="string">
          <limit policy="sliding" interval="1h" max="6"/></biz>
        <biz id="4" name="address" group="g" key="ip">
          <limit policy="token" rate="1/m" burst="50"/></biz>
        <biz id="5" name="still" group="still" key="string">
          <limit policy="total" max="100"/></biz>
        <biz id="6" name="once" group="g" key="string" once="2" once-for="1h">
          <limit policy="interval" interval="1h" max="100"/></biz>
        <biz id="7" name="places" group="g" key="string" holds="1" hold-ttl="10m">
          <limit policy="concurrent" max="2"/></biz></map>"#
    )
}

const SMALL: &str = r#"files="2" key-nodes="16" chain="28" node-size="128" key-bytes="24""#;
/// Each changes another setting, the last ones several, and key-bytes up and down.
const OTHERS: [&str; 6] = [
    r#"files="3" key-nodes="32" chain="28" node-size="128" key-bytes="24""#,
    r#"files="1" key-nodes="16" chain="56" node-size="128" key-bytes="24""#,
    r#"files="1" key-nodes="16" chain="56" node-size="192" key-bytes="24""#,
    r#"files="1" key-nodes="33" chain="50" node-size="192" key-bytes="40""#,
    r#"files="4" key-nodes="16" chain="28" node-size="128" key-bytes="16""#,
    r#"files="2" key-nodes="16" chain="40" node-size="128" key-bytes="16""#,
];

/// Pseudo-random numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn key(&mut self, biz: &str) -> String {
        let number = self.below(60);
        match biz {
            "both" => number.to_string(),
            "address" => format!("10.0.0.{number}"),
            // Some keys are texts in a group and digests in the group that it grows to. The reverse
            // does not occur, because the text of a digest is unknown.
            _ => {
                let width = [4, 16, 17, 24, 41, 60][number as usize % 6];
                format!("{number:0width$}")
            }
        }
    }
}

const BIZS: [&str; 7] = ["window", "both", "ring", "address", "still", "once", "places"];

// Shows: growth, retries, holds.
#[test]
fn every_answer_is_that_of_a_group_that_does_not_move() {
    let still = World::new(&map(SMALL));
    let mut world = World::new(&map(SMALL));
    let mut oracle = still.attach();
    let mut services = [world.attach(), world.attach(), world.attach()];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut now, mut generation, mut moved) = (NOW, 1, 0);
    for geometry in OTHERS {
        let map = map(geometry);
        generation += 1;
        world.begin_moves(&map, generation);
        let mut pass = MovePass::default();
        for step in 0..600 {
            now += random.below(3000);
            let command = if random.below(4) == 0 { Command::Query } else { Command::Update };
            let is_atomic = random.below(4) == 0;
            let mut asks = Request::default();
            asks.begin(command);
            asks.atomic = is_atomic;
            for _ in 0..1 + random.below(4) {
                let biz = BIZS[random.below(7) as usize];
                asks.push(biz, &random.key(biz), ItemOptions::of(random.below(3) as i32));
                let id = ["x", "y", "z"][random.below(3) as usize];
                match biz {
                    "once" if !is_atomic => asks.bring(Extras { once: Some(id), ..Extras::NONE }),
                    "places" => asks.bring(Extras { hold: Some(id), ..Extras::NONE }),
                    _ => {}
                }
            }
            let (mut found, mut expected) = (Answers::default(), Answers::default());
            oracle.run(&asks, now, &mut expected);
            // No tick begins, so some services are a generation behind.
            let at = random.below(3) as usize;
            services[at].run(&asks, now, &mut found);
            assert_eq!(found.refused, expected.refused, "{geometry} {step} {asks:?}");
            let results = |answers: &Answers| -> Vec<_> {
                answers.items.iter().map(|answer| answer.result).collect()
            };
            assert_eq!(results(&found), results(&expected), "{geometry} {step} {asks:?}");
            if step > 300 && step % 8 == 0 {
                let mover = &mut services[0];
                mover.begin_tick();
                let stepped = mover.move_nodes("g", &mut pass, 3, now).unwrap();
                assert_ne!(stepped, MoveStep::Unsettled, "idle ones hold nobody up");
            }
        }
        world.verify();
        moved += pass.counts.moved + move_all(&mut services[0], now).counts.moved;
        generation += 1;
        world.end_moves(&map, generation);
        for service in &mut services {
            assert!(service.begin_tick());
            assert!(service.handle().formers().is_empty());
        }
        world.verify();
        let named = world.runtime().named_groups("g");
        assert_eq!((named.len(), named[0].former), (1, None));
        assert_eq!(world.group("g").header().geometry, world.conf.map.groups[0].geometry);
    }
    assert!(moved > 100, "{moved}");
}

// Shows: growth.
#[test]
fn an_update_moves_its_node_and_a_query_moves_nothing() {
    let mut world = World::new(&map(SMALL));
    let mut service = world.attach();
    for _ in 0..3 {
        service.update("window", "a", NOW);
        service.update("both", "7", NOW);
    }
    world.begin_moves(&map(OTHERS[0]), 2);
    let nodes = |world: &World| -> Vec<u64> {
        let runtime = world.runtime();
        let named = runtime.named_groups("g");
        let open = |id| Group::open_id(&world.dir, "g", id, &runtime).unwrap();
        named.iter().map(|known| open(known.id).verify().nodes).collect()
    };
    assert_eq!(service.used("window", "a", NOW), 3);
    assert_eq!(service.used("both", "7", NOW), 3);
    assert_eq!(nodes(&world), [0, 3]);
    assert_eq!(service.update("window", "a", NOW).figures.used, 4);
    assert_eq!(nodes(&world), [1, 2]);
    assert_eq!(service.update("both", "7", NOW).figures.used, 4);
    assert_eq!(nodes(&world), [3, 0], "its own and its biz's");
    let creates = world.runtime().count_of_groups(frs_store::GroupCounter::Creates);
    assert_eq!(creates, 3, "moving creates nothing");
    // A refused Update writes its ban where the node belongs.
    let mut old = world.attach();
    assert_eq!(old.used("window", "a", NOW), 4);
    world.verify();
}

#[test]
fn a_move_that_was_only_prepared_begins_nothing_anew() {
    let world = World::new(&map(SMALL));
    world.attach().update("window", "a", NOW);
    let begin = ["g".to_owned()].into();
    let moves = Moves { begin, ..Moves::default() };
    World::of(&world.dir, &map(OTHERS[0])).prepare_moving(&moves);
    assert_eq!(world.runtime().named_groups("g").len(), 2);
    assert_eq!(world.attach().used("window", "a", NOW), 1);
    // The move was not accepted with losses: the loss is computed again.
    let other = World::of(&world.dir, &map(OTHERS[0]));
    let plans = crate::inspect::plan_moves(&other.conf, NOW, None).unwrap();
    assert_eq!(plans.iter().map(|plan| plan.counts.carried).collect::<Vec<_>>(), [1]);
    // The files with the count cannot be read. The prepared files are empty.
    std::fs::rename(world.dir.join("g.0.mmap"), world.dir.join("away")).unwrap();
    let answer = world.attach().one(Command::Update, "window", "a", 1, NOW);
    assert_eq!(answer, Err(ItemError::Store));
}

// Shows: growth.
#[test]
fn a_request_finds_the_digest_of_a_text_that_fits_now() {
    let mut world = World::new(&map(SMALL));
    let mut service = world.attach();
    let long = "a text of some thirty bytes...";
    service.update("window", long, NOW);
    world.begin_moves(&map(OTHERS[3]), 2);
    assert_eq!(service.used("window", long, NOW), 1);
    let mut reader = crate::inspect::Reader::open(&world.dir, None).unwrap();
    let look = reader.node("window", long, NOW).unwrap();
    let crate::inspect::Look::At(record) = look else { panic!("{look:?}") };
    assert!(record.key.starts_with("digest:"));
    assert_eq!(service.update("window", long, NOW).figures.used, 2);
    let look = reader.node("window", long, NOW).unwrap();
    assert!(matches!(look, crate::inspect::Look::At(record) if record.key == long));
    assert_eq!(move_all(&mut service, NOW).counts.moved, 0);
    world.verify();
}

// Shows: growth.
#[test]
fn a_start_goes_on_where_a_crash_left_it() {
    // After each of these steps all processes are killed and runtime.mmap is lost.
    for kill_after in 0..6 {
        let mut world = World::new(&map(SMALL));
        let mut service = world.attach();
        for key in 0..40 {
            service.update("window", &format!("k{key}"), NOW);
        }
        let to = map(OTHERS[0]);
        if kill_after > 0 {
            world.begin_moves(&to, 2);
        }
        if kill_after > 1 {
            service.begin_tick();
            let step = service.move_nodes("g", &mut MovePass::default(), 50, NOW).unwrap();
            assert_eq!(step, MoveStep::Going);
        }
        if kill_after > 2 {
            move_all(&mut service, NOW);
        }
        if kill_after > 3 {
            // In the middle of the renames: files 2 and 1 have their names, file 0 has not.
            let files = if kill_after == 4 { 2..3 } else { 1..3 };
            for file in files.rev() {
                let next = frs_store::group::next_path_of(&world.dir, "g", file);
                let path = frs_store::group::path_of(&world.dir, "g", file);
                std::fs::rename(next, path).unwrap();
            }
        }
        drop(service);
        std::fs::remove_file(Runtime::path_in(&world.dir)).unwrap();
        Runtime::create_or_open(&world.dir).unwrap();
        let prepared = world.begin_moves(&to, 3);
        assert!(prepared.unserved.is_empty(), "{kill_after}: {prepared:?}");
        assert_eq!(prepared.moving.len(), usize::from(kill_after < 4), "{kill_after}");
        let mut service = world.attach();
        for key in 0..40 {
            assert_eq!(service.used("window", &format!("k{key}"), NOW), 1, "{kill_after} {key}");
        }
        if kill_after < 4 {
            move_all(&mut service, NOW);
            world.end_moves(&to, 4);
            service.begin_tick();
        }
        for key in 0..40 {
            let used = service.update("window", &format!("k{key}"), NOW).figures.used;
            assert_eq!(used, 2, "{kill_after} {key}");
        }
        drop(service);
        world.verify();
        assert_eq!(world.prepare(), frs_store::Prepared::default(), "{kill_after}");
    }
}

// Shows: growth.
#[test]
fn what_finds_no_place_stays_unless_the_move_is_lossy() {
    let from = r#"files="1" key-nodes="16" chain="8" node-size="128" key-bytes="24""#;
    let to = r#"files="1" key-nodes="1" chain="8" node-size="128" key-bytes="24""#;
    let mut world = World::new(&map(from));
    let mut service = world.attach();
    // Totals are never evicted.
    for key in 0..20 {
        service.update("both", &key.to_string(), NOW);
    }
    world.begin_moves(&map(to), 2);
    service.begin_tick();
    let mut pass = MovePass::default();
    let step = service.move_nodes("g", &mut pass, 10_000, NOW).unwrap();
    assert_eq!(step, MoveStep::Over { left: 13, awaiting: 0 }, "20 and their biz's");
    assert_eq!(pass.counts.moved, 8);
    for key in 0..20 {
        assert_eq!(service.used("both", &key.to_string(), NOW), 1);
    }
    let mut overlay = frs_conf::Overlay::default();
    overlay.set_moving([("g".to_owned(), frs_conf::MoveMode::Lossy)].into());
    world.publish_overlaid(&map(to), 3, &overlay);
    service.begin_tick();
    let step = service.move_nodes("g", &mut pass, 10_000, NOW).unwrap();
    assert_eq!((step, pass.counts.dropped), (MoveStep::Over { left: 0, awaiting: 0 }, 13));
    world.verify();
}

#[test]
fn a_group_that_moves_already_loses_nothing_by_what_another_one_may_lose() {
    use frs_conf::MoveMode::{Lossless, Lossy};
    let mut world = World::new(&map(SMALL));
    let prepared = world.begin_moves(&map(OTHERS[0]), 2);
    let begin = ["still".to_owned()].into();
    let moves = Moves { begin, in_force: prepared.moving, lossy: true };
    let both = map(OTHERS[0]).replace(r#"key-nodes="64""#, r#"key-nodes="32""#);
    let prepared = frs_store::prepare(&World::of(&world.dir, &both).conf, &moves).unwrap();
    let expected = [("g".to_owned(), Lossless), ("still".to_owned(), Lossy)];
    assert_eq!(prepared.moving, expected.into());
}

// Shows: growth.
#[test]
fn a_second_change_waits_and_another_hash_is_refused() {
    let mut world = World::new(&map(SMALL));
    let mut service = world.attach();
    service.update("window", "a", NOW);
    world.begin_moves(&map(OTHERS[0]), 2);
    service.begin_tick();
    let refused = |map: &str, moves: &frs_store::Moves| {
        let conf = World::of(&world.dir, map).conf.clone();
        frs_store::prepare(&conf, moves).unwrap_err().to_string()
    };
    let begin = ["g".to_owned()].into();
    let in_force = [("g".to_owned(), frs_conf::MoveMode::Lossless)].into();
    let moves = frs_store::Moves { begin, in_force, lossy: true };
    let second = refused(&map(OTHERS[2]), &moves);
    assert!(second.contains("it is moving to files=\"3\", map.xml says 1"), "{second}");
    let back = refused(&map(SMALL), &moves);
    assert!(back.contains("a second change waits"), "{back}");
    // Back to the beginning, before anything was in force.
    let fresh = World::new(&map(SMALL));
    let bob = map(SMALL).replace("siphash", "bob");
    let conf = World::of(&fresh.dir, &bob).conf.clone();
    let moves = frs_store::Moves { in_force: Default::default(), ..moves };
    let error = frs_store::prepare(&conf, &moves).unwrap_err().to_string();
    assert!(error.contains("hash: the files have siphash, map.xml says bob"), "{error}");
    let conf = World::of(&fresh.dir, &map(OTHERS[0])).conf.clone();
    let prepared = frs_store::prepare(&conf, &moves).unwrap();
    assert!(prepared.moving.contains_key("g"));
    // The move was never published, so another one may follow.
    assert_eq!(fresh.prepare().moving.len(), 0);
    assert!(!frs_store::group::is_next_there(&fresh.dir, "g"));
}

// Shows: dump-in-a-move.
#[test]
fn each_record_is_visited_once_while_its_group_moves() {
    let mut world = World::new(&map(SMALL));
    let mut service = world.attach();
    for key in 0..300 {
        service.update("window", &format!("k{key}"), NOW);
    }
    world.begin_moves(&map(OTHERS[0]), 2);
    service.begin_tick();
    let mut pass = MovePass::default();
    for _ in 0..10 {
        service.move_nodes("g", &mut pass, 5, NOW).expect("it grows");
    }
    let mut reader = crate::inspect::Reader::open(&world.dir, None).expect("open");
    let mut visited = Vec::new();
    let walked = reader.for_each_node(NOW, |record| {
        visited.push(record.key);
        service.move_nodes("g", &mut pass, 2, NOW).expect("it grows");
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!((walked.nodes, walked.changed.len()), (300, 0));
    visited.sort();
    visited.dedup();
    assert_eq!(visited.len(), 300);
}

// Shows: dump-in-a-move.
#[test]
fn a_walk_beside_which_a_move_begins_says_so() {
    let mut world = World::new(&map(SMALL));
    let mut service = world.attach();
    for key in 0..300 {
        service.update("window", &format!("k{key}"), NOW);
    }
    let mut reader = crate::inspect::Reader::open(&world.dir, None).expect("open");
    let mut is_begun = false;
    let walked = reader.for_each_node(NOW, |_| {
        if !std::mem::replace(&mut is_begun, true) {
            world.begin_moves(&map(OTHERS[0]), 2);
            move_all(&mut service, NOW);
        }
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(walked.changed, ["g"]);
    assert!(walked.nodes < 300, "{}: they moved away", walked.nodes);
    reader.refresh().expect("open");
    let walked = reader.for_each_node(NOW, |_| std::ops::ControlFlow::Continue(()));
    assert_eq!((walked.nodes, walked.changed.len()), (300, 0));
}
