//! Everything that decides instead of the limits, or cancels their refusals: lists, overrides,
//! modes, degrade, advice.

use frs_limit::List;

use crate::testing::{Ask, World, request};
use crate::{Answers, Command, ItemError, ItemNames, ItemOptions, Request, Service, Verdict};

const NOW: u64 = 1_700_000_000_000;

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="16" chain="8" node-size="192"/>
  <biz id="1" name="listed" key="string">
    <limit policy="interval" interval="1h" max="2"/>
    <limit policy="sliding" interval="1m" max="2"/>
    <allow key="friend*"/>
    <deny key="friend-of-eve"/>
    <deny key="eve"/>
    <override key="big*" limit="1" max="5"/>
    <override key="big*" limit="2" max="4"/>
    <override key="big-one" limit="2" max="9"/>
  </biz>
  <biz id="2" name="shadowed" key="string" mode="shadow">
    <limit policy="interval" interval="1h" max="2" ban="1h"/>
    <deny key="eve"/>
  </biz>
  <biz id="3" name="off" key="string" mode="off">
    <limit policy="interval" interval="1h" max="2"/>
    <deny key="eve"/>
  </biz>
  <biz id="4" name="advised" key="string">
    <limit policy="interval" interval="1h" max="2" on-exceed="captcha"/>
    <limit policy="interval" interval="1h" max="3" on-exceed="sms"/>
    <limit policy="interval" interval="1h" max="4"/>
    <limit policy="count"/>
  </biz>
  <biz id="5" name="soft" key="string">
    <limit policy="count"><weight at="2" value="1"/><weight at="4" value="0.3"/></limit>
  </biz>
  <biz id="6" name="plain" key="string"><limit policy="interval" interval="1h" max="2"/></biz>
  <biz id="7" name="addresses" key="ip">
    <limit policy="interval" interval="1h" max="1"/>
    <allow key="10.0.0.0/8"/>
    <deny key="10.6.6.6"/>
  </biz>
</map>"#;

fn service() -> (World, Service) {
    let world = World::new(MAP);
    let service = world.attach();
    (world, service)
}

fn updates(service: &mut Service, biz: &str, key: &str, times: usize) -> Verdict {
    (0..times).map(|_| service.update(biz, key, NOW)).last().unwrap()
}

/// The number of Updates that pass, of ten.
fn admitted(service: &mut Service, biz: &str, key: &str) -> usize {
    (0..10).filter(|_| !service.update(biz, key, NOW).limited).count()
}

