//! Leases of items, read and changed in one transaction, as a courier does it.

use frs_base::clock;
use frs_conf::key::{KeyField, KeyRef, MAX_KEY_WORDS, Seed};
use frs_conf::{KeyType, Scope};
use frs_engine::testing::{World, move_all};
use frs_engine::{Command, ItemError, ItemMoment, MovePass, MoveStep, Service, StoredKey};
use frs_store::Moves;
use frs_store::layout::node;

use crate::lease::{Holding, Incarnation, Kind, Lease};
use crate::nodes::{self, LeasePass};
use crate::shared::LeasedLimit;
use crate::testing::shared;

pub const NOW: u64 = 1_700_000_000_000;

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="1" chain="4" node-size="512"/>
  <biz id="1" name="one" key="string" share="cluster" hosts="2">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="2" name="both" key="string" share="cluster" hosts="2">
    <limit policy="count"/>
    <limit policy="calendar" unit="hour" max="20"/>
    <limit policy="total" scope="biz" max="30"/></biz>
  <biz id="3" name="local" key="string"><limit policy="total" max="1"/></biz>
  <biz id="4" name="sized" key="string" share="cluster" hosts="2">
    <limit policy="interval" interval="1m" max="10"/>
    <override key="large" limit="1" max="99"/></biz>
</map>"#;

/// A host without a courier: the test acts as one.
pub(super) struct Host {
    pub world: World,
    pub service: Service,
    boot_ms: u64,
}

/// A key as a node holds it.
pub(super) fn key_of(biz: u32, text: &str) -> StoredKey {
    let mut key = KeyField::default();
    key.encode(KeyType::String, text.as_bytes(), 64, Seed([0; 2])).unwrap();
    named(biz, &key.key())
}

pub(super) fn named(biz: u32, key: &KeyRef<'_>) -> StoredKey {
    let mut field = [0; MAX_KEY_WORDS];
    field[..key.words().len()].copy_from_slice(key.words());
    StoredKey { key_word: node::key_word(biz, key.form() as u8, key.bytes()), field }
}

impl Host {
    fn new() -> Host {
        Host::of(MAP)
    }

    pub fn of(map: &str) -> Host {
        let world = shared(map);
        let service = world.attach();
        Host { world, service, boot_ms: clock::boot_ms() }
    }

    /// One with a lease of 7, whose group begins to move; and its incarnation before that.
    fn moving() -> (Host, StoredKey, Incarnation) {
        let (mut host, key) = (Host::new(), key_of(1, "k"));
        host.grant(&key, 7).unwrap();
        let before = crate::HostCluster::incarnation_of(&mut host.service);
        host.world.begin_moves(&larger(), 2);
        host.service.begin_tick();
        (host, key, before)
    }

    pub fn moment(&self) -> ItemMoment {
        ItemMoment { boot_ms: self.boot_ms, wall_ms: NOW }
    }

    pub fn limits(&mut self, key: &StoredKey) -> Result<Vec<LeasedLimit>, ItemError> {
        let moment = self.moment();
        nodes::with_leases(&mut self.service, key, moment, NOW, |limits| limits.to_vec())
    }

    pub fn change(
        &mut self,
        key: &StoredKey,
        change: impl Fn(&mut LeasedLimit),
    ) -> Result<(), ItemError> {
        let moment = self.moment();
        let change = |limits: &mut [LeasedLimit]| limits.iter_mut().for_each(&change);
        nodes::with_leases(&mut self.service, key, moment, NOW, change)
    }

    /// Grants so many uses of each limit.
    pub fn grant(&mut self, key: &StoredKey, allowance: u64) -> Result<(), ItemError> {
        let (boot_ms, incarnation) =
            (self.boot_ms, crate::HostCluster::incarnation_of(&mut self.service));
        self.change(key, |limit| {
            let (end_ms, gone_ms) = (boot_ms + 60_000, boot_ms + 60_000);
            let lease = limit.holding.lease;
            limit.holding.lease =
                Lease { incarnation, window: 1, allowance, end_ms, gone_ms, ..lease };
        })
    }

    fn nodes(&self) -> u64 {
        self.world.group("g").verify().nodes
    }

