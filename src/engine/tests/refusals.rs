//! Refused Updates. Invariant: each is counted once, by the limit or ban that refused it and by its
//! key, and nothing else is counted.

use frs_store::counter::{BizKey, REFUSERS};
use frs_store::{RefusedKeys, Window};

use crate::testing::{Ask, World, request};
use crate::{Command, Exchange, ItemOptions, Refuser, Stage};

const NOW: u64 = 1_700_000_000_000;

const MAP: &str = "<map>
  <group name='g' files='1' key-nodes='64' chain='8' node-size='256' key-bytes='16'/>
  <biz id='1' name='two' key='string'>
    <limit policy='interval' interval='1m' max='100'/>
    <limit policy='interval' interval='1h' max='2'/>
    <deny key='eve'/>
  </biz>
  <biz id='2' name='ban' key='string'>
    <limit policy='interval' interval='1m' max='1' ban='1h'/></biz>
  <biz id='3' name='shadow' key='string' mode='shadow'>
    <limit policy='interval' interval='1m' max='1'/></biz>
  <biz id='4' name='api' key='ip' ipv6-prefix='64'>
    <limit policy='interval' interval='1m' max='1'/></biz>
  <biz id='5' name='number' key='integer'>
    <limit policy='interval' interval='1m' max='1'/></biz>
  <biz id='6' name='secret' key='digest'>
    <limit policy='interval' interval='1m' max='1'/></biz>
</map>";

const BANS: &str = "<map>
  <group name='g' files='1' key-nodes='64' chain='8' node-size='256' key-bytes='16'/>
  <biz id='1' name='two' key='string'>
    <limit policy='count'/>
    <limit policy='interval' interval='1m' max='1' ban='1m'/>
    <limit policy='interval' interval='10m' max='2' ban='1h'/>
  </biz>
</map>";

fn refusals(world: &World, id: u32) -> [u64; REFUSERS] {
    world.runtime().sums().bizs.get(&BizKey::Id(id)).map(|sums| sums.refusals).unwrap_or_default()
}

fn refused(world: &World, id: u32) -> RefusedKeys {
    world.runtime().refused_keys(Some(id), Window::Minute, 10, NOW)
}

/// The refused keys as text, and the refusals of each.
fn keys(world: &World, id: u32) -> Vec<(String, u64)> {
    let text = |key: frs_store::RefusedKey| key.key().unwrap().to_string();
    let found = refused(world, id).keys.into_iter();
    found.map(|found| (text(found.key), found.refused)).collect()
}

#[test]
fn what_refuses_is_counted() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for _ in 0..5 {
        for (biz, key) in [("two", "a"), ("ban", "a"), ("shadow", "a"), ("two", "eve")] {
            let _ = service.one(Command::Update, biz, key, 1, NOW);
            let _ = service.one(Command::Query, biz, key, 1, NOW);
        }
    }
    let _ = service.one(Command::Update, "two", "b", 101, NOW);
    let two = refusals(&world, 1);
    assert_eq!((two[1], two[2]), (1, 3), "by the first and the second limit");
    let ban = refusals(&world, 2);
    assert_eq!((ban[0], ban[1]), (3, 1), "that which starts the ban by its limit");
    for id in 1..=6 {
        let all = refusals(&world, id).iter().sum::<u64>();
        let of_keys = refused(&world, id).keys.iter().map(|found| found.refused).sum::<u64>();
        assert_eq!(all, [4, 4, 0, 0, 0, 0][id as usize - 1], "{id}");
        assert_eq!(of_keys, all, "{id}");
    }
    assert_eq!(keys(&world, 1), [("a".to_owned(), 3), ("b".to_owned(), 1)]);
}

