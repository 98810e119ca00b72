//! Limits of a shared business that come, go and change places, and the leases that they keep.

use frs_base::clock;
use frs_conf::key::KeyRef;
use frs_conf::{Overlay, active};
use frs_engine::inspect::{Look, Reader, fresh_records};
use frs_engine::testing::move_all;
use frs_engine::{Command, ItemError, Service, StoredKey, note_limits_in_force};

use super::leases::{Host, NOW, key_of, named};
use crate::PLUG;
use crate::lease::Holding;
use crate::nodes::{self, LeasePass};
use crate::shared::LeasedLimit;
use crate::testing::shared;

const MINUTE: &str = "policy='interval' interval='1m' max='100'";
const HOUR: &str = "policy='interval' interval='1h' max='100'";
const TOTAL: &str = "policy='total' max='100'";
const WHOLE: &str = "policy='total' max='1000' scope='biz'";

/// A business with these limits.
fn map(limits: &[&str]) -> String {
    let limits: String = limits.iter().map(|limit| format!("<limit {limit}/>")).collect();
    format!(
        "<map><group name='g' files='1' key-nodes='1' chain='4' node-size='1024'/>\
         <biz id='1' name='b' key='string' share='cluster' hosts='2'>{limits}</biz></map>"
    )
}

/// The uses of a lease, and its allowance.
#[derive(Debug, PartialEq, Eq)]
struct Lease {
    used: u64,
    of: u64,
}

const NONE: Lease = Lease { used: 0, of: 0 };

/// The reloads of one host.
struct Reloads {
    host: Host,
    generation: u64,
    key: StoredKey,
}

impl Reloads {
    fn new(limits: &[&str]) -> Reloads {
        Reloads { host: Host::of(&map(limits)), generation: 1, key: key_of(1, "k") }
    }

    fn reload(&mut self, limits: &[&str]) {
        self.generation += 1;
        self.host.world.reload_shared(&map(limits), self.generation);
        self.host.service.begin_tick();
    }

    fn grant(&mut self, allowance: u64) {
        self.host.grant(&self.key, allowance).unwrap();
    }

    /// Uses the key. Returns whether it is limited.
    fn update(&mut self, count: i32) -> bool {
        let update = self.host.service.one(Command::Update, "b", "k", count, clock::now());
        update.unwrap().limited
    }

    /// Writes the record, without a change that counts for its leases.
    fn touch(&mut self) {
        self.host.change(&self.key, |limit| limit.holding.lease.tries ^= 1).unwrap();
        self.host.change(&self.key, |limit| limit.holding.lease.tries ^= 1).unwrap();
    }

    /// The keys that a pass of the courier finds.
    fn found(&mut self) -> Vec<StoredKey> {
        let (mut found, mut pass) = (Vec::new(), LeasePass::default());
        let mut each = |_: &mut Service, key: &StoredKey| {
            found.push(*key);
            true
        };
        while !nodes::lease_pass(&mut self.host.service, &mut pass, 1, &mut each) {}
        found.sort_unstable();
        found
    }

    /// The leases of the key, by the numbers of their limits.
    fn leases(&mut self) -> Vec<Lease> {
        let limits = self.host.limits(&self.key).unwrap();
        let lease = |holding: Holding| Lease { used: holding.used, of: holding.lease.allowance };
        limits.into_iter().map(|limit| lease(limit.holding)).collect()
    }
}

const fn lease(used: u64, of: u64) -> Lease {
    Lease { used, of }
}

// Shows: leases-over-reloads.
#[test]
fn a_limit_that_stays_keeps_its_lease_while_another_comes_and_goes() {
    for is_touched in [false, true] {
        let mut reloads = Reloads::new(&[MINUTE]);
        reloads.grant(7);
        assert!(!reloads.update(3));
        reloads.reload(&[MINUTE, TOTAL]);
        if is_touched {
            assert!(reloads.update(1), "the new limit has no lease yet");
            reloads.touch();
        }
        assert_eq!(reloads.leases(), [lease(3, 7), NONE]);
        reloads.reload(&[MINUTE]);
        assert_eq!(reloads.leases(), [lease(3, 7)]);
        assert!(!reloads.update(4) && reloads.update(1));
        reloads.host.world.verify();
    }
}

