//! Crash test: it counts the stores to shared memory of an Update, then kills a real process at
//! each of them in turn. Invariant: after recovery there is exactly the old or exactly the new
//! state, every semaphore is free, and the files verify.

use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use frs_base::testing::told;
use frs_store::crash;
use frs_store::group::{next_path_of, path_of};

use crate::testing::{Ask, World};
use crate::{Command, ItemOptions, MovePass, MoveStep, Request, Role, Service};

const NOW: u64 = 1_700_000_000_000;

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="4" chain="4" node-size="128"/>
  <group name="tiny" files="1" key-nodes="1" chain="2" node-size="64"/>
  <group name="large" files="1" key-nodes="4" chain="4" node-size="256"/>
  <group name="sketch" files="1" key-nodes="4" chain="4" node-size="320"/>
  <group name="wide" files="2" key-nodes="64" chain="8" node-size="64"/>
  <biz id="1" name="hit" group="g" key="string"><limit policy="interval" interval="1m" max="100"/></biz>
  <biz id="2" name="evict" group="tiny" key="string"><limit policy="interval" interval="1m" max="100"/></biz>
  <biz id="3" name="both" group="g" key="integer">
    <limit policy="total" scope="biz" max="100"/><limit policy="interval" interval="1m" max="100"/>
  </biz>
  <biz id="4" name="many" group="wide" key="integer">
    <limit policy="interval" interval="1m" max="100"/>
  </biz>
  <biz id="5" name="ban" group="g" key="string"><limit policy="interval" interval="1m" max="1" ban="1h"/></biz>
  <biz id="6" name="every" group="large" key="string">
    <limit policy="sliding" interval="1m" max="20"/><limit policy="sliding" interval="1s" max="20"/>
    <limit policy="sliding-counter" interval="1m" max="20"/><limit policy="token" rate="1/m" burst="20"/>
    <limit policy="calendar" unit="year" max="20"/><limit policy="count"/>
    <limit policy="sliding" scope="biz" interval="1m" max="20"/>
  </biz>
  <biz id="7" name="members" group="sketch" key="string">
    <limit policy="distinct" precision="8" unit="day"/>
    <limit policy="distinct" precision="exact" max="3"/>
  </biz>
</map>"#;

/// The request of the killed process, and the uses before it.
struct Case {
    name: &'static str,
    before: &'static [Ask<'static>],
    /// Its groups have begun to move to another geometry.
    moves: bool,
    atomic: bool,
    /// The request. Empty: the process moves the nodes of group `g`, as the keeper does.
    asks: &'static [Ask<'static>],
}

