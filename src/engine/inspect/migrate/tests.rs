//! Migrations of real data directories: to larger and smaller geometries, and interrupted at every
//! step.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use frs_conf::Conf;
use frs_store::{self as store, Runtime};

use crate::Command;
use crate::inspect::{Counts, Error, Migration, Reader, Step};
use crate::testing::World;

const T: u64 = 1_800_000_000_000;

/// A map of one group with these attributes.
fn map(group: &str) -> String {
    format!(
        r#"<map>
  <group name="g" {group}/>
  <group name="other" files="1" key-nodes="2" node-size="64"/>
  <biz id="1" name="login" key="string">
    <limit policy="interval" interval="1h" max="100" ban="10m"/>
    <limit policy="sliding" interval="1h" max="6"/>
  </biz>
  <biz id="2" name="number" key="integer"><limit policy="total" max="9"/></biz>
  <biz id="3" name="address" key="ip"><limit policy="token" rate="1/d" burst="9"/></biz>
  <biz id="4" name="whole" key="digest">
    <limit policy="count" scope="biz"/>
    <limit policy="count"/>
  </biz>
</map>"#
    )
}

const SMALL: &str = r#"files="2" key-nodes="4" chain="30" node-size="128""#;

/// Every key with the `used` of its first limit.
type Uses = BTreeMap<(&'static str, String), u64>;

fn uses() -> Uses {
    let mut uses = Uses::new();
    for n in 0..10 {
        uses.insert(("login", format!("user-{n}")), 1 + n % 5);
        uses.insert(("number", format!("{}", n * 977)), 1 + n % 9);
        uses.insert(("address", format!("10.0.{n}.1")), 1 + n % 9);
        uses.insert(("whole", format!("secret {n}")), 1 + n);
    }
    uses.insert(("login", "a user whose name is quite long".to_owned()), 3);
    uses.insert(("address", "2001:db8::".to_owned()), 3);
    uses
}

fn world() -> World {
    let world = World::new(&map(SMALL));
    let mut service = world.attach();
    for ((biz, key), count) in uses() {
        service.one(Command::Update, biz, &key, count as i32, T).unwrap();
    }
    service.one(Command::Update, "login", "long gone", 1, T - 10_000_000).unwrap();
    drop(service);
    world
}

fn conf(world: &World, group: &str) -> Conf {
    World::of(&world.dir, &map(group)).conf.clone()
}

fn migrate(
    conf: &Conf,
    progress: &mut dyn FnMut(Step<'_>) -> bool,
) -> Result<(Vec<Counts>, Vec<String>), Error> {
    let migration = Migration::begin(conf, T, None, progress)?;
    let plans = migration.plan(progress)?;
    let counts = migration.run(&plans, progress)?;
    let planned: Vec<Counts> = plans.iter().map(|plan| plan.counts).collect();
    assert_eq!(counts, planned, "what was said beforehand is what happened");
    Ok((counts, migration.completed))
}

/// Starts as a server does on the configuration, and expects every use.
fn expect_uses(world: &World, group: &str) {
    Runtime::create_or_open(&world.dir).unwrap();
    let world = World::of(&world.dir, &map(group));
    world.prepare();
    world.publish(&map(group), 9);
    world.verify();
    let mut service = world.attach();
    for ((biz, key), count) in uses() {
        let limit = if biz == "whole" { 2 } else { 1 };
        assert_eq!(used(&world, biz, &key, limit), count, "{biz} {key}");
        service.one(Command::Query, biz, &key, 1, T).unwrap();
    }
    let whole = (0..10).map(|n| 1 + n).sum::<u64>();
    let mut reader = Reader::open(&world.dir, None).unwrap();
    let crate::inspect::Look::At(node) = reader.whole("whole", T).unwrap() else {
        panic!("not there")
    };
    assert_eq!(node.used(), whole);
}

fn used(world: &World, biz: &str, key: &str, limit: u16) -> u64 {
    let mut reader = Reader::open(&world.dir, None).unwrap();
    match reader.node(biz, key, T).unwrap() {
        crate::inspect::Look::At(node) => {
            node.limits.iter().find(|one| one.index == limit).unwrap().figures.used
        }
        other => panic!("{biz} {key}: {other:?}"),
    }
}

// Shows: migration.
#[test]
fn no_live_node_is_lost_whatever_changes() {
    for group in [
        r#"files="3" key-nodes="16" chain="30" node-size="128""#,
        r#"files="1" key-nodes="2" chain="50" node-size="128""#,
        r#"files="2" key-nodes="4" chain="30" node-size="192""#,
        r#"files="2" key-nodes="4" chain="30" node-size="128" key-bytes="16""#,
        r#"files="2" key-nodes="4" chain="30" node-size="128" hash="bob""#,
    ] {
        let world = world();
        let (counts, completed) = migrate(&conf(&world, group), &mut |_| true).unwrap();
        let all = uses().len() as u64 + 1;
        assert_eq!(counts, [Counts { carried: all, expired: 1, ..Counts::default() }], "{group}");
        assert_eq!(completed, [""; 0]);
        expect_uses(&world, group);
        let again = migrate(&conf(&world, group), &mut |_| true).unwrap();
        assert_eq!(again.0, [], "nothing is left to do");
    }
}

#[test]
fn files_that_are_no_more_are_removed() {
    let world = world();
    let one = r#"files="1" key-nodes="8" chain="30" node-size="128""#;
    migrate(&conf(&world, one), &mut |_| true).unwrap();
    let mut names: Vec<String> = std::fs::read_dir(&world.dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("g."))
        .collect();
    names.sort();
    assert_eq!(names, ["g.0.mmap"]);
}

#[test]
fn a_removal_that_was_broken_off_is_gone_on_with() {
    let world = world();
    let one = r#"files="1" key-nodes="8" chain="30" node-size="128""#;
    migrate(&conf(&world, one), &mut |_| true).unwrap();
    // The leftovers of a group of four whose second file is already removed.
    for file in [2, 3] {
        std::fs::write(world.dir.join(format!("g.{file}.mmap")), "old").unwrap();
    }
    std::fs::write(world.dir.join("g.x.mmap"), "somebody's").unwrap();
    migrate(&conf(&world, one), &mut |_| true).unwrap();
    let is_there = |name: &str| world.dir.join(name).exists();
    assert!(!is_there("g.2.mmap") && !is_there("g.3.mmap"));
    assert!(is_there("g.0.mmap") && is_there("g.x.mmap") && is_there("other.0.mmap"));
}

// Shows: migration.
#[test]
fn broken_off_at_any_step_nothing_is_lost() {
    for group in [
        r#"files="3" key-nodes="5" chain="30" node-size="128""#,
        r#"files="1" key-nodes="6" chain="30" node-size="128""#,
    ] {
        let mut steps = 0;
        migrate(&conf(&world(), group), &mut |_| {
            steps += 1;
            true
        })
        .unwrap();
        // Steps on key-nodes are all alike. The last steps are on files.
        for broken_at in (0..steps).filter(|at| at % 6 == 0 || *at > 16) {
            let world = world();
            let mut left = broken_at;
            let result = migrate(&conf(&world, group), &mut |_| {
                left -= 1;
                left >= 0
            });
            assert!(matches!(result, Err(Error::BrokenOff)), "{broken_at}: {result:?}");
            // A server of the old map serves the old files, or reports what to do.
            let old = World::of(&world.dir, &map(SMALL));
            match store::prepare(&old.conf, &store::Moves::default()) {
                Ok(_) => expect_uses(&world, SMALL),
                // All files have their names: only obsolete ones are left.
                Err(store::Error::Geometry { .. }) => {}
                Err(error) => {
                    assert!(
                        matches!(error, store::Error::Unfinished { .. }),
                        "{broken_at}: {error}"
                    );
                    assert!(error.to_string().contains("frs-inspect migrate"));
                }
            }
            migrate(&conf(&world, group), &mut |_| true)
                .unwrap_or_else(|error| panic!("{broken_at}: {error}"));
            expect_uses(&world, group);
        }
    }
}

#[test]
fn what_cannot_fit_is_said_beforehand_and_the_least_is_left_out() {
    let world = world();
    let group = r#"files="1" key-nodes="1" chain="20" node-size="128""#;
    let conf = conf(&world, group);
    let migration = Migration::begin(&conf, T, None, &mut |_| true).unwrap();
    let plans = migration.plan(&mut |_| true).unwrap();
    let all = uses().len() as u64 + 1;
    assert_eq!((plans[0].counts.carried, plans[0].counts.crowded), (20, all - 20));
    assert!(!plans[0].counts.is_lossless());
    migration.run(&plans, &mut |_| true).unwrap();
    drop(migration);
    let mut reader = Reader::open(&world.dir, None).unwrap();
    let mut kept = 0;
    let walked = reader.for_each_node(T, |node| {
        kept += u64::from(node.biz_id == 2 || node.key == "*");
        ControlFlow::Continue(())
    });
    assert_eq!((walked.nodes, kept), (20, 11), "totals in use and whole businesses stay");
}

#[test]
fn digests_of_texts_that_may_fit_now_are_in_doubt() {
    let world = world();
    let group = r#"files="2" key-nodes="4" chain="30" node-size="128" key-bytes="32""#;
    let conf = conf(&world, group);
    let migration = Migration::begin(&conf, T, None, &mut |_| true).unwrap();
    let plans = migration.plan(&mut |_| true).unwrap();
    assert_eq!((plans[0].counts.doubtful, plans[0].counts.crowded), (1, 0));
}

#[test]
fn nobody_may_be_attached() {
    let world = world();
    let _service = world.attach();
    let conf = conf(&world, r#"files="1" key-nodes="6" chain="30" node-size="128""#);
    let result = Migration::begin(&conf, T, None, &mut |_| true);
    assert!(matches!(result, Err(Error::Store(store::Error::Attached { .. }))), "{result:?}");
}

#[test]
fn a_damaged_node_is_left_behind_and_counted() {
    let world = world();
    let at = {
        let mut reader = Reader::open(&world.dir, None).unwrap();
        let crate::inspect::Look::At(node) = reader.node("login", "user-1", T).unwrap() else {
            panic!()
        };
        node.place
    };
    let group = world.group("g");
    let word = group.node(at.key_node, at.place) + 7;
    group.file(at.file).store(word, group.file(at.file).load(word) ^ 1);
    drop(group);
    let group = r#"files="3" key-nodes="5" chain="30" node-size="128""#;
    let (counts, _) = migrate(&conf(&world, group), &mut |_| true).unwrap();
    let all = uses().len() as u64 + 1;
    assert_eq!(counts, [Counts { carried: all - 1, expired: 1, damaged: 1, ..Counts::default() }]);
}

#[test]
fn any_key_may_be_kept_after_a_migration_of_a_group_with_kept_records() {
    for has_kept in [false, true] {
        let world = world();
        if has_kept {
            let group = world.group("g");
            group.filter(0, 0).add(1);
        }
        let one = r#"files="1" key-nodes="8" chain="30" node-size="128""#;
        migrate(&conf(&world, one), &mut |_| true).unwrap();
        Runtime::create_or_open(&world.dir).unwrap();
        let world = World::of(&world.dir, &map(one));
        world.prepare();
        assert_eq!(world.group("g").has_kept(), has_kept);
    }
}
