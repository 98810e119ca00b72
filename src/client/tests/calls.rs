//! Calls that say more: limits of their own, parts, retries, holds.

use std::time::Duration;

use frs_engine::testing::World;

use super::client;
use crate::{Error, Item, ItemError, Verdict};

const MAP: &str = r#"<map>
  <group name="work" keys="1000"/>
  <biz id="1" name="planned" key="string">
    <limit policy="sliding" interval="1h" max="3" per-call="true" most="100"/>
  </biz>
  <biz id="2" name="paced" key="string">
    <limit policy="gcra" rate="1/s" burst="3" per-call="true"/>
  </biz>
  <biz id="3" name="tokens" key="string" once="8" holds="2" hold-ttl="10m">
    <limit policy="interval" interval="1h" max="1000"/>
  </biz>
  <biz id="4" name="jobs" key="string" hold-ttl="10m"><limit policy="concurrent" max="2"/></biz>
</map>"#;

fn world() -> World {
    World::with_lock_timeout(MAP, "20s")
}

fn error_of(result: Result<Verdict, Error>) -> ItemError {
    match result {
        Err(Error::Item(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_item_brings_its_limit() {
    let world = world();
    let client = client(&world);
    let ask = |item: Item<'_>| client.update(item).unwrap();
    let item = Item::new("planned", "alice");
    assert_eq!(ask(item.rate("2/90s")).max(), Some(2));
    assert_eq!(ask(item.max(5)).max(), Some(5));
    assert_eq!((ask(item).max(), ask(item).is_limited()), (Some(3), true));

    let paced = Item::new("paced", "alice");
    assert_eq!(ask(paced.rate("2/s").burst(7)).max(), Some(7));
    // A period that is no whole number of milliseconds.
    assert_eq!(ask(paced.rate_of(2, Duration::from_nanos(2_500), 9)).max(), Some(9));
    for bad in [
        item.rate("2/90s 3/h"),
        item.rate("2/month"),
        item.max(101),
        item.rate("2/90s").burst(3),
        paced.burst(3),
        paced.rate("2/s").max(3),
        paced.rate_of(0, Duration::from_secs(1), 1),
        Item::new("tokens", "alice").max(3),
    ] {
        assert_eq!(error_of(client.update(bad)), ItemError::BadRate, "{bad:?}");
    }
}

#[test]
fn a_partial_item_gets_what_is_left() {
    let world = world();
    let client = client(&world);
    let item = Item::new("planned", "alice").count(7).partial();
    assert_eq!(client.query(item).unwrap().granted(), Some(3));
    let part = client.update(item).unwrap();
    assert_eq!((part.is_allowed(), part.granted(), part.used()), (true, Some(3), Some(3)));
    let none = client.update(item).unwrap();
    assert_eq!((none.is_allowed(), none.granted()), (false, Some(0)));
    assert_eq!(client.update(item.count(1).max(9)).unwrap().granted(), Some(1));
    assert_eq!(client.query(Item::new("planned", "alice")).unwrap().granted(), None);
    assert_eq!(error_of(client.update(item.force())), ItemError::BadCount);
    let answers = client.batch().item(item).atomic().run().unwrap();
    assert_eq!(answers.items, [Err(ItemError::BadCount)]);
}

#[test]
fn an_id_is_charged_once_alone_and_in_a_batch() {
    let world = world();
    let client = client(&world);
    let item = Item::new("tokens", "alice").count(20);
    let seen = |verdict: Verdict| (verdict.used(), verdict.repeated());
    for is_again in [false, true] {
        assert_eq!(seen(client.update(item.once("b7c1")).unwrap()), (Some(20), is_again));
    }
    // The same id in a call that does not wait, and in a batch of several.
    assert_eq!(seen(client.try_update(item.once("b7c1")).unwrap()), (Some(20), true));
    let each = client.batch().item(item.once("b7c1")).item(item.once("b7c2")).run().unwrap();
    let each: Vec<_> = each.items.into_iter().map(|item| seen(item.unwrap())).collect();
    assert_eq!(each, [(Some(20), true), (Some(40), false)]);

    let order = client.batch().items([item, Item::new("tokens", "bob")]).once("order-1");
    for is_again in [false, true] {
        let answers = order.run().unwrap();
        let items: Vec<_> = answers.items.into_iter().map(|item| seen(item.unwrap())).collect();
        assert_eq!(items, [(Some(60), is_again), (Some(1), is_again)]);
        assert!(!answers.refused);
    }
    let both = client.batch().item(item.once("b7c3")).atomic().run().unwrap();
    assert_eq!(both.items, [Err(ItemError::BadOnce)]);
    for id in ["", &"i".repeat(65), &"i".repeat(2000)] {
        assert_eq!(error_of(client.update(item.once(id))), ItemError::BadOnce);
        let batch = client.batch().item(item).once(id).run().unwrap();
        assert!(batch.refused && batch.items == [Err(ItemError::BadOnce)]);
    }
    assert_eq!(client.query(item).unwrap().used(), Some(60));
}

#[test]
fn a_hold_is_renewed_grown_settled_and_let_go() {
    let world = world();
    let client = client(&world);
    let ask = |item: Item<'_>| client.update(item).unwrap();
    let tokens = |count| Item::new("tokens", "alice").count(count).hold("req-17");
    let reserved = ask(tokens(800).ttl(Duration::from_secs(60)));
    assert_eq!((reserved.used(), reserved.held()), (Some(800), Some(800)));
    assert!(ask(tokens(800)).repeated() && ask(tokens(1001)).is_limited());
    assert_eq!(ask(tokens(900)).held(), Some(900));
    let settled = ask(tokens(523).settle());
    assert_eq!((settled.used(), settled.held()), (Some(523), Some(0)));
    assert!(ask(tokens(523).settle()).repeated() && !settled.unknown_hold());
    let unknown = ask(Item::new("tokens", "alice").hold("req-18").settle());
    assert!(unknown.unknown_hold() && unknown.used() == Some(524));

    let job = |id| Item::new("jobs", "alice").hold(id);
    assert_eq!([ask(job("a")), ask(job("b"))].map(|verdict| verdict.held()), [Some(1), Some(2)]);
    let refused = ask(job("c"));
    assert!(refused.is_limited() && refused.retry_ms().is_some_and(|ms| ms <= 600_000));
    assert_eq!(ask(job("a").count(0)).held(), Some(1));
    assert!(ask(job("c")).is_allowed());
    for bad in [
        job(""),
        job("d").settle(),
        job("d").ttl(Duration::from_secs(601)),
        job("d").ttl(Duration::MAX),
        Item::new("jobs", "alice"),
        Item::new("planned", "alice").hold("d"),
        Item::new("tokens", "alice").settle(),
    ] {
        assert_eq!(error_of(client.update(bad)), ItemError::BadHold, "{bad:?}");
    }
    for id in ["x", "y"] {
        assert!(ask(Item::new("tokens", "bob").hold(id)).is_allowed());
    }
    let full = client.update(Item::new("tokens", "bob").hold("z"));
    assert_eq!(error_of(full), ItemError::FullHolds);
}
