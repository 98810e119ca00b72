//! Changes under a live handle: businesses that move, groups that are added and removed, files that
//! are cut or swapped, another boot.

use std::os::unix::fs::FileExt;

use frs_store::{Closed, Runtime, Unserved};

use crate::testing::{Ask, World, request};
use crate::{Command, ItemError, Role, Service};

const NOW: u64 = 1_700_000_000_000;

const TWO_GROUPS: &str = r#"<map>
  <group name="one" files="1" key-nodes="1" chain="4" node-size="64"/>
  <group name="two" files="1" key-nodes="8" chain="4" node-size="256" key-bytes="128"/>
  <biz id="1" name="moves" group="one" key="string">
    <limit policy="interval" interval="1h" max="9"/>
  </biz>
  <biz id="2" name="stays" group="one" key="string">
    <limit policy="interval" interval="1h" max="9"/>
  </biz>
  <biz id="3" name="other" group="two" key="string">
    <limit policy="interval" interval="1h" max="9"/>
  </biz>
</map>"#;

fn update(service: &mut Service, biz: &str, key: &str) -> Result<u64, ItemError> {
    service.one(Command::Update, biz, key, 1, NOW).map(|verdict| verdict.figures.used)
}

#[test]
fn nodes_left_behind_by_a_biz_that_moved_are_expired() {
    let world = World::new(TWO_GROUPS);
    let mut service = world.attach();
    for key in ["a", "b", "c", "d"] {
        update(&mut service, "moves", key).unwrap();
    }
    let moved = TWO_GROUPS.replace(
        r#"name="moves" group="one" key="string">
    <limit policy="interval" interval="1h" max="9"/>"#,
        r#"name="moves" group="two" key="string">
    <limit policy="interval" interval="1h" max="9" ban="1h"/>"#,
    );
    assert_ne!(moved, TWO_GROUPS);
    world.publish(&moved, 2);
    // The chain is full of nodes that map.xml no longer assigns to that group.
    for key in ["x", "y", "z", "w"] {
        assert_eq!(update(&mut service, "stays", key), Ok(1));
    }
    assert_eq!(world.runtime().count_of_groups(frs_store::GroupCounter::EvictionsExpired), 4);
    assert_eq!(update(&mut service, "moves", "a"), Ok(1), "it starts fresh where it is now");
}

#[test]
fn a_generation_without_a_group_may_come_in_the_middle_of_a_request() {
    let world = World::new(TWO_GROUPS);
    let mut service = world.attach();
    update(&mut service, "other", "k").unwrap();
    let mut shrunk = TWO_GROUPS.replace(r#"group="one""#, r#"group="two""#);
    let one = shrunk.find("<group name=\"one\"").unwrap();
    let end = shrunk[one..].find("/>").unwrap() + one + 2;
    shrunk.replace_range(one..end, "");
    world.publish(&shrunk, 2);
    let keys: Vec<String> = (0..40).map(|key| key.to_string()).collect();
    let asks: Vec<Ask<'_>> = keys.iter().map(|key| Ask("stays", key, 1)).collect();
    let mut answers = Default::default();
    service.run(&request(Command::Update, false, &asks), NOW, &mut answers);
    assert_eq!(answers.items.len(), 40);
    assert!(answers.items.iter().all(|item| item.result.is_ok()), "{answers:?}");
    assert_eq!(service.generation(), 2);
}

#[test]
fn a_cut_file_costs_its_group_and_nothing_else() {
    let world = World::new(TWO_GROUPS);
    let mut service = world.attach();
    update(&mut service, "stays", "a").unwrap();
    update(&mut service, "other", "a").unwrap();
    drop(service);
    let path = world.dir.join("one.0.mmap");
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4096).unwrap();
    let mut service = world.attach();
    assert_eq!(update(&mut service, "stays", "a"), Err(ItemError::Store));
    assert_eq!(update(&mut service, "other", "a"), Ok(2));
    let both = [Ask("other", "a", 1), Ask("stays", "a", 1)];
    let refused = service.answers(&request(Command::Update, true, &both), NOW);
    assert!(refused.refused);
    assert_eq!(refused.items[1].result, Err(ItemError::Store));
    assert_eq!(service.used("other", "a", NOW), 2);
    let [Unserved { group, reason }] = <[_; 1]>::try_from(world.prepare().unserved).unwrap();
    assert_eq!(group, "one");
    assert!(reason.contains("one.0.mmap") && reason.contains("length"), "{reason}");
}