/// The map with another geometry of the groups `g` and `wide`.
fn moved_map() -> String {
    MAP.replace(
        r#"name="g" files="1" key-nodes="4" chain="4" node-size="128""#,
        r#"name="g" files="2" key-nodes="3" chain="5" node-size="192" key-bytes="40""#,
    )
    .replace(r#"files="2" key-nodes="64""#, r#"files="1" key-nodes="32""#)
}

const CASES: &[Case] = &[
    Case {
        name: "single",
        before: &[Ask("hit", "a", 3)],
        moves: false,
        atomic: false,
        asks: &[Ask("hit", "a", 1)],
    },
    Case {
        name: "creating",
        before: &[],
        moves: false,
        atomic: false,
        asks: &[Ask("hit", "b", 1)],
    },
    Case {
        name: "evicting",
        before: &[Ask("evict", "a", 1), Ask("evict", "b", 1)],
        moves: false,
        atomic: false,
        asks: &[Ask("evict", "c", 1)],
    },
    Case {
        name: "two-nodes",
        before: &[Ask("both", "7", 2)],
        moves: false,
        atomic: false,
        asks: &[Ask("both", "8", 1)],
    },
    Case {
        name: "banning",
        before: &[Ask("ban", "eve", 1)],
        moves: false,
        atomic: false,
        asks: &[Ask("ban", "eve", 1)],
    },
    Case {
        name: "every-policy",
        before: &[Ask("every", "a", 3)],
        moves: false,
        atomic: false,
        asks: &[Ask("every", "a", 2)],
    },
    Case {
        name: "noting",
        before: &[Ask("members", "a", 1)],
        moves: false,
        atomic: false,
        asks: &[Ask("members", "a", 1)],
    },
    // Keys 1 and 129 share a key-node (files 2, key-nodes 64). Key 5 appears twice.
    Case {
        name: "atomic",
        before: &[Ask("many", "1", 3), Ask("many", "5", 1)],
        moves: false,
        atomic: true,
        asks: &[
            Ask("many", "1", 1),
            Ask("many", "129", 1),
            Ask("many", "5", 1),
            Ask("many", "5", 2),
            Ask("many", "6", 1),
            Ask("many", "7", 1),
            Ask("hit", "x", 1),
            Ask("both", "3", 1),
        ],
    },
    Case {
        name: "moving-one",
        before: &[Ask("hit", "a", 3)],
        moves: true,
        atomic: false,
        asks: &[Ask("hit", "a", 1)],
    },
    Case {
        name: "moving-two",
        before: &[Ask("both", "7", 2)],
        moves: true,
        atomic: false,
        asks: &[Ask("both", "7", 1)],
    },
    Case {
        name: "moving-banned",
        before: &[Ask("ban", "eve", 1)],
        moves: true,
        atomic: false,
        asks: &[Ask("ban", "eve", 1)],
    },
    Case {
        name: "moving-atomic",
        before: &[Ask("many", "1", 3), Ask("many", "5", 1), Ask("both", "3", 1)],
        moves: true,
        atomic: true,
        asks: &[Ask("many", "1", 1), Ask("many", "5", 1), Ask("many", "6", 1), Ask("both", "3", 1)],
    },
    Case {
        name: "moving-by-keeper",
        before: &[Ask("hit", "a", 3)],
        moves: true,
        atomic: false,
        asks: &[],
    },
];

/// Everything observable: the used counts of all limits of all keys of all cases, and bans.
fn observe(world: &World) -> Vec<(String, Vec<u64>, bool)> {
    let mut service = world.attach();
    let all = CASES.iter().flat_map(|case| case.before.iter().chain(case.asks));
    let former = ("not moved yet".to_owned(), vec![world.former_nodes()], false);
    let counts = all.map(|Ask(biz, key, _)| {
        let verdict = service.one(Command::Query, biz, key, 1, NOW + 1).unwrap();
        let mut detailed = Request::default();
        detailed.begin(Command::Query);
        detailed.push(biz, key, ItemOptions::ONE.detailed());
        let details = service.answers(&detailed, NOW + 1).details;
        let used = details.limits.iter().map(|limit| limit.figures.used).collect();
        (format!("{biz}/{key}"), used, verdict.banned)
    });
    counts.chain([former]).collect()
}

/// An Update. Limits that note members note `member`.
fn asked(atomic: bool, asks: &[Ask<'_>], member: &str) -> Request {
    let mut request = Request::default();
    request.begin(Command::Update);
    request.atomic = atomic;
    for Ask(biz, key, count) in asks {
        request.push(biz, key, ItemOptions::of(*count));
        request.bring_member(member);
    }
    request
}

fn set_up(case: &Case) -> World {
    // With a long lock-timeout no item is busy, even on a slow machine: a waiter detects the death
    // of a holder first.
    let mut world = World::with_lock_timeout(MAP, "10s");
    let mut service = world.attach();
    for (index, Ask(biz, key, count)) in case.before.iter().enumerate() {
        let before = asked(false, &[Ask(biz, key, *count)], "before");
        service.answers(&before, NOW - 10 + index as u64).items[0].result.unwrap();
    }
    drop(service);
    if case.moves {
        world.begin_moves(&moved_map(), 2);
    }
    world
}

fn run_case(case: &Case, world: &World, kill_at: u64) -> u64 {
    let mut service = world.attach();
    let request = asked(case.atomic, case.asks, "now");
    let mut answers = Default::default();
    service.begin_tick();
    if case.asks.is_empty() {
        crash::arm(kill_at);
        let step = service.move_nodes("g", &mut MovePass::default(), 1000, NOW);
        let stores = crash::disarm();
        assert_eq!(step, Ok(MoveStep::Over { left: 0, awaiting: 0 }));
        return stores;
    }
    crash::arm(kill_at);
    service.run(&request, NOW, &mut answers);
    let stores = crash::disarm();
    assert!(answers.items.iter().all(|item| item.result.is_ok()), "{answers:?}");
    stores
}

/// Not a test: the process that is killed.
#[test]
#[ignore = "a program that death_at_every_store starts"]
fn victim() {
    let [name, dir, kill_at] = ["FRS_CRASH_CASE", "FRS_CRASH_DIR", "FRS_CRASH_AT"].map(told);
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    let world = World::of(Path::new(&dir), MAP);
    let stores = run_case(case, &world, kill_at.parse().unwrap());
    std::fs::write(Path::new(&dir).join("stores"), stores.to_string()).unwrap();
}

fn spawn_victim(case: &Case, world: &World, kill_at: u64) -> std::process::ExitStatus {
    Process::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "tests::crash::victim"])
        .env("FRS_CRASH_CASE", case.name)
        .env("FRS_CRASH_DIR", &world.dir)
        .env("FRS_CRASH_AT", kill_at.to_string())
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap()
}