// Shows: leases-over-reloads.
#[test]
fn a_limit_that_goes_takes_its_lease_along_unless_it_is_back_before_the_key_is_used() {
    for is_touched in [false, true] {
        let mut reloads = Reloads::new(&[MINUTE, TOTAL]);
        reloads.grant(7);
        assert!(!reloads.update(3));
        reloads.reload(&[MINUTE]);
        if is_touched {
            reloads.touch();
        }
        reloads.reload(&[MINUTE, TOTAL]);
        let second = if is_touched { NONE } else { lease(3, 7) };
        assert_eq!(reloads.leases(), [lease(3, 7), second]);
        assert_eq!(reloads.update(4), is_touched);
        // Without the first of two limits the other one has the ledger of another number.
        reloads.reload(&[TOTAL]);
        assert_eq!(reloads.leases(), [NONE]);
    }
}

// Shows: leases-over-reloads.
#[test]
fn limits_that_change_places_have_other_ledgers() {
    let mut reloads = Reloads::new(&[MINUTE, HOUR, TOTAL]);
    reloads.grant(7);
    assert!(!reloads.update(2));
    reloads.reload(&[HOUR, MINUTE, TOTAL]);
    assert_eq!(reloads.leases(), [NONE, NONE, lease(2, 7)]);
    reloads.reload(&[MINUTE, HOUR, TOTAL]);
    assert_eq!(reloads.leases(), [lease(2, 7), lease(2, 7), lease(2, 7)], "nobody has used it");
    reloads.reload(&[HOUR, MINUTE, TOTAL]);
    reloads.touch();
    reloads.reload(&[MINUTE, HOUR, TOTAL]);
    assert_eq!(reloads.leases(), [NONE, NONE, lease(2, 7)]);
}

// Shows: leases-over-reloads.
#[test]
fn a_number_is_that_in_the_business_and_not_in_the_record() {
    let mut reloads = Reloads::new(&[TOTAL, WHOLE]);
    let whole = named(1, &KeyRef::BIZ);
    reloads.grant(7);
    assert!(!reloads.update(2));
    // After the limit of the business, the limit of the key is the second one.
    reloads.reload(&[WHOLE, TOTAL]);
    assert_eq!(reloads.leases(), [NONE, NONE]);
    assert_eq!(reloads.host.limits(&whole).unwrap()[0].holding, Holding::default());
    reloads.reload(&[TOTAL, WHOLE]);
    assert_eq!(reloads.leases(), [lease(2, 7), lease(2, 7)]);
    // One more limit before that of the business, which itself stays.
    reloads.reload(&[TOTAL, HOUR, WHOLE]);
    assert_eq!(reloads.leases(), [lease(2, 7), NONE, NONE]);
    reloads.reload(&[TOTAL, WHOLE, HOUR]);
    assert_eq!(reloads.leases(), [lease(2, 7), lease(2, 7), NONE]);
    reloads.host.world.verify();
}

// Shows: leases-over-reloads.
#[test]
fn the_log_of_a_share_stays_with_it() {
    let sliding = "policy='sliding' interval='1m' max='20'";
    let longer = "policy='sliding' interval='1h' max='60'";
    let mut reloads = Reloads::new(&[sliding, TOTAL]);
    reloads.grant(7);
    assert!(!reloads.update(3));
    for limits in [&[sliding, longer, MINUTE][..], &[sliding], &[sliding, TOTAL]] {
        reloads.reload(limits);
        reloads.touch();
        assert_eq!(reloads.leases()[0], lease(3, 7), "{limits:?}");
    }
    // Without a limit of the log, its uses are lost. A limit that comes later does not get them
    // back.
    reloads.reload(&[TOTAL, TOTAL, longer]);
    assert_eq!(reloads.leases(), [NONE, NONE, NONE]);
    reloads.touch();
    reloads.reload(&[sliding, TOTAL]);
    assert_eq!(reloads.leases(), [NONE, NONE]);
}

// Shows: leases-over-reloads.
#[test]
fn a_ban_stays_with_the_limit_that_started_it() {
    let banning = "policy='interval' interval='1m' max='5' ban='1h'";
    let banned = |reloads: &mut Reloads| {
        let query = reloads.host.service.one(Command::Query, "b", "k", 1, clock::now());
        query.unwrap().banned
    };
    let mut reloads = Reloads::new(&[banning, TOTAL]);
    reloads.grant(5);
    assert!(!reloads.update(5) && reloads.update(6) && banned(&mut reloads));
    reloads.reload(&[banning, TOTAL, HOUR]);
    assert!(banned(&mut reloads));
    reloads.reload(&["policy='total' max='5' ban='1h'", TOTAL, HOUR]);
    assert!(!banned(&mut reloads), "its limit has gone");
    assert_eq!(reloads.leases(), [NONE, lease(5, 5), NONE]);
}