    fn last_uses(&self) -> Vec<u64> {
        let group = self.world.group("g");
        let mut words = vec![0; group.node_words()];
        let stored = (0..4).filter_map(|place| {
            group.file(0).read(group.node(0, place), &mut words);
            (words[node::KEY] != 0).then_some(words[node::LAST_USE])
        });
        stored.collect()
    }
}

#[test]
fn what_is_only_read_creates_nothing_and_what_is_changed_is_there() {
    let mut host = Host::new();
    let key = key_of(1, "k");
    let read = host.limits(&key).unwrap();
    assert_eq!((read.len(), read[0].number, read[0].scope), (1, 1, Scope::Key));
    assert_eq!((read[0].settings.max, read[0].holding), (10, Default::default()));
    assert_eq!(host.nodes(), 0);
    host.grant(&key, 7).unwrap();
    assert_eq!(host.nodes(), 1);
    // Another process of the host sees the lease.
    let mut other = host.world.attach();
    let found =
        nodes::with_leases(&mut other, &key, host.moment(), NOW, |limits| limits[0].holding)
            .unwrap();
    assert_eq!((found.lease.allowance, found.used), (7, 0));
    assert!(!other.one(Command::Update, "one", "k", 7, clock::now()).unwrap().limited);
    assert_eq!(host.limits(&key).unwrap()[0].holding.used, 7);
    host.world.verify();
}

#[test]
fn an_item_of_two_scopes_is_one_transaction() {
    let mut host = Host::new();
    let (key, whole) = (key_of(2, "k"), named(2, &KeyRef::BIZ));
    let limits = host.limits(&key).unwrap();
    let of: Vec<_> = limits.iter().map(|limit| (limit.number, limit.scope)).collect();
    assert_eq!(of, [(1, Scope::Key), (2, Scope::Key), (3, Scope::Biz)]);
    let reported: Vec<_> = limits.iter().map(|limit| limit.refuses_nothing).collect();
    assert_eq!(reported, [true, false, false], "what only counts is reported");
    let hour = 3_600_000;
    let start_ms = NOW - NOW % hour;
    let windows =
        Kind::Calendar { start_ms, end_ms: start_ms + hour, next_end_ms: start_ms + 2 * hour };
    assert_eq!((limits[1].settings.kind, limits[2].settings.kind), (windows, Kind::Total));
    assert_ne!(limits[1].shape, limits[2].shape);
    host.change(&key, |limit| {
        if limit.scope == Scope::Biz {
            (limit.holding.lease.window, limit.holding.lease.allowance) = (1, 5);
        }
    })
    .unwrap();
    assert_eq!(host.nodes(), 1, "the key's node was not changed");
    let found = host.limits(&whole).unwrap();
    assert_eq!((found.len(), found[0].holding.lease.allowance), (1, 5));
    host.grant(&key, 3).unwrap();
    assert_eq!(host.nodes(), 2);
    let another = host.limits(&key_of(2, "another")).unwrap();
    let allowances = another.iter().map(|limit| limit.holding.lease.allowance);
    assert_eq!(allowances.collect::<Vec<_>>(), [0, 0, 3]);
}

#[test]
fn a_calendar_names_the_windows_of_the_ledgers_clock() {
    let mut host = Host::new();
    let starts = |limits: &mut [LeasedLimit]| match limits[1].settings.kind {
        Kind::Calendar { start_ms, .. } => start_ms,
        _ => 0,
    };
    let (key, moment) = (key_of(2, "k"), host.moment());
    let [now, later] = [NOW, NOW + 3_600_000].map(|ledger_ms| {
        nodes::with_leases(&mut host.service, &key, moment, ledger_ms, starts).unwrap()
    });
    assert_eq!(later - now, 3_600_000);
}

#[test]
fn items_without_leases_are_told_apart() {
    let mut host = Host::new();
    assert_eq!(host.limits(&key_of(3, "k")), Err(ItemError::UnknownBiz));
    assert_eq!(host.limits(&key_of(9, "k")), Err(ItemError::UnknownBiz));
    let long = "x".repeat(60);
    assert_eq!(host.limits(&key_of(1, &long)), Err(ItemError::BadKey), "no node holds it");
}