#[test]
fn a_runtime_of_another_boot_is_not_attached_to() {
    let world = World::new(TWO_GROUPS);
    drop(world.attach());
    let path = Runtime::path_in(&world.dir);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut header = [0u8; 64];
    file.read_exact_at(&mut header, 0).unwrap();
    header[16] ^= 1;
    let crc = u64::from(crc32fast::hash(&header[..56]));
    header[56..64].copy_from_slice(&crc.to_le_bytes());
    file.write_all_at(&header, 0).unwrap();
    let error = Service::attach(&world.dir, Role::Program, None).unwrap_err().to_string();
    assert!(error.contains("boot id"), "{error}");
    // A master makes the file anew, and scans each group without a mark of a clean end.
    Runtime::create_or_open(&world.dir).unwrap();
    assert_eq!(world.prepare().scanned, ["one", "two"]);
}

// Shows: damaged-files.
#[test]
fn a_swapped_file_is_not_served_beside_the_one_that_is_mapped() {
    let world = World::new(TWO_GROUPS);
    let mut service = world.attach();
    update(&mut service, "stays", "a").unwrap();
    let (path, copy) = (world.dir.join("one.0.mmap"), world.dir.join("copy"));
    std::fs::copy(&path, &copy).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    let [Unserved { group, reason }] = <[_; 1]>::try_from(world.prepare().unserved).unwrap();
    assert_eq!(group, "one");
    assert!(reason.contains("restart"), "{reason}");
    assert_eq!(update(&mut service, "stays", "a"), Err(ItemError::Store), "nor is the old one");
    assert_eq!(update(&mut service, "other", "a"), Ok(1));
    drop(service);
    assert_eq!(world.prepare().scanned, ["one"]);
    let mut service = world.attach();
    assert_eq!(update(&mut service, "stays", "a"), Ok(2));
    world.verify();
}

#[test]
fn a_quarantine_lasts_until_a_scan() {
    let world = World::new(TWO_GROUPS);
    let mut service = world.attach();
    update(&mut service, "stays", "a").unwrap();
    world.quarantine("one");
    assert_eq!(update(&mut service, "stays", "a"), Err(ItemError::Store));
    assert_eq!(update(&mut service, "other", "a"), Ok(1));
    drop(service);
    // The clean end does not mark this group clean.
    assert_eq!(frs_store::close_clean(&world.conf).unwrap(), Closed::Clean);
    assert_eq!(world.prepare().scanned, ["one"]);
    world.publish(TWO_GROUPS, 2);
    assert_eq!(update(&mut world.attach(), "stays", "a"), Ok(2));
}

#[test]
fn a_clean_end_leaves_nothing_to_scan_and_nobody_attaches_after_it() {
    let world = World::new(TWO_GROUPS);
    let mut service = world.attach();
    update(&mut service, "stays", "a").unwrap();
    assert_eq!(frs_store::close_clean(&world.conf).unwrap(), Closed::Attached);
    drop(service);
    assert_eq!(frs_store::close_clean(&world.conf).unwrap(), Closed::Clean);
    let error = Service::attach(&world.dir, Role::Program, None).unwrap_err().to_string();
    assert!(error.contains("is the server running"), "{error}");
    std::fs::remove_file(Runtime::path_in(&world.dir)).unwrap();
    Runtime::create_or_open(&world.dir).unwrap();
    assert_eq!(world.prepare().scanned, Vec::<String>::new());
    world.publish(TWO_GROUPS, 1);
    assert_eq!(update(&mut world.attach(), "stays", "a"), Ok(2));
}

#[test]
fn a_node_that_a_later_item_uses_is_no_victim_of_an_earlier_one() {
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="1" chain="2" node-size="64"/>
        <biz id="1" name="b" key="string"><limit policy="interval" interval="1h" max="5"/></biz>
        </map>"#,
    );
    let mut service = world.attach();
    service.one(Command::Update, "b", "B", 5, NOW).unwrap();
    service.one(Command::Update, "b", "C", 5, NOW + 1).unwrap();
    for order in [["A", "B"], ["B", "A"]] {
        let asks = order.map(|key| Ask("b", key, 1));
        let answers = service.answers(&request(Command::Update, true, &asks), NOW + 2);
        assert!(answers.refused, "{order:?}: {answers:?}");
        assert_eq!(service.used("b", "B", NOW + 2), 5);
    }
}

