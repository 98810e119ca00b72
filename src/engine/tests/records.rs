//! Single records changed by hand, and counters that were reset.

use frs_conf::{EpochRaise, EpochStep, Lifts, Overlay};

use crate::testing::World;
use crate::{Clearing, Command, ItemError, LimitUse, RecordError, RecordName, Service};

const NOW: u64 = 1_700_000_000_000;
const HOUR: u64 = 3_600_000;

const MAP: &str = r#"<map>
  <group name="g" files="2" key-nodes="4" chain="16" node-size="256"/>
  <biz id="1" name="interval" key="string">
    <limit policy="interval" interval="1h" max="10" debt="5"/></biz>
  <biz id="2" name="calendar" key="string"><limit policy="calendar" unit="day" max="10"/></biz>
  <biz id="3" name="sliding" key="string">
    <limit policy="sliding" interval="1m" max="10"/><limit policy="sliding" interval="1h" max="20"/>
  </biz>
  <biz id="4" name="counter" key="string">
    <limit policy="sliding-counter" interval="1h" max="10"/></biz>
  <biz id="5" name="token" key="string"><limit policy="token" rate="10/h" burst="10"/></biz>
  <biz id="6" name="total" key="string"><limit policy="total" max="10"/></biz>
  <biz id="7" name="count" key="string"><limit policy="count"/></biz>
  <biz id="8" name="banned" key="string">
    <limit policy="interval" interval="1h" max="1" ban="1h"/></biz>
  <biz id="9" name="both" key="string">
    <limit policy="total" max="10"/><limit policy="total" scope="biz" max="20"/></biz>
</map>"#;

const NAMES: [&str; 7] = ["interval", "calendar", "sliding", "counter", "token", "total", "count"];

fn set(service: &mut Service, biz: &str, used: u32, now: u64) -> Result<(), RecordError> {
    service.begin_tick();
    service.set_used(RecordName::of_key(biz, "k"), 1, used, now).map(drop)
}

fn reset(world: &World, overlay: &mut Overlay, biz: u32, generation: u64) {
    overlay.reset(biz, None).unwrap();
    world.publish_overlaid(MAP, generation, overlay);
}

#[test]
fn every_policy_can_be_set_up_and_down() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for biz in NAMES {
        for used in [4, 10, 1, 7, 0, 3] {
            set(&mut service, biz, used, NOW).unwrap_or_else(|error| panic!("{biz}: {error}"));
            assert_eq!(service.used(biz, "k", NOW), u64::from(used), "{biz}");
        }
        assert_eq!(service.update(biz, "k", NOW).figures.used, 4, "{biz} goes on from there");
        // The state of an earlier window does not prevent the change.
        set(&mut service, biz, 2, NOW + HOUR + HOUR / 2).unwrap();
        assert_eq!(service.used(biz, "k", NOW + HOUR + HOUR / 2), 2, "{biz}");
    }
    world.verify();
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_changed() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for (biz, used) in [("sliding", 21), ("token", 11)] {
        set(&mut service, biz, 5, NOW).unwrap();
        assert_eq!(set(&mut service, biz, used, NOW), Err(RecordError::TooMuch), "{biz}");
        assert_eq!(service.used(biz, "k", NOW), 5, "{biz}");
    }
    service.set_used(RecordName::of_key("sliding", "k"), 2, 7, NOW).unwrap();
    let of = |which, limit| world.attach().set_used(which, limit, 1, NOW).map(drop);
    assert_eq!(of(RecordName::of_biz("nope"), 1), Err(ItemError::UnknownBiz.into()));
    assert_eq!(of(RecordName::of_key("total", ""), 1), Err(ItemError::BadKey.into()));
    assert_eq!(of(RecordName::of_biz("total"), 1), Err(RecordError::NoKey));
    assert_eq!(of(RecordName::of_key("total", "k"), 2), Err(RecordError::UnknownLimit));
    assert_eq!(of(RecordName::of_key("total", "k"), 0), Err(RecordError::UnknownLimit));
    world.quarantine("g");
    assert_eq!(of(RecordName::of_key("total", "k"), 1), Err(ItemError::Store.into()));
}

