//! Crash test: it counts the stores to shared memory of an Update, then kills a real process at
//! each of them in turn. Invariant: after recovery there is exactly the old or exactly the new
//! state, every semaphore is free, and the files verify.

mod calls;
mod registers;

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use frs_base::testing::told;
use frs_store::crash;
use frs_store::group::{next_path_of, path_of};

use crate::inspect::{Look, Reader};
use crate::testing::World;
use crate::{Command, Extras, ItemOptions, MovePass, MoveStep, Request, Role, Service};
use calls::CALLS;
use registers::REGISTERS;

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

/// An item of a case.
#[derive(Clone, Copy)]
struct Sent {
    biz: &'static str,
    key: &'static str,
    count: i32,
    brings: Extras<&'static str>,
}

const fn ask(biz: &'static str, key: &'static str, count: i32) -> Sent {
    Sent { biz, key, count, brings: Extras::NONE }
}

/// The request of the killed process, and the uses before it.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    before: &'static [Sent],
    /// Its groups have begun to move to another geometry.
    moves: bool,
    atomic: bool,
    /// The id of an atomic request.
    once: Option<&'static str>,
    /// The request. Empty: the process moves the nodes of group `g`, as the keeper does.
    asks: &'static [Sent],
}

impl Case {
    const fn new(name: &'static str, before: &'static [Sent], asks: &'static [Sent]) -> Case {
        Case { name, before, moves: false, atomic: false, once: None, asks }
    }

    const fn atomic(self) -> Case {
        Case { atomic: true, ..self }
    }

    const fn moving(self) -> Case {
        Case { moves: true, ..self }
    }
}

/// Cases over one map.
struct Cases {
    map: &'static str,
    /// The map with other geometries.
    moved_map: fn() -> String,
    all: &'static [Case],
    /// A request that is sent again changes nothing.
    repeats: bool,
}

/// The map with another geometry of the groups `g` and `wide`.
fn moved_map() -> String {
    MAP.replace(
        r#"name="g" files="1" key-nodes="4" chain="4" node-size="128""#,
        r#"name="g" files="2" key-nodes="3" chain="5" node-size="192" key-bytes="40""#,
    )
    .replace(r#"files="2" key-nodes="64""#, r#"files="1" key-nodes="32""#)
}

const PLAIN: Cases = Cases {
    map: MAP,
    moved_map,
    repeats: false,
    all: &[
        Case::new("single", &[ask("hit", "a", 3)], &[ask("hit", "a", 1)]),
        Case::new("creating", &[], &[ask("hit", "b", 1)]),
        Case::new(
            "evicting",
            &[ask("evict", "a", 1), ask("evict", "b", 1)],
            &[ask("evict", "c", 1)],
        ),
        Case::new("two-nodes", &[ask("both", "7", 2)], &[ask("both", "8", 1)]),
        Case::new("banning", &[ask("ban", "eve", 1)], &[ask("ban", "eve", 1)]),
        Case::new("every-policy", &[ask("every", "a", 3)], &[ask("every", "a", 2)]),
        Case::new("noting", &[ask("members", "a", 1)], &[ask("members", "a", 1)]),
        // Keys 1 and 129 share a key-node (files 2, key-nodes 64). Key 5 appears twice.
        Case::new(
            "atomic",
            &[ask("many", "1", 3), ask("many", "5", 1)],
            &[
                ask("many", "1", 1),
                ask("many", "129", 1),
                ask("many", "5", 1),
                ask("many", "5", 2),
                ask("many", "6", 1),
                ask("many", "7", 1),
                ask("hit", "x", 1),
                ask("both", "3", 1),
            ],
        )
        .atomic(),
        Case::new("moving-one", &[ask("hit", "a", 3)], &[ask("hit", "a", 1)]).moving(),
        Case::new("moving-two", &[ask("both", "7", 2)], &[ask("both", "7", 1)]).moving(),
        Case::new("moving-banned", &[ask("ban", "eve", 1)], &[ask("ban", "eve", 1)]).moving(),
        Case::new(
            "moving-atomic",
            &[ask("many", "1", 3), ask("many", "5", 1), ask("both", "3", 1)],
            &[ask("many", "1", 1), ask("many", "5", 1), ask("many", "6", 1), ask("both", "3", 1)],
        )
        .atomic()
        .moving(),
        Case::new("moving-by-keeper", &[ask("hit", "a", 3)], &[]).moving(),
    ],
};

/// What is observable of a key.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    name: String,
    used: Vec<u64>,
    banned: bool,
    held: Option<u64>,
    /// The words of its states, with its ids and holds.
    states: Vec<u64>,
}