fn atomic(service: &mut Service, items: &[Ask<'_>]) -> Answers {
    service.answers(&request(Command::Update, true, items), NOW)
}

fn is_unjudged(verdict: &Verdict) -> bool {
    verdict.limit == 0 && verdict.retry_ms.is_none() && verdict.window_ms.is_none()
}

#[test]
fn allow_and_deny_decide_and_touch_no_state() {
    let (world, mut service) = service();
    let friend = updates(&mut service, "listed", "friend-1", 9);
    assert!(!friend.limited && is_unjudged(&friend));
    assert_eq!(friend.list, Some(List::Allow));
    for command in [Command::Query, Command::Update] {
        for count in [-1, 0, 1] {
            let eve = service.one(command, "listed", "friend-of-eve", count, NOW).unwrap();
            assert!(eve.limited && is_unjudged(&eve), "{command:?} {count}");
            assert_eq!(eve.list, Some(List::Deny));
        }
    }
    assert_eq!(world.group("g").verify().nodes, 0);
}

#[test]
fn a_list_decides_before_the_store_but_after_the_checks_of_the_item() {
    let (world, mut service) = service();
    world.quarantine("g");
    let one = |service: &mut Service, key| service.one(Command::Update, "listed", key, 1, NOW);
    assert_eq!(one(&mut service, "eve").unwrap().list, Some(List::Deny));
    assert_eq!(one(&mut service, "alice"), Err(ItemError::Store));
    assert_eq!(one(&mut service, ""), Err(ItemError::BadKey));
    let mut request = Request::default();
    request.begin(Command::Update);
    request.push("listed", "eve", ItemOptions::NO_COUNT);
    let answer = service.answers(&request, NOW).items.remove(0);
    assert_eq!(answer.result, Err(ItemError::BadCount));
}

#[test]
fn a_denied_item_refuses_an_atomic_request_unless_forced() {
    let (_world, mut service) = service();
    let answers = atomic(&mut service, &[Ask("plain", "a", 1), Ask("listed", "eve", 1)]);
    assert!(answers.refused);
    assert_eq!(service.used("plain", "a", NOW), 0);
    let answers = atomic(&mut service, &[Ask("plain", "a", 1), Ask("listed", "friend", 1)]);
    assert!(!answers.refused);
    assert_eq!(answers.items[1].result.unwrap().list, Some(List::Allow));
    let mut request = Request::default();
    request.begin(Command::Update);
    request.atomic = true;
    request.push("plain", "a", ItemOptions::ONE);
    request.push("listed", "eve", ItemOptions::ONE.forced());
    let answers = service.answers(&request, NOW);
    assert!(!answers.refused && answers.items[1].result.unwrap().limited);
    assert_eq!(service.used("plain", "a", NOW), 2);
}

#[test]
fn overrides_are_chosen_limit_by_limit() {
    let (_world, mut service) = service();
    assert_eq!(admitted(&mut service, "listed", "small"), 2);
    assert_eq!(admitted(&mut service, "listed", "big-two"), 4);
    assert_eq!(admitted(&mut service, "listed", "big-one"), 5);
    let verdict = service.one(Command::Query, "listed", "big-one", 1, NOW).unwrap();
    assert_eq!((verdict.limit, verdict.figures.max), (1, 5));
}

#[test]
fn addresses_are_matched_by_block() {
    let (_world, mut service) = service();
    assert_eq!(admitted(&mut service, "addresses", "192.0.2.1"), 1);
    assert_eq!(admitted(&mut service, "addresses", "10.1.1.1"), 10);
    assert_eq!(admitted(&mut service, "addresses", "::ffff:10.6.6.6"), 0);
}

#[test]
fn a_shadow_measures_and_refuses_nothing() {
    let (_world, mut service) = service();
    let passed = updates(&mut service, "shadowed", "a", 2);
    assert!(!passed.limited && !passed.shadow);
    let third = service.update("shadowed", "a", NOW);
    assert!(!third.limited && third.shadow && !third.banned);
    assert_eq!((third.retry_ms, third.figures.used), (None, 2), "not charged");
    // The refusal has started a ban, which also holds in the next window.
    let later = service.update("shadowed", "a", NOW + 3_600_000 - 1);
    assert!(later.shadow && !later.limited);
    let denied = service.update("shadowed", "eve", NOW);
    assert!(denied.shadow && !denied.limited && is_unjudged(&denied));
    let answers = atomic(&mut service, &[Ask("shadowed", "a", 1), Ask("plain", "p", 1)]);
    assert!(!answers.refused);
    assert!(answers.items[0].result.unwrap().shadow);
    assert_eq!(service.used("plain", "p", NOW), 1);
    assert_eq!(service.used("shadowed", "a", NOW), 2);
}

#[test]
fn a_biz_that_is_off_leaves_the_store_alone() {
    let (world, mut service) = service();
    let verdict = updates(&mut service, "off", "a", 5);
    assert!(!verdict.limited && is_unjudged(&verdict) && verdict.list.is_none());
    assert!(!service.update("off", "eve", NOW).limited);
    assert_eq!(world.group("g").verify().nodes, 0);
    world.quarantine("g");
    assert!(service.one(Command::Update, "off", "a", 1, NOW).is_ok());
}

#[test]
fn degraded_puts_every_biz_at_off() {
    let (world, mut service) = service();
    updates(&mut service, "plain", "a", 2);
    world.publish_degraded(MAP, 2);
    for (biz, key) in [("plain", "a"), ("listed", "eve"), ("shadowed", "a"), ("off", "a")] {
        let verdict = service.update(biz, key, NOW);
        assert!(verdict.degraded && !verdict.limited && is_unjudged(&verdict), "{biz}");
    }
    assert_eq!(service.one(Command::Update, "?", "a", 1, NOW), Err(ItemError::UnknownBiz));
    world.publish(MAP, 3);
    assert!(service.update("plain", "a", NOW).limited, "what was counted is still there");
}

#[test]
fn advice_is_charged_beyond_and_the_last_listed_wins() {
    let (_world, mut service) = service();
    let mut words = Vec::new();
    for _ in 0..6 {
        let answers =
            service.answers(&request(Command::Update, false, &[Ask("advised", "a", 1)]), NOW);
        let verdict = answers.items[0].result.unwrap();
        let word = answers.action(&answers.items[0]).unwrap_or("-");
        words.push(format!("{word} {} {}", verdict.limited, verdict.limit));
    }
    let expected =
        ["- false 3", "- false 3", "captcha false 3", "sms false 3", "sms true 3", "sms true 3"];
    assert_eq!(words, expected);
    // A Query carries the action if the Update would.
    let answers = service.answers(&request(Command::Query, false, &[Ask("advised", "b", 3)]), NOW);
    assert_eq!(answers.action(&answers.items[0]), Some("captcha"));
    // An atomic request carries each item's own action too.
    let items = [Ask("advised", "c", 3), Ask("advised", "c", 1), Ask("advised", "d", 1)];
    let answers = atomic(&mut service, &items);
    let words: Vec<_> = answers.items.iter().map(|item| answers.action(item)).collect();
    assert_eq!(words, [Some("captcha"), Some("sms"), None]);
}

#[test]
fn weights_go_by_what_is_used_after_the_command() {
    let (_world, mut service) = service();
    let weights: Vec<_> = (0..5).map(|_| service.update("soft", "a", NOW).weight).collect();
    assert_eq!(weights, [Some(1000), Some(1000), Some(650), Some(300), Some(300)]);
    assert_eq!(service.one(Command::Query, "soft", "b", 1, NOW).unwrap().weight, Some(1000));
    assert_eq!(service.update("plain", "a", NOW).weight, None);
}

#[test]
fn an_item_that_fails_has_nothing_of_the_one_before() {
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="8" node-size="64"/>
        <biz id="1" name="many" key="string"><limit policy="interval" interval="1h" max="9"/>
          <override key="a" limit="1" max="1"/><override key="b" limit="1" max="2"/>
          <override key="c" limit="1" max="3"/><override key="d" limit="1" max="4"/></biz>
        <biz id="2" name="few" key="string"><limit policy="interval" interval="1h" max="9"/>
          <override key="a" limit="1" max="1"/></biz></map>"#,
    );
    let mut service = world.attach();
    service.update("many", "d", NOW);
    for (biz, key, count) in [("few", "x", None), ("few", "", Some(1)), ("?", "x", Some(1))] {
        let mut request = Request::default();
        request.begin(Command::Update);
        request.atomic = true;
        request.push(biz, key, ItemOptions { count, ..ItemOptions::ONE });
        let answers = service.answers(&request, NOW);
        assert!(answers.refused && answers.items[0].result.is_err());
    }
}