#[test]
fn a_listed_key_has_its_own_max() {
    let mut host = Host::new();
    let max = |host: &mut Host, key| host.limits(&key_of(4, key)).unwrap()[0].settings.max;
    assert_eq!((max(&mut host, "large"), max(&mut host, "k")), (99, 10));
}

#[test]
fn a_courier_leaves_the_last_use_as_it_was() {
    let mut host = Host::new();
    let key = key_of(1, "k");
    host.grant(&key, 5).unwrap();
    let before = host.last_uses();
    let later = ItemMoment { wall_ms: NOW + 5_000, ..host.moment() };
    let change = |limits: &mut [LeasedLimit]| limits[0].holding.lease.allowance = 9;
    nodes::with_leases(&mut host.service, &key, later, NOW, change).unwrap();
    assert_eq!((before.clone(), host.last_uses()), (vec![NOW], before));
    assert_eq!(host.limits(&key).unwrap()[0].holding.lease.allowance, 9);
}

#[test]
fn nothing_evicts_a_node_with_a_lease() {
    let mut host = Host::new();
    let keys = ["a", "b", "c", "d"].map(|text| key_of(1, text));
    for key in &keys {
        host.grant(key, 5).unwrap();
    }
    let more = key_of(1, "e");
    assert_eq!(host.grant(&more, 5), Err(ItemError::Full));
    let local = host.service.one(Command::Update, "local", "k", 1, NOW);
    assert_eq!(local, Err(ItemError::Full), "a local item does not either");
    assert!(keys.iter().all(|key| host.limits(key).unwrap()[0].holding.lease.allowance == 5));
    // A record whose window is over is evicted.
    let boot_ms = host.boot_ms;
    host.change(&keys[2], |limit| {
        (limit.holding.lease.end_ms, limit.holding.lease.gone_ms) = (boot_ms, boot_ms);
    })
    .unwrap();
    host.grant(&more, 5).unwrap();
    assert_eq!(host.limits(&keys[2]).unwrap()[0].holding, Default::default());
    assert_eq!(host.limits(&more).unwrap()[0].holding.lease.allowance, 5);
    host.world.verify();
}

