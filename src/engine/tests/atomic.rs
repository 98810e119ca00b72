//! Atomic requests: all items or none, figures as stored, bans even if nothing is charged.

use crate::testing::{Ask, World, request};
use crate::{Command, ItemError, ItemOptions, Request};

const MAP: &str = r#"<map>
  <group name="one" files="1" key-nodes="4" chain="8" node-size="128"/>
  <group name="two" files="2" key-nodes="64" chain="8" node-size="64"/>
  <biz id="1" name="a" group="one" key="string"><limit policy="interval" interval="1m" max="5"/></biz>
  <biz id="2" name="b" group="two" key="string"><limit policy="interval" interval="1m" max="3"/></biz>
  <biz id="3" name="bans" group="one" key="string"><limit policy="interval" interval="1m" max="1" ban="1h"/></biz>
</map>"#;

const NOW: u64 = 1_700_000_000_000;

// Shows: refused-changes-nothing.
#[test]
fn all_are_charged_or_none() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let asks = [Ask("a", "x", 2), Ask("b", "x", 2), Ask("a", "y", 1)];
    let passed = service.answers(&request(Command::Update, true, &asks), NOW);
    assert!(!passed.refused);
    let refused = service.answers(&request(Command::Update, true, &asks), NOW);
    assert!(refused.refused);
    let verdicts: Vec<_> = refused.items.iter().map(|answer| answer.result.unwrap()).collect();
    assert_eq!(verdicts.iter().map(|v| v.limited).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(verdicts.iter().map(|v| v.figures.used).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(service.used("a", "x", NOW), 2);
    assert_eq!(service.used("b", "x", NOW), 2);
    world.verify();
}

#[test]
fn the_same_key_twice_sees_its_own_charges() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let twice = [Ask("b", "x", 2), Ask("b", "x", 2)];
    let refused = service.answers(&request(Command::Update, true, &twice), NOW);
    assert!(refused.refused);
    assert!(!refused.items[0].result.unwrap().limited);
    assert!(refused.items[1].result.unwrap().limited);
    assert_eq!(service.used("b", "x", NOW), 0);
    let fits = [Ask("b", "x", 2), Ask("b", "x", 1)];
    let passed = service.answers(&request(Command::Update, true, &fits), NOW);
    assert!(!passed.refused);
    let used: Vec<_> = passed.items.iter().map(|i| i.result.unwrap().figures.used).collect();
    assert_eq!(used, [3, 3], "figures are those stored");
}

#[test]
fn a_query_answers_what_the_update_would_and_changes_nothing() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let twice = [Ask("b", "x", 2), Ask("b", "x", 2)];
    let asked = service.answers(&request(Command::Query, true, &twice), NOW);
    assert!(asked.refused);
    assert!(asked.items[1].result.unwrap().limited);
    assert_eq!(world.group("two").verify().nodes, 0);
}

// Shows: refused-changes-nothing.
#[test]
fn a_failed_item_refuses_all() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let asks = [Ask("a", "x", 1), Ask("nope", "x", 1)];
    let answers = service.answers(&request(Command::Update, true, &asks), NOW);
    assert!(answers.refused);
    assert!(!answers.items[0].result.unwrap().limited);
    assert_eq!(answers.items[1].result, Err(ItemError::UnknownBiz));
    assert_eq!(service.used("a", "x", NOW), 0);
}

#[test]
fn a_refusing_item_still_starts_its_ban() {
    let world = World::new(MAP);
    let mut service = world.attach();
    service.update("bans", "eve", NOW);
    let asks = [Ask("a", "x", 1), Ask("bans", "eve", 1)];
    let answers = service.answers(&request(Command::Update, true, &asks), NOW);
    assert!(answers.refused);
    let eve = answers.items[1].result.unwrap();
    assert!(eve.limited && eve.banned);
    assert_eq!(eve.figures.used, 1);
    assert_eq!(service.used("a", "x", NOW), 0);
    let later = service.update("bans", "eve", NOW + 120_000);
    assert!(later.banned);
    world.verify();
}

#[test]
fn a_forced_item_never_refuses_the_request() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let mut forced = Request::default();
    forced.begin(Command::Update);
    forced.atomic = true;
    forced.push("b", "x", ItemOptions::of(9).forced());
    forced.push("a", "x", ItemOptions::ONE.detailed());
    let answers = service.answers(&forced, NOW);
    assert!(!answers.refused);
    assert!(answers.items[0].result.unwrap().limited);
    assert_eq!(answers.items[0].result.unwrap().figures.used, 9);
    assert_eq!(answers.details.limits[answers.items[1].details.clone()][0].figures.used, 1);
    assert_eq!(service.used("b", "x", NOW), 9);
}

#[test]
fn more_keys_than_a_chain_holds_are_full_and_charge_nothing() {
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="1" chain="4" node-size="64"/>
        <biz id="1" name="a" key="string"><limit policy="interval" interval="1m" max="5"/></biz></map>"#,
    );
    let mut service = world.attach();
    let asks = ["1", "2", "3", "4", "5"].map(|key| Ask("a", key, 1));
    let answers = service.answers(&request(Command::Update, true, &asks), NOW);
    assert!(answers.refused);
    assert_eq!(answers.items[4].result, Err(ItemError::Full));
    assert_eq!(world.group("g").verify().nodes, 0);
    let four = service.answers(&request(Command::Update, true, &asks[..4]), NOW);
    assert!(!four.refused);
    assert_eq!(world.group("g").verify().nodes, 4);
}