// Shows: leases-over-reloads.
#[test]
fn a_record_of_former_limits_keeps_its_place_and_is_found_by_the_courier() {
    let mut reloads = Reloads::new(&[MINUTE]);
    let keys = ["a", "b", "c", "d"].map(|text| key_of(1, text));
    for key in &keys {
        reloads.host.grant(key, 5).unwrap();
    }
    reloads.reload(&[MINUTE, TOTAL]);
    assert_eq!(reloads.host.grant(&key_of(1, "e"), 5), Err(ItemError::Full));
    assert_eq!(reloads.found(), keys);
    // Without a limit that stays, the record holds nothing that counts.
    reloads.reload(&[HOUR, TOTAL]);
    assert_eq!(reloads.found(), []);
    reloads.host.grant(&key_of(1, "e"), 5).unwrap();

    // A kept lease may be at another place of the record.
    let mut reloads = Reloads::new(&[MINUTE, TOTAL]);
    reloads.grant(7);
    reloads.reload(&[HOUR, TOTAL]);
    reloads.touch();
    reloads.reload(&[WHOLE, TOTAL]);
    assert_eq!(reloads.leases(), [NONE, lease(0, 7)]);
    assert_eq!(reloads.found(), [key_of(1, "k")]);
}

// Shows: leases-over-reloads.
#[test]
fn a_process_that_takes_the_reload_late_finds_the_same_leases() {
    let mut reloads = Reloads::new(&[MINUTE]);
    let mut late = reloads.host.world.attach();
    reloads.grant(7);
    reloads.reload(&[MINUTE, TOTAL]);
    reloads.touch();
    let moment = reloads.host.moment();
    let allowance = |limits: &mut [LeasedLimit]| limits[0].holding.lease.allowance;
    assert_eq!(late.generation(), 1);
    assert_eq!(nodes::with_leases(&mut late, &reloads.key, moment, NOW, allowance), Ok(7));
    assert_eq!(late.generation(), 2);
    // The process has missed the generation in between.
    reloads.reload(&[MINUTE]);
    reloads.reload(&[MINUTE, HOUR]);
    assert_eq!(
        nodes::with_leases(&mut reloads.host.world.attach(), &reloads.key, moment, NOW, allowance),
        Ok(7)
    );
    assert_eq!(reloads.leases(), [lease(0, 7), NONE]);
}

// Shows: leases-over-reloads.
#[test]
fn a_record_of_former_limits_moves_with_its_leases() {
    // The limits change before the group moves, or with it.
    for at_once in [false, true] {
        let mut reloads = Reloads::new(&[MINUTE, HOUR, TOTAL]);
        reloads.grant(7);
        assert!(!reloads.update(2));
        let change = |limit: &mut LeasedLimit| limit.holding.lease.extra = i64::from(limit.number);
        reloads.host.change(&reloads.key, change).unwrap();
        let limits = [MINUTE, WHOLE, TOTAL, HOUR];
        if !at_once {
            reloads.reload(&limits);
        }
        let larger = map(&limits).replace("key-nodes='1' chain='4'", "key-nodes='3' chain='8'");
        let larger = larger.replace("1024", "2048");
        reloads.generation += 1;
        reloads.host.world.begin_moves(&larger, reloads.generation);
        reloads.host.service.begin_tick();
        let extra = |limit: &LeasedLimit| limit.holding.lease.extra;
        // First where the leases were, then where a write of the record has moved them.
        for _ in 0..2 {
            let found = reloads.host.limits(&reloads.key).unwrap();
            assert_eq!(found.iter().map(extra).collect::<Vec<_>>(), [1, 0, 3, 0]);
            assert_eq!(reloads.leases(), [lease(2, 7), NONE, lease(2, 7), NONE], "{at_once}");
            reloads.touch();
        }
        move_all(&mut reloads.host.world.attach(), clock::now());
        reloads.host.world.end_moves(&larger, reloads.generation + 1);
        reloads.host.service.begin_tick();
        assert_eq!(reloads.leases(), [lease(2, 7), NONE, lease(2, 7), NONE], "{at_once}");
        reloads.host.world.verify();
    }
}