/// The group files of a world at one moment. They are written back in place, so the inodes stay.
struct Snapshot(Vec<(PathBuf, Vec<u8>)>);

impl Snapshot {
    fn of(world: &World) -> Snapshot {
        let groups = world.conf.map.groups.iter();
        let paths = groups.flat_map(|group| {
            let named = (0..8).map(|file| path_of(&world.dir, &group.name, file));
            let next = (0..8).map(|file| next_path_of(&world.dir, &group.name, file));
            named.chain(next)
        });
        let paths = paths.filter(|path| path.exists());
        Snapshot(paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect())
    }

    fn restore(&self) {
        for (path, bytes) in &self.0 {
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(bytes, 0).unwrap();
        }
    }
}

// Shows: deaths-lose-nothing, distinct-members, growth.
#[test]
fn death_at_every_store() {
    for case in CASES {
        let world = set_up(case);
        let before = Snapshot::of(&world);
        let old = observe(&world);
        assert!(spawn_victim(case, &world, 0).success());
        let stores: u64 =
            std::fs::read_to_string(world.dir.join("stores")).unwrap().parse().unwrap();
        let new = observe(&world);
        assert_ne!(old, new, "{}: nothing changed", case.name);
        assert!(stores >= 8, "{}: {stores} stores", case.name);
        let mut committed = 0;
        for kill_at in 1..=stores {
            before.restore();
            let status = spawn_victim(case, &world, kill_at);
            assert_eq!(status.signal(), Some(9), "{} at {kill_at}", case.name);
            recover(&world, kill_at);
            let found = observe(&world);
            assert!(found == old || found == new, "{} at {kill_at}: {found:?}", case.name);
            // Once the state is new, it stays new.
            assert!(committed == 0 || found == new, "{} at {kill_at}", case.name);
            committed += u64::from(found == new);
            world.verify();
        }
        assert!(committed > 0, "{}: no death after the commit point", case.name);
        assert!(!case.moves || new.last().expect("not moved").1 < old.last().expect("not moved").1);
        assert!(committed < stores, "{}: no death before the commit point", case.name);
    }
}

/// Recovery at a start, by the keeper, or by a waiter for the semaphore, in turns.
fn recover(world: &World, kill_at: u64) {
    match kill_at % 3 {
        0 => assert_eq!(world.prepare().recovered_slots, 1),
        1 => {
            let mut keeper = attach_beside(world);
            assert_eq!(keeper.recover_dead(), 1);
        }
        _ => {
            observe(world);
            // The process died before it took a semaphore, so no other process waited.
            attach_beside(world).recover_dead();
        }
    }
}

/// Attaches without taking the dead process's slot, which would recover it. A program would take
/// that slot, because its blocks are already allocated.
fn attach_beside(world: &World) -> Service {
    let service = Service::attach(&world.dir, Role::Keeper, None).unwrap();
    assert!(world.runtime().slots().len() <= 2, "the dead and this one");
    service
}