/// A node of 128 bytes holds a ring of 16 uses, or one of 14 and a ban.
#[test]
fn a_ring_keeps_its_uses_when_a_ban_comes_and_goes() {
    let map = |max: u32, ban: &str| {
        format!(
            r#"<map><group name="g" files="1" key-nodes="1" chain="2" node-size="128"/>
            <biz id="1" name="b" key="string">
            <limit policy="sliding" interval="1h" max="{max}" {ban}/></biz></map>"#
        )
    };
    let world = World::new(&map(16, ""));
    let mut service = world.attach();
    (0..3).for_each(|_| assert!(!service.update("b", "k", NOW).limited));
    world.publish(&map(14, r#"ban="1m""#), 2);
    assert_eq!(service.update("b", "k", NOW).figures.used, 4);
    let left = (0..20).filter(|_| !service.update("b", "k", NOW).limited).count();
    assert_eq!(left, 10);
    assert!(service.update("b", "k", NOW).banned);
    world.publish(&map(16, ""), 3);
    let two_more = [15, 16].map(|_| service.update("b", "k", NOW).figures.used);
    assert_eq!(two_more, [15, 16]);
    world.publish(&map(3, ""), 4);
    assert_eq!(service.used("b", "k", NOW), 3);
    world.verify();
}

#[test]
fn numbers_change_under_live_counts_of_every_policy() {
    let map = |interval: u32, max: u32| {
        format!(
            r#"<map><group name="g" files="1" key-nodes="8" chain="8" node-size="128"/>
            <biz id="1" name="interval" key="string">
              <limit policy="interval" interval="{interval}h" max="{max}"/></biz>
            <biz id="2" name="calendar" key="string">
              <limit policy="calendar" unit="year" max="{max}"/></biz>
            <biz id="3" name="sliding" key="string">
              <limit policy="sliding" interval="{interval}h" max="{max}"/></biz>
            <biz id="4" name="sliding-counter" key="string">
              <limit policy="sliding-counter" interval="{interval}h" max="{max}"/></biz>
            <biz id="5" name="token" key="string">
              <limit policy="token" rate="1/d" burst="{max}"/></biz>
            <biz id="6" name="total" key="string"><limit policy="total" max="{max}"/></biz>
            </map>"#
        )
    };
    const NAMES: [&str; 6] =
        ["interval", "calendar", "sliding", "sliding-counter", "token", "total"];
    let world = World::new(&map(1, 3));
    let mut service = world.attach();
    for biz in NAMES {
        (0..3).for_each(|_| assert!(!service.update(biz, "k", NOW).limited, "{biz}"));
        assert!(service.update(biz, "k", NOW).limited, "{biz}");
    }
    // Larger limits: counting goes on.
    world.publish(&map(1, 5), 2);
    for biz in NAMES {
        let admitted = (0..9).filter(|_| !service.update(biz, "k", NOW).limited).count();
        assert_eq!(admitted, 2, "{biz}");
    }
    // Smaller limits: only a ring that became shorter forgets uses.
    world.publish(&map(1, 1), 3);
    for biz in NAMES {
        let verdict = service.one(Command::Query, biz, "k", 0, NOW).unwrap();
        let expected = match biz {
            "sliding" => (false, 1),
            // The bucket owes five uses, and shows only as many as it can hold.
            "token" => (true, 1),
            _ => (true, 5),
        };
        assert_eq!((verdict.limited, verdict.figures.used), expected, "{biz}");
    }
    // Another interval is another shape: fresh at the next use.
    world.publish(&map(2, 5), 4);
    let used = NAMES.map(|biz| service.update(biz, "k", NOW).figures.used);
    assert_eq!(used[0], 1, "interval");
    assert_eq!((used[2], used[3]), (1, 1), "sliding and sliding-counter");
    assert_eq!((used[1], used[4], used[5]), (5, 5, 5), "the others have none");
    world.verify();
}