// Shows: leases-over-reloads.
#[test]
fn what_is_forgotten_or_reset_is_void() {
    let mut reloads = Reloads::new(&[MINUTE]);
    reloads.grant(7);
    let interval = |nth: u32| format!("policy='interval' interval='{}m' max='9'", nth + 1);
    for nth in 1..=16 {
        reloads.reload(&[MINUTE, &interval(nth)]);
    }
    assert_eq!(reloads.leases(), [lease(0, 7), NONE]);
    reloads.reload(&[MINUTE, &interval(17)]);
    assert_eq!(reloads.leases(), [NONE, NONE], "of too many limits ago");

    let mut reloads = Reloads::new(&[MINUTE]);
    reloads.grant(7);
    reloads.reload(&[MINUTE, TOTAL]);
    let dir = reloads.host.world.dir.clone();
    let mut overlay = active::read_overlay(&dir, 2).unwrap();
    assert_eq!(overlay.former(1).len(), 1);
    overlay.reset(1, None).unwrap();
    assert!(overlay.former(1).is_empty());
    reloads.host.world.publish_overlaid(&map(&[MINUTE, TOTAL]), 3, &overlay);
    reloads.host.service.begin_tick();
    assert_eq!(reloads.leases(), [NONE, NONE]);
}

// Shows: leases-over-reloads.
#[test]
fn a_start_knows_what_was_in_force_and_what_was_known_there() {
    let mut reloads = Reloads::new(&[MINUTE]);
    reloads.reload(&[MINUTE, TOTAL]);
    let world = &reloads.host.world;
    let conf = world.shared_conf(&map(&[MINUTE, HOUR]));
    let known = |overlay: &Overlay| {
        let mut overlay = overlay.clone();
        note_limits_in_force(&mut overlay, &world.dir, &conf, PLUG);
        overlay.former(1).iter().map(|limits| limits.limits.len()).collect::<Vec<_>>()
    };
    assert_eq!(known(&Overlay::default()), [1, 2], "whatever the overlay has lost");
    let found = active::read_overlay(&world.dir, 2).unwrap();
    assert_eq!(known(&found), [1, 2]);
    // Former limits from before a reset are void.
    let mut reset = found;
    reset.reset(1, None).unwrap();
    std::fs::remove_file(active::path(&world.dir, 1)).unwrap();
    assert_eq!(known(&reset), [2]);
}

#[test]
fn only_shared_businesses_have_former_limits() {
    let local = map(&[MINUTE]).replace("share='cluster' hosts='2'", "");
    let world = shared(&local);
    world.reload_shared(&map(&[MINUTE]), 2);
    world.reload_shared(&map(&[MINUTE, TOTAL]), 3);
    let former = |generation| {
        let overlay = active::read_overlay(&world.dir, generation).unwrap();
        overlay.former(1).len()
    };
    assert_eq!((former(2), former(3)), (0, 1));
    world.reload_shared(&local, 4);
    assert_eq!(former(4), 0);
}

#[test]
fn records_begin_anew_where_a_number_has_another_limit() {
    let mut reloads = Reloads::new(&[MINUTE, TOTAL, WHOLE]);
    reloads.grant(7);
    let world = &reloads.host.world;
    let fresh = |limits: &[&str]| -> u64 {
        let fresh = fresh_records(&world.shared_conf(&map(limits)), clock::now(), PLUG).unwrap();
        fresh.iter().map(|biz| biz.records).sum()
    };
    for (limits, records) in [
        (&[MINUTE, TOTAL, WHOLE][..], 0),
        (&[MINUTE, TOTAL, WHOLE, HOUR], 0),
        (&[MINUTE, TOTAL], 0),
        (&[MINUTE], 0),
        (&[MINUTE, HOUR, WHOLE], 1),
        (&[TOTAL, MINUTE, WHOLE], 1),
        (&[MINUTE, TOTAL, "policy='count' scope='biz'"], 1),
        (&[HOUR, MINUTE, TOTAL, WHOLE], 2),
    ] {
        assert_eq!(fresh(limits), records, "{limits:?}");
    }
}

#[test]
fn a_tool_shows_the_leases_that_stay_and_does_not_name_words_of_other_limits() {
    let mut reloads = Reloads::new(&[MINUTE, TOTAL]);
    reloads.grant(7);
    assert!(!reloads.update(3));
    let shown = |reloads: &Reloads| {
        let mut reader = Reader::open(&reloads.host.world.dir, PLUG).unwrap();
        let Look::At(record) = reader.node("b", "k", clock::now()).unwrap() else {
            panic!("a record")
        };
        let leases = record.shared.iter().map(|lease| lease.allowance);
        let named = (reader.state_words(&record).len(), reader.shared_fields(&record).len());
        (record.outdated, leases.collect::<Vec<_>>(), named.0 > 0, named.1 > 0)
    };
    assert_eq!(shown(&reloads), (false, vec![7, 7], true, true));
    reloads.reload(&[MINUTE, HOUR]);
    assert_eq!(shown(&reloads), (false, vec![7, 0], false, false));
    reloads.reload(&[HOUR]);
    assert_eq!(shown(&reloads), (true, vec![0], false, false));
}