#[test]
fn a_map_without_any_biz_fails_items_and_nothing_else() {
    let world =
        World::new(r#"<map><group name="g" files="1" key-nodes="8" node-size="64"/></map>"#);
    let mut service = world.attach();
    let answers = atomic(&mut service, &[Ask("x", "x", 1)]);
    assert_eq!(answers.items[0].result, Err(ItemError::UnknownBiz));
    assert_eq!(service.one(Command::Update, "x", "x", 1, NOW), Err(ItemError::UnknownBiz));
}

const CROWDED: &str = r#"<map>
  <group name="g" files="1" key-nodes="1" chain="4" node-size="128" on-full="ON-FULL"/>
  <biz id="1" name="s" key="string" mode="shadow">
    <limit policy="interval" interval="1h" max="2" ban="1h"/>
  </biz>
  <biz id="2" name="p" key="string"><limit policy="interval" interval="1h" max="5"/></biz>
</map>"#;

#[test]
fn a_shadow_bans_in_an_atomic_request_too() {
    let world = World::new(&CROWDED.replace("ON-FULL", "evict"));
    let mut service = world.attach();
    let answers = atomic(&mut service, &[Ask("s", "x", 3), Ask("p", "x", 1)]);
    assert!(!answers.refused && answers.items[0].result.unwrap().shadow);
    world.verify();
    assert!(service.one(Command::Query, "s", "x", 0, NOW).unwrap().shadow, "the ban");
    // The same in a full chain: an evicted record is gone as a whole, and counted.
    (0..2).for_each(|n| assert!(!service.update("p", &format!("k{n}"), NOW).limited));
    let evicted = || world.runtime().count_of_groups(frs_store::GroupCounter::EvictionsIdle);
    assert_eq!(evicted(), 0);
    atomic(&mut service, &[Ask("s", "y", 3)]);
    world.verify();
    assert_eq!(evicted(), 1);
    assert!(service.one(Command::Query, "s", "y", 0, NOW).unwrap().shadow, "the ban");
}

#[test]
fn a_shadow_without_a_place_refuses_nobody_else() {
    let world = World::new(&CROWDED.replace("ON-FULL", "refuse"));
    let mut service = world.attach();
    (0..4).for_each(|n| assert!(!service.update("p", &format!("k{n}"), NOW).limited));
    let answers = atomic(&mut service, &[Ask("s", "x", 1), Ask("p", "k0", 1)]);
    assert_eq!(answers.items[0].result, Err(ItemError::Full));
    assert!(!answers.refused);
    assert_eq!(service.used("p", "k0", NOW), 2);
    assert!(atomic(&mut service, &[Ask("p", "x", 1), Ask("p", "k0", 1)]).refused);
}

#[test]
fn of_two_bans_in_one_request_the_longest_stays() {
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="8" node-size="128"/>
        <biz id="1" name="b" key="string">
          <limit policy="interval" interval="1h" max="5" ban="10m"/>
          <limit policy="interval" interval="1h" max="3" scope="biz" ban="1m"/></biz></map>"#,
    );
    for items in [[Ask("b", "x", 6), Ask("b", "x", 4)], [Ask("b", "y", 4), Ask("b", "y", 6)]] {
        let mut service = world.attach();
        let answers = atomic(&mut service, &items);
        assert!(answers.refused && answers.items.iter().all(|item| item.result.unwrap().banned));
        let left = service.one(Command::Query, "b", items[0].1, 0, NOW).unwrap().retry_ms;
        assert_eq!(left, Some(600_000));
    }
}