#[test]
fn a_biz_that_is_no_longer_shared_starts_fresh() {
    let mut host = Host::new();
    let key = key_of(1, "k");
    host.grant(&key, 5).unwrap();
    assert!(!host.service.one(Command::Update, "one", "k", 5, clock::now()).unwrap().limited);
    host.world.publish(&MAP.replace(r#" share="cluster" hosts="2""#, ""), 2);
    host.service.begin_tick();
    let verdict = host.service.one(Command::Query, "one", "k", 1, clock::now()).unwrap();
    assert_eq!((verdict.figures.used, verdict.shared), (0, None));
    assert_eq!(host.limits(&key), Err(ItemError::UnknownBiz));
}

/// A group with other key-nodes, and room for more.
fn larger() -> String {
    MAP.replace("key-nodes=\"1\" chain=\"4\"", "key-nodes=\"3\" chain=\"8\"")
}

// Shows: growth.
#[test]
fn leases_move_with_their_group_and_so_does_a_message_on_its_way() {
    let mut host = Host::new();
    let (key, idle) = (key_of(1, "k"), key_of(1, "idle"));
    let update = |host: &mut Host, count| {
        host.service.one(Command::Update, "one", "k", count, clock::now()).map(|one| one.limited)
    };
    host.grant(&key, 7).unwrap();
    host.grant(&idle, 5).unwrap();
    let send = |limit: &mut LeasedLimit| {
        limit.holding.lease.seq = 77;
        limit.holding.lease.in_flight = true;
        limit.holding.lease.sent_extra = 2;
    };
    host.change(&idle, send).unwrap();
    assert_eq!(update(&mut host, 3), Ok(false));
    let before = crate::HostCluster::incarnation_of(&mut host.service);
    let found = |host: &mut Host| {
        [&key, &idle]
            .map(|key| host.limits(key).unwrap().iter().map(|limit| limit.holding).collect())
    };
    let mut reserved: [Vec<Holding>; 2] = found(&mut host);
    host.world.begin_moves(&larger(), 2);
    host.service.begin_tick();
    assert_eq!(crate::HostCluster::incarnation_of(&mut host.service), before);
    assert_eq!(found(&mut host), reserved, "where they were");
    assert_eq!(update(&mut host, 1), Ok(false));
    reserved[0][0].used += 1;
    reserved[0][0].lease.used_ms = found(&mut host)[0][0].lease.used_ms;
    assert_eq!(found(&mut host), reserved, "the one that was used has moved");
    move_all(&mut host.world.attach(), clock::now());
    assert_eq!(found(&mut host), reserved, "both have");
    host.world.end_moves(&larger(), 3);
    host.service.begin_tick();
    assert_eq!(
        (crate::HostCluster::incarnation_of(&mut host.service), found(&mut host)),
        (before, reserved)
    );
    // The answer finds the message that was sent before.
    host.change(&idle, |limit| assert_eq!(limit.holding.lease.seq, 77)).unwrap();
    assert_eq!(update(&mut host, 3), Ok(false));
    assert_eq!(update(&mut host, 1), Ok(true));
    host.world.verify();
}

// Shows: growth.
#[test]
fn a_move_that_is_killed_and_goes_on_keeps_the_leases() {
    // All processes are killed after each of these steps.
    for kill_after in 0..5 {
        let (host, _, before) = Host::moving();
        if kill_after > 0 {
            move_all(&mut host.world.attach(), clock::now());
        }
        let runtime = host.world.runtime();
        let [next, former] = runtime.named_groups("g")[..] else { panic!("two groups") };
        if kill_after > 1 {
            host.world.publish_shared(&larger(), 3);
            runtime.forget_group(former.id);
        }
        if kill_after > 2 {
            runtime.forget_former(next.id);
        }
        if kill_after > 3 {
            let next = frs_store::group::next_path_of(&host.world.dir, "g", 0);
            std::fs::rename(next, frs_store::path_of(&host.world.dir, "g", 0)).unwrap();
        }
        let world = host.world;
        drop(host.service);
        let begin = ["g".to_owned()].into();
        let prepared = world.prepare_moving(&Moves { begin, ..Moves::default() });
        assert!(prepared.unserved.is_empty(), "{prepared:?}");
        assert_eq!(prepared.moving.len(), usize::from(kill_after < 2), "{kill_after}");
        assert_eq!(world.runtime().named_groups("g")[0].id, next.id);
        let mut service = world.attach();
        assert_eq!(crate::HostCluster::incarnation_of(&mut service), before, "{kill_after}");
        let limited = service.one(Command::Update, "one", "k", 7, clock::now()).unwrap().limited;
        assert!(!limited, "{kill_after}");
        world.verify();
    }
}

// Shows: older-copies.
#[test]
fn a_replaced_file_of_a_group_voids_its_leases_whether_it_moves_or_not() {
    let mut host = Host::new();
    host.grant(&key_of(1, "k"), 7).unwrap();
    let mut had = vec![crate::HostCluster::incarnation_of(&mut host.service)];
    let replace = |path: std::path::PathBuf| {
        let copy = path.with_extension("copy");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::rename(copy, path).unwrap();
    };
    let (path_of, next_path_of) = (frs_store::path_of, frs_store::group::next_path_of);
    let Host { mut world, service, .. } = host;
    drop(service);
    let dir = world.dir.clone();
    let mut expect_void = |world: &World, is_void| {
        let begin = ["g".to_owned()].into();
        let prepared = world.prepare_moving(&Moves { begin, ..Moves::default() });
        assert!(prepared.unserved.is_empty(), "{prepared:?}");
        let mut service = world.attach();
        assert_eq!(
            !had.contains(&crate::HostCluster::incarnation_of(&mut service)),
            is_void,
            "{}",
            had.len()
        );
        had.push(crate::HostCluster::incarnation_of(&mut service));
        let one = service.one(Command::Update, "one", "k", 1, clock::now()).unwrap();
        assert!(one.limited, "a lease that may have been spent");
    };
    replace(path_of(&dir, "g", 0));
    expect_void(&world, true);
    world.begin_moves(&larger(), 2);
    expect_void(&world, false);
    replace(path_of(&dir, "g", 0));
    expect_void(&world, true);
    replace(next_path_of(&dir, "g", 0));
    expect_void(&world, true);
    move_all(&mut world.attach(), clock::now());
    world.end_moves(&larger(), 3);
    expect_void(&world, false);
    replace(path_of(&dir, "g", 0));
    expect_void(&world, true);
    // A scan finds the moved records in the former files again, but their leases have been spent
    // since.
    let smaller = MAP.replace("node-size=\"512\"", "node-size=\"1024\"");
    world.begin_moves(&smaller, 4);
    expect_void(&world, false);
    let runtime = world.runtime();
    let former = runtime.named_groups("g")[0].former;
    runtime.quarantine_groups(|id| Some(id) == former);
    expect_void(&world, true);
}

// Shows: growth.
#[test]
fn a_lease_that_finds_no_place_stays_where_it_is_and_the_courier_changes_it_there() {
    let large = MAP.replace("key-nodes=\"1\" chain=\"4\"", "key-nodes=\"8\" chain=\"8\"");
    // Records become longer too: an additional limit needs no place until it has a lease.
    let (limit, more) = ("max=\"10\"/></biz>", "<limit policy=\"total\" max=\"9\"/></biz>");
    let small = MAP.replace("chain=\"4\"", "chain=\"8\"");
    let small = small.replacen(limit, &limit.replace("</biz>", more), 1);
    let mut host = Host::of(&large);
    let keys: Vec<StoredKey> = (0..20).map(|nth| key_of(1, &format!("k{nth}"))).collect();
    for key in &keys {
        host.grant(key, 5).unwrap();
    }
    host.world.begin_moves(&small, 2);
    host.service.begin_tick();
    let mut pass = MovePass::default();
    let mut left = |host: &mut Host| match host
        .service
        .move_nodes("g", &mut pass, 1_000, clock::now())
        .unwrap()
    {
        MoveStep::Over { left, .. } => left,
        step => panic!("{step:?}"),
    };
    assert_eq!(left(&mut host), 12);
    assert_eq!(host.world.former_nodes(), 12);
    let bind = |limits: &mut [LeasedLimit]| {
        limits[0].holding.lease.seq += 1;
        limits[0].holding.lease.in_flight = true;
    };
    let (mut lease_pass, mut found) = (LeasePass::default(), Vec::new());
    let moment = host.moment();
    while !nodes::lease_pass(&mut host.service, &mut lease_pass, 3, |service, key| {
        nodes::with_leases(service, key, moment, NOW, bind).unwrap();
        found.push(*key);
        true
    }) {}
    found.sort_unstable();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!((found, host.world.former_nodes()), (sorted, 12));
    host.world.verify();
    // When leases end, the other records move unchanged.
    let (boot_ms, staying) = (host.boot_ms, 5);
    for key in &keys[staying..] {
        let end = |limit: &mut LeasedLimit| {
            limit.holding.lease.in_flight = false;
            (limit.holding.lease.end_ms, limit.holding.lease.gone_ms) = (boot_ms, boot_ms);
        };
        host.change(key, end).unwrap();
    }
    assert_eq!((left(&mut host), host.world.former_nodes()), (0, 0));
    for key in &keys[..staying] {
        let lease = host.limits(key).unwrap()[0].holding.lease;
        assert_eq!((lease.allowance, lease.seq, lease.in_flight), (5, 1, true));
    }
    host.world.verify();
}

// Shows: growth.
#[test]
fn a_pass_finds_each_lease_whenever_its_record_moves() {
    for moves_after in 0..8 {
        let (mut host, key, _) = Host::moving();
        let (mut pass, mut found, mut steps) = (LeasePass::default(), Vec::new(), 0);
        loop {
            if steps == moves_after {
                let update = host.service.one(Command::Update, "one", "k", 1, clock::now());
                assert!(!update.unwrap().limited);
                assert_eq!(host.world.former_nodes(), 0);
            }
            steps += 1;
            let each = |_: &mut Service, key: &StoredKey| {
                found.push(*key);
                true
            };
            if nodes::lease_pass(&mut host.service, &mut pass, 1, each) {
                break;
            }
        }
        assert!(found.contains(&key), "after {moves_after} of {steps} steps");
        assert!(steps < 8, "it moved before the pass was over or after that");
    }
}
