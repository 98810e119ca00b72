//! Leases of items read and changed in one transaction, as a courier does it.

use super::moving::move_all;
use crate::base::clock;
use crate::conf::{KeyType, Scope};
use crate::key::{KeyField, KeyRef, MAX_KEY_WORDS, Seed};
use crate::lease::{Kind, Lease};
use crate::service::{Command, ItemError, LeaseKey, LeaseMoment, LeasedLimit, Service};
use crate::store::layout::node;
use crate::testing::World;

const NOW: u64 = 1_700_000_000_000;

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

struct Host {
    world: World,
    service: Service,
    boot_ms: u64,
}

/// A key as a node holds it.
fn key_of(biz: u32, text: &str) -> LeaseKey {
    let mut key = KeyField::default();
    key.encode(KeyType::String, text.as_bytes(), 64, Seed([0; 2])).unwrap();
    named(biz, &key.key())
}

fn named(biz: u32, key: &KeyRef<'_>) -> LeaseKey {
    let mut field = [0; MAX_KEY_WORDS];
    field[..key.words().len()].copy_from_slice(key.words());
    LeaseKey { key_word: node::key_word(biz, key.form() as u8, key.bytes()), field }
}

impl Host {
    fn new() -> Host {
        let world = World::shared(MAP);
        let service = world.attach();
        Host { world, service, boot_ms: clock::boot_ms() }
    }

    fn moment(&self) -> LeaseMoment {
        LeaseMoment { boot_ms: self.boot_ms, wall_ms: NOW, ledger_ms: NOW }
    }

    fn limits(&mut self, key: &LeaseKey) -> Result<Vec<LeasedLimit>, ItemError> {
        self.service.with_leases(key, self.moment(), |limits| limits.to_vec())
    }

    fn change(
        &mut self,
        key: &LeaseKey,
        change: impl Fn(&mut LeasedLimit),
    ) -> Result<(), ItemError> {
        self.service.with_leases(key, self.moment(), |limits| limits.iter_mut().for_each(&change))
    }

    fn grant(&mut self, key: &LeaseKey, allowance: u64) -> Result<(), ItemError> {
        let (boot_ms, incarnation) = (self.boot_ms, self.service.incarnation());
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
    // Another process of the host sees it.
    let mut other = host.world.attach();
    let found = other.with_leases(&key, host.moment(), |limits| limits[0].holding).unwrap();
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
    let told: Vec<_> = limits.iter().map(|limit| limit.refuses_nothing).collect();
    assert_eq!(told, [true, false, false], "what only counts is told");
    let hour = 3_600_000;
    let start_ms = NOW - NOW % hour;
    let windows =
        Kind::Calendar { start_ms, end_ms: start_ms + hour, next_end_ms: start_ms + 2 * hour };
    assert_eq!((limits[1].settings.kind, limits[2].settings.kind), (windows, Kind::Total));
    assert_ne!(limits[1].shape, limits[2].shape);
    host.change(&key, |limit| {
        if limit.scope == Scope::Biz {
            limit.holding.lease.allowance = 5;
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
    let moment = LeaseMoment { ledger_ms: NOW + 3_600_000, ..host.moment() };
    let starts = |limits: &mut [LeasedLimit]| match limits[1].settings.kind {
        Kind::Calendar { start_ms, .. } => start_ms,
        _ => 0,
    };
    let later = host.service.with_leases(&key_of(2, "k"), moment, starts).unwrap();
    let now = host.service.with_leases(&key_of(2, "k"), host.moment(), starts).unwrap();
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
    let later = LeaseMoment { wall_ms: NOW + 5_000, ..host.moment() };
    let change = |limits: &mut [LeasedLimit]| limits[0].holding.lease.allowance = 9;
    host.service.with_leases(&key, later, change).unwrap();
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
    // One whose window is over goes.
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

#[test]
fn leases_are_void_from_the_moment_when_their_group_begins_to_move() {
    let mut host = Host::new();
    let key = key_of(1, "k");
    let update = |host: &mut Host, count| {
        host.service.one(Command::Update, "one", "k", count, clock::now()).map(|one| one.limited)
    };
    host.grant(&key, 7).unwrap();
    assert_eq!(update(&mut host, 3), Ok(false));
    let before = host.service.incarnation();
    let larger = MAP.replace("key-nodes=\"1\" chain=\"4\"", "key-nodes=\"3\" chain=\"8\"");
    host.world.begin_moves(&larger, 2);
    host.service.begin_tick();
    let moving = host.service.incarnation();
    assert_ne!(moving, before, "the ledger counts the unspent uses of before as spent");
    assert_eq!(update(&mut host, 1), Ok(true), "there is no lease, and none can be had here");

    // The courier is granted another one, in the files that the record moves to.
    host.grant(&key, 2).unwrap();
    let spent = |host: &mut Host| host.limits(&key).unwrap()[0].holding.used;
    let carried = spent(&mut host);
    assert_eq!(update(&mut host, 1), Ok(false));
    assert_eq!(spent(&mut host), carried + 1);
    move_all(&mut host.world.attach(), clock::now());
    host.world.end_moves(&larger, 3);
    host.service.begin_tick();
    assert_eq!(host.service.incarnation(), moving, "it changes once");
    assert_eq!(spent(&mut host), carried + 1);
    assert_eq!(update(&mut host, 1), Ok(false));
    host.world.verify();
}