#[test]
fn an_override_of_another_key_changes_nobodys_place_in_a_full_chain() {
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="1" chain="8" node-size="64"/>
        <biz id="1" name="b" key="string"><limit policy="interval" interval="1h" max="5"/>
          <override key="suspect" limit="1" max="1"/></biz></map>"#,
    );
    let mut service = world.attach();
    updates(&mut service, "b", "limited", 5);
    for n in 0..8 {
        service.update("b", &format!("new{n}"), NOW + 1 + n);
    }
    assert!(service.update("b", "limited", NOW + 99).limited, "idle ones make room first");
    // The suspect's own record is one that limits.
    assert!(!service.update("b", "suspect", NOW + 100).limited);
    for n in 0..8 {
        service.update("b", &format!("more{n}"), NOW + 101 + n);
    }
    assert!(service.update("b", "suspect", NOW + 200).limited);
}

#[test]
fn a_number_is_a_key_of_integer_keys_only() {
    let world = World::new(
        r#"<map><group name="g" files="1" key-nodes="8" node-size="64"/>
        <biz id="1" name="i" key="integer"><limit policy="total" max="5"/></biz>
        <biz id="2" name="s" key="string"><limit policy="total" max="5"/></biz></map>"#,
    );
    let mut service = world.attach();
    for (biz, good) in [("i", true), ("s", false)] {
        let mut request = Request::default();
        request.begin(Command::Update);
        request.push(biz, "7", ItemOptions::ONE);
        request.note_numbers(ItemNames { biz: false, key: true });
        let result = service.answers(&request, NOW).items.remove(0).result;
        assert_eq!(result.is_ok(), good, "{biz}");
        assert!(good || result == Err(ItemError::BadKey));
    }
}