#[test]
fn a_record_is_erased_and_leaves_its_place() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for biz in NAMES {
        assert_eq!(service.erase(RecordName::of_key(biz, "k"), NOW), Ok(None));
        service.update(biz, "k", NOW);
        let was = service.erase(RecordName::of_key(biz, "k"), NOW).unwrap().unwrap();
        assert_eq!(was.uses[0], LimitUse { limit: 1, used: 1 }, "{biz}");
        assert_eq!(service.used(biz, "k", NOW), 0);
    }
    service.update("both", "k", NOW);
    let was = service.erase(RecordName::of_biz("both"), NOW).unwrap().unwrap();
    assert_eq!(was.uses, [LimitUse { limit: 2, used: 1 }]);
    service.set_used(RecordName::of_biz("both"), 2, 20, NOW).unwrap();
    assert!(service.update("both", "k", NOW).limited, "20 for all");
    assert_eq!(service.erase(RecordName::of_biz("total"), NOW), Err(RecordError::NoRecord));
    let nodes = world.group("g").verify().nodes;
    assert_eq!(nodes, 2, "of both, and nothing of the others");
    world.verify();
}

#[test]
fn a_reset_makes_counters_and_bans_of_one_biz_fresh() {
    let world = World::new(MAP);
    let (mut service, mut other) = (world.attach(), world.attach());
    for biz in NAMES.into_iter().chain(["both"]) {
        service.one(Command::Update, biz, "k", 6, NOW).unwrap();
    }
    service.update("banned", "k", NOW);
    assert!(service.update("banned", "k", NOW).banned);
    let mut overlay = Overlay::default();
    for (biz, generation) in (1..=9).zip(2..) {
        reset(&world, &mut overlay, biz, generation);
        let name = &world.conf.map.bizs[biz as usize - 1].name;
        assert_eq!(other.used(name, "k", NOW), 0, "{name}");
        assert_eq!(service.update(name, "k", NOW).figures.used, 1, "{name}");
        assert_eq!(other.update(name, "k", NOW).figures.used, if biz == 8 { 1 } else { 2 });
        for later in &world.conf.map.bizs[biz as usize..] {
            assert!(service.used(&later.name, "k", NOW) > 0, "{} is not meant", later.name);
        }
    }
    assert_eq!(world.attach().used("total", "k", NOW), 2, "who comes later sees the same");
    world.verify();
}

// Shows: lifted-bans.
#[test]
fn a_lift_ends_the_bans_of_one_biz_and_its_counts_stay() {
    let map = MAP.replace("id=\"9\" name=\"both\"", "id=\"9\" name=\"twin\"").replace(
        "<limit policy=\"total\" max=\"10\"/><limit policy=\"total\" scope=\"biz\" max=\"20\"/>",
        "<limit policy=\"interval\" interval=\"1h\" max=\"1\" ban=\"1h\"/>",
    );
    let world = World::new(&map);
    let (mut service, mut other) = (world.attach(), world.attach());
    for biz in ["banned", "twin"] {
        for key in ["a", "b"] {
            service.update(biz, key, NOW);
            assert!(service.update(biz, key, NOW).banned, "{biz} {key}");
        }
    }
    let mut overlay = Overlay::default();
    let raised = map.replacen("max=\"1\" ban", "max=\"3\" ban", 1);
    for generation in 2..5 {
        overlay.lift_bans(8, NOW).unwrap();
        world.publish_overlaid(&raised, generation, &overlay);
        for (service, key) in [(&mut service, "a"), (&mut other, "b")] {
            service.begin_tick();
            // The limit is 3 now. Each lift leaves room for one use, and the counts continue.
            let verdict = service.update("banned", key, NOW);
            let used = generation.min(3);
            assert_eq!((verdict.banned, verdict.figures.used), (generation == 4, used), "{key}");
            assert!(service.update("twin", key, NOW).banned, "it is not meant");
        }
        if generation == 3 {
            assert!(service.update("banned", "a", NOW).banned, "a new ban after the lift holds");
            assert!(other.update("banned", "a", NOW).banned);
        }
    }
    // A reset voids the records: the count of lifts begins again, and no old ban returns.
    overlay.reset(8, None).unwrap();
    world.publish_overlaid(&raised, 5, &overlay);
    service.begin_tick();
    assert_eq!(overlay.lifts(8), Lifts::default());
    assert_eq!(service.update("banned", "a", NOW).figures.used, 1);
    world.verify();
}