/// Everything observable: all keys of all cases, and the nodes that have not moved.
fn observe(cases: &Cases, world: &World) -> (Vec<Seen>, u64) {
    let mut service = world.attach();
    let all = cases.all.iter().flat_map(|case| case.before.iter().chain(case.asks));
    let keys: BTreeSet<_> = all.map(|sent| (sent.biz, sent.key)).collect();
    let mut seen: Vec<Seen> = keys
        .into_iter()
        .map(|(biz, key)| {
            if registers::has_registers(world, biz) {
                return registers::seen(&mut service, biz, key);
            }
            let mut query = Request::default();
            query.begin(Command::Query);
            query.push(biz, key, ItemOptions::ONE.detailed());
            let answers = service.answers(&query, NOW + 1);
            let verdict = answers.items[0].result.unwrap();
            let used = answers.details.limits.iter().map(|limit| limit.figures.used).collect();
            let (banned, held) = (verdict.banned, verdict.held());
            Seen { name: format!("{biz}/{key}"), used, banned, held, states: Vec::new() }
        })
        .collect();
    let mut reader = Reader::open(&world.dir, None).unwrap();
    for seen in &mut seen {
        let (biz, key) = seen.name.split_once('/').unwrap();
        if let Ok(Look::At(record)) = reader.node(biz, key, NOW + 1) {
            seen.states = record.words[record.states_at..].to_vec();
        }
    }
    (seen, world.former_nodes())
}

/// An Update. Limits that note members note `member`.
fn asked(case: &Case, asks: &[Sent], member: &'static str) -> Request {
    let mut request = Request::default();
    request.begin(Command::Update);
    request.atomic = case.atomic;
    for &Sent { biz, key, count, brings } in asks {
        request.push(biz, key, ItemOptions::of(count));
        request.bring(Extras { member: Some(member), ..brings });
    }
    if let Some(id) = case.once {
        request.set_once(id);
    }
    request
}

fn set_up(cases: &Cases, case: &Case) -> World {
    // With a long lock-timeout no item is busy, even on a slow machine: a waiter detects the death
    // of a holder first.
    let mut world = World::with_lock_timeout(cases.map, "10s");
    let mut service = world.attach();
    let alone = Case { atomic: false, once: None, ..*case };
    for (index, &sent) in case.before.iter().enumerate() {
        if registers::has_registers(&world, sent.biz) {
            registers::change(&mut service, &[sent], NOW - 10 + index as u64);
            continue;
        }
        let before = asked(&alone, &[sent], "before");
        service.answers(&before, NOW - 10 + index as u64).items[0].result.unwrap();
    }
    drop(service);
    if case.moves {
        world.begin_moves(&(cases.moved_map)(), 2);
    }
    world
}

fn run_case(case: &Case, world: &World, kill_at: u64) -> u64 {
    let mut service = world.attach();
    let request = asked(case, case.asks, "now");
    let mut answers = Default::default();
    service.begin_tick();
    if case.asks.is_empty() {
        crash::arm(kill_at);
        let step = service.move_nodes("g", &mut MovePass::default(), 1000, NOW);
        let stores = crash::disarm();
        assert_eq!(step, Ok(MoveStep::Over { left: 0, awaiting: 0 }));
        return stores;
    }
    if registers::has_registers(world, case.asks[0].biz) {
        crash::arm(kill_at);
        registers::change(&mut service, case.asks, NOW);
        return crash::disarm();
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
    let in_cases = |cases: &Cases| {
        let case = cases.all.iter().find(|case| case.name == name)?;
        Some((*case, World::of(Path::new(&dir), cases.map)))
    };
    let (case, world) = [PLAIN, CALLS, REGISTERS].iter().find_map(in_cases).unwrap();
    let stores = run_case(&case, &world, kill_at.parse().unwrap());
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
    kill_at_every_store(&PLAIN);
}

fn kill_at_every_store(cases: &Cases) {
    for case in cases.all {
        let world = set_up(cases, case);
        let before = Snapshot::of(&world);
        let old = observe(cases, &world);
        assert!(spawn_victim(case, &world, 0).success());
        let stores: u64 =
            std::fs::read_to_string(world.dir.join("stores")).unwrap().parse().unwrap();
        let new = observe(cases, &world);
        assert_ne!(old, new, "{}: nothing changed", case.name);
        assert!(stores >= 8, "{}: {stores} stores", case.name);
        if cases.repeats {
            run_case(case, &world, 0);
            assert_eq!(observe(cases, &world), new, "{}: a repeat charges", case.name);
        }
        let mut committed = 0;
        for kill_at in 1..=stores {
            before.restore();
            let status = spawn_victim(case, &world, kill_at);
            assert_eq!(status.signal(), Some(9), "{} at {kill_at}", case.name);
            recover(cases, &world, kill_at);
            let found = observe(cases, &world);
            assert!(found == old || found == new, "{} at {kill_at}: {found:?}", case.name);
            // Once the state is new, it stays new.
            assert!(committed == 0 || found == new, "{} at {kill_at}", case.name);
            committed += u64::from(found == new);
            world.verify();
            if cases.repeats {
                run_case(case, &world, 0);
                assert_eq!(observe(cases, &world), new, "{} again after {kill_at}", case.name);
            }
        }
        assert!(committed > 0, "{}: no death after the commit point", case.name);
        assert!(!case.moves || new.1 < old.1);
        assert!(committed < stores, "{}: no death before the commit point", case.name);
    }
}

/// Recovery at a start, by the keeper, or by a waiter for the semaphore, in turns.
fn recover(cases: &Cases, world: &World, kill_at: u64) {
    match kill_at % 3 {
        0 => assert_eq!(world.prepare().recovered_slots, 1),
        1 => {
            let mut keeper = attach_beside(world);
            assert_eq!(keeper.recover_dead(), 1);
        }
        _ => {
            observe(cases, world);
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