// Shows: bans-are-counted.
#[test]
fn what_starts_a_ban_counts_to_its_limit_and_what_follows_to_the_ban_of_that_limit() {
    let world = World::new(BANS);
    let mut service = world.attach();
    let mut ask = |key: &str, count: i32, minutes: u64| {
        service.refusal_sample_mut().room = 1;
        let now = NOW + minutes * 60_000;
        let verdict = service.one(Command::Update, "two", key, count, now).unwrap();
        let refuser = service.take_refusals().first().map(|item| item.refuser);
        (refuser, verdict.limit)
    };
    for (key, count, minutes, refuser, limit) in [
        ("short", 1, 0, None, 2),
        ("short", 1, 0, Some(Refuser::Limit(2)), 2),
        ("short", 1, 0, Some(Refuser::Ban(2)), 2),
        ("both", 3, 0, Some(Refuser::Limit(2)), 2),
        ("both", 1, 0, Some(Refuser::Ban(3)), 3),
        ("long", 1, 0, None, 2),
        ("long", 1, 2, None, 2),
        ("long", 1, 4, Some(Refuser::Limit(3)), 3),
        ("long", 1, 5, Some(Refuser::Ban(3)), 3),
        // Its window has turned, so only the ban refuses.
        ("long", 1, 30, Some(Refuser::Ban(3)), 3),
    ] {
        assert_eq!(ask(key, count, minutes), (refuser, limit), "{key} after {minutes} min");
    }
    let counts = refusals(&world, 1);
    assert_eq!(counts[..4], [4, 0, 2, 1], "{counts:?}");
    // Two items of one request: neither was refused by a ban.
    let two = [Ask("two", "other", 3), Ask("two", "other", 3)];
    service.answers(&request(Command::Update, true, &two), NOW);
    assert_eq!(refusals(&world, 1)[..4], [4, 0, 4, 1]);
}

// Shows: refused-keys.
#[test]
fn all_ways_of_running_count() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let _ = service.one(Command::Update, "two", "k", 2, NOW);
    // Several items in one transaction: the refusing item is counted, the items that it keeps from
    // being charged are not.
    let all = [Ask("two", "free", 1), Ask("two", "k", 1)];
    service.answers(&request(Command::Update, true, &all), NOW);
    service.answers(&request(Command::Update, false, &all), NOW);
    let exchange = |key: &str| Exchange {
        request: request(Command::Update, false, &[Ask("two", key, 1)]),
        stage: Stage::Answered,
        ..Exchange::default()
    };
    let mut exchanges = [exchange("k"), exchange("other"), exchange("k")];
    service.run_all(&mut exchanges, NOW);
    assert_eq!(keys(&world, 1), [("k".to_owned(), 4)]);
    assert_eq!(refusals(&world, 1)[2], 4);
    // A forced use is charged.
    let mut forced = request(Command::Update, false, &[]);
    forced.push("two", "k", ItemOptions::ONE.forced());
    service.answers(&forced, NOW);
    assert_eq!(keys(&world, 1), [("k".to_owned(), 4)]);
}

#[test]
fn keys_are_kept_as_text_where_they_fit() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let (fits, long) = ("k".repeat(40), "k".repeat(41));
    for (biz, key) in [
        ("two", fits.as_str()),
        ("two", long.as_str()),
        ("api", "10.0.0.1"),
        ("api", "2001:db8::1"),
        ("number", "7"),
        ("secret", "s"),
    ] {
        for _ in 0..3 {
            let _ = service.one(Command::Update, biz, key, 1, NOW);
        }
    }
    let two = keys(&world, 1);
    assert!(two.contains(&(fits, 1)), "{two:?}");
    let digest = |key: &str| key.starts_with("digest:");
    assert!(two.iter().any(|(key, _)| digest(key)), "{two:?}");
    let api = ["10.0.0.1", "2001:db8::"].map(|key| (key.to_owned(), 2));
    let mut found = keys(&world, 4);
    found.sort();
    assert_eq!(found, api);
    assert_eq!(keys(&world, 5), [("7".to_owned(), 2)]);
    let secret = keys(&world, 6);
    assert!(secret.len() == 1 && digest(&secret[0].0), "{secret:?}");
}