// Shows: lifted-bans.
#[test]
fn who_is_set_below_the_limit_is_no_longer_banned() {
    let world = World::new(MAP);
    let mut service = world.attach();
    service.update("banned", "k", NOW);
    let until = NOW + HOUR;
    assert!(service.update("banned", "k", NOW).banned);
    let mut set = |used| service.set_used(RecordName::of_key("banned", "k"), 1, used, NOW).unwrap();
    let edit = set(1);
    assert_eq!(edit.old.uses, [LimitUse { limit: 1, used: 1 }]);
    assert_eq!((edit.old.banned_until_ms, edit.new.banned_until_ms), (Some(until), Some(until)));
    let edit = set(0);
    assert_eq!((edit.old.banned_until_ms, edit.new.banned_until_ms), (Some(until), None));
    assert_eq!(edit.new.uses, [LimitUse { limit: 1, used: 0 }]);
    assert!(!service.update("banned", "k", NOW).limited);
    assert!(service.update("banned", "k", NOW).banned, "and again");
    let was = service.erase(RecordName::of_key("banned", "k"), NOW).unwrap().unwrap();
    assert_eq!(was.banned_until_ms, Some(until));
    world.verify();
}

#[test]
fn void_records_make_room_first_and_are_cleared_away() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let keys: Vec<String> = (0..1000).map(|key| key.to_string()).collect();
    let created =
        keys.iter().filter(|key| service.one(Command::Update, "total", key, 1, NOW).is_ok());
    let created: Vec<&String> = created.collect();
    assert!(created.len() < keys.len(), "a total in use is never evicted: the group is full");
    let mut overlay = Overlay::default();
    reset(&world, &mut overlay, 6, 2);
    for key in &keys[..8] {
        assert_eq!(service.update("interval", key, NOW).figures.used, 1, "there is room again");
    }
    let mut clearing = Clearing::default();
    while !service.clear_void(6, &mut clearing, 3, NOW).unwrap() {}
    assert!(clearing.erased > 0);
    let report = world.group("g").verify();
    assert_eq!(report.nodes, created.len() as u64 - 8 + 8 - clearing.erased);
    for key in &keys[..8] {
        assert_eq!(service.used("interval", key, NOW), 1, "others stay");
    }
    assert_eq!(service.clear_void(77, &mut clearing, 1, NOW), Err(ItemError::UnknownBiz));
    world.verify();
}

// Shows: shared-resets.
#[test]
fn an_epoch_far_away_with_the_same_low_bits_revives_no_record() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let mut overlay = Overlay::default();
    let mut generation = 1;
    for target in [3, 259, 260, 516, 515 + (1 << 40)] {
        for key in ["k", "l"] {
            service.one(Command::Update, "total", key, 4, NOW).unwrap();
        }
        while let Some(step) = EpochStep::towards(overlay.epoch(6), target) {
            let mut clearing = Clearing::default();
            while step.must_clear && !service.clear_void(6, &mut clearing, 64, NOW).unwrap() {}
            let from = overlay.epoch(6);
            assert!(overlay.follow(EpochRaise { biz: 6, from, to: step.to }));
            generation += 1;
            world.publish_overlaid(MAP, generation, &overlay);
            service.begin_tick();
            // One of the two keys is used in between.
            assert_eq!(service.update("total", "l", NOW).figures.used, 1, "in {}", step.to);
        }
        assert_eq!(service.epoch(6), Some(target));
        assert_eq!(service.used("total", "k", NOW), 0, "in {target}");
        assert_eq!(service.used("total", "l", NOW), 1, "in {target}");
    }
    world.verify();
}

#[test]
fn clearing_away_begins_anew_when_the_groups_may_be_others() {
    let group = |name: &str| {
        format!("<group name='{name}' files='1' key-nodes='8' chain='8' node-size='64'/>")
    };
    let biz =
        "<biz id='1' name='b' key='integer' group='two'><limit policy='total' max='9'/></biz>";
    let both = format!("<map>{}{}{biz}</map>", group("one"), group("two"));
    let world = World::new(&both);
    let mut service = world.attach();
    for key in 0..8 {
        service.update("b", &key.to_string(), NOW);
    }
    let mut overlay = Overlay::default();
    overlay.reset(1, None).unwrap();
    world.publish_overlaid(&both, 2, &overlay);
    service.begin_tick();
    let mut clearing = Clearing::default();
    // All of the first group, and half of the second, which is the first one after a reload.
    assert_eq!(service.clear_void(1, &mut clearing, 12, NOW), Ok(false));
    assert_eq!(clearing.erased, 4);
    world.publish_overlaid(&format!("<map>{}{biz}</map>", group("two")), 3, &overlay);
    service.begin_tick();
    while !service.clear_void(1, &mut clearing, 12, NOW).unwrap() {}
    assert_eq!(clearing.erased, 8);
    assert_eq!(world.group("two").verify().nodes, 0);
}
