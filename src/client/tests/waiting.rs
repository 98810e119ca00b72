//! Calls that lack uses, or meet a semaphore that is held.

use std::time::{Duration, Instant};

use frs_base::clock;
use frs_cluster::testing::host::Host;
use frs_engine::testing::World;
use frs_engine::{Command, ItemError};
use frs_store::semaphore::Token;

use crate::{Answers, Client, Error, Item, TriedAnswers, Verdict};

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="64" chain="8" node-size="640"/>
  <biz id="1" name="wait" key="string" share="cluster" hosts="2" wait="1000ms">
    <limit policy="interval" interval="1m" max="10"/></biz>
  <biz id="2" name="local" key="string"><limit policy="interval" interval="1m" max="2"/></biz>
  <biz id="3" name="exact" key="string" share="exact" wait="1000ms">
    <limit policy="total" max="10"/></biz>
</map>"#;

#[test]
fn a_program_that_does_not_wait_gets_its_uses_by_trying_again() {
    let mut host = Host::of(MAP);
    let dir = host.world.dir.clone();
    let client = Client::attach(&dir).unwrap();
    // Behind those of the service and of the cluster.
    host.ring = 2;
    let item = || Item::new("wait", "k");
    assert!(matches!(client.try_update(item()), Err(Error::WouldWait)));
    assert!(matches!(client.try_update(item()), Err(Error::WouldWait)));
    assert_eq!(host.serve(1), 1, "it asks once");
    assert!(client.try_update(item()).is_ok_and(|verdict| verdict.is_allowed()));
}

#[test]
fn a_batch_that_does_not_wait_answers_what_it_can_and_says_what_would_wait() {
    let mut host = Host::of(MAP);
    let client = Client::attach(host.world.dir.clone()).unwrap();
    // Behind those of the service and of the cluster.
    host.ring = 2;
    let all = [("wait", "a"), ("local", "k"), ("exact", "b"), ("local", "l")];
    let items = all.map(|(biz, key)| Item::new(biz, key));
    let said = |tried: TriedAnswers| -> Vec<Option<bool>> {
        let of = |item: Result<Verdict, Error>| match item {
            Ok(verdict) => Some(verdict.is_allowed()),
            Err(Error::WouldWait) => None,
            Err(error) => panic!("{error}"),
        };
        tried.items.into_iter().map(of).collect()
    };
    let first = client.batch().items(items).try_run().unwrap();
    assert_eq!(said(first), [None, Some(true), None, Some(true)]);
    let rest = client.batch().item(items[0]).item(items[2]);
    assert_eq!(said(rest.try_run().unwrap()), [None, None]);
    assert_eq!(host.serve(1), 2, "each is asked for once");
    assert_eq!(said(rest.try_run().unwrap()), [Some(true), Some(true)]);
    assert_eq!(client.query(items[1]).unwrap().used(), Some(1), "answered once, charged once");
    // A single one of them goes on with the uses of its item.
    let pair = client.batch().item(items[1]).item(items[2]);
    assert_eq!(said(pair.try_run().unwrap()), [Some(true), None]);
    assert_eq!(host.serve(2), 1);
    assert!(client.try_update(items[2]).unwrap().is_allowed());
}

#[test]
fn an_atomic_batch_that_does_not_wait_charges_nothing_until_it_has_all() {
    let mut host = Host::of(MAP);
    let client = Client::attach(host.world.dir.clone()).unwrap();
    host.ring = 2;
    let [local, shared] = [("local", "k"), ("exact", "a")].map(|(b, k)| Item::new(b, k));
    let order = client.batch().item(local).item(shared).atomic();
    assert!(matches!(order.try_run(), Err(Error::WouldWait)));
    assert_eq!(
        host.service.one(Command::Query, "local", "k", 1, clock::now()).unwrap().figures.used,
        0
    );
    assert_eq!(host.serve(1), 1);
    let tried = order.try_run().unwrap();
    assert!(!tried.refused && tried.items.iter().all(|item| item.as_ref().unwrap().is_allowed()));
    assert_eq!(client.query(local).unwrap().used(), Some(1));
    assert!(client.batch().try_run().unwrap().items.is_empty());
}

// Shows: envoy-waits.
#[test]
fn batches_that_run_together_wait_at_the_same_time() {
    let mut host = Host::of(MAP);
    let client = Client::attach(host.world.dir.clone()).unwrap();
    host.ring = 2;
    let item = |(biz, key)| Item::new(biz, key);
    let batches = [
        client.batch().items([("wait", "a"), ("local", "k")].map(item)),
        client.batch().items([("exact", "b"), ("local", "l")].map(item)).atomic(),
        client.batch().item(item(("local", "m"))),
        client.batch(),
        client.batch().item(item(("nobody", "m"))),
        client.batch().items(std::iter::repeat_n(item(("local", "n")), 5000)),
    ];
    let tried = client.try_run_all(&batches).unwrap();
    let waits = |tried: &Result<TriedAnswers, Error>| match tried {
        Err(Error::WouldWait) => true,
        Ok(tried) => matches!(tried.items.first(), Some(Err(Error::WouldWait))),
        Err(_) => false,
    };
    assert_eq!(tried.iter().map(waits).collect::<Vec<_>>()[..3], [true, true, false]);
    assert!(matches!(tried[5], Err(Error::TooMany { items: 5000, .. })));
    let ran = std::thread::scope(|scope| {
        let ran = scope.spawn(|| client.run_all(&batches).unwrap());
        let mut served = 0;
        while !ran.is_finished() {
            served += host.serve(1);
        }
        assert!(served >= 2, "{served}");
        ran.join().unwrap()
    });
    let allowed = |ran: &Result<Answers, Error>| -> Vec<Option<bool>> {
        let items = ran.iter().flat_map(|answers| &answers.items);
        items.map(|item| item.as_ref().ok().map(Verdict::is_allowed)).collect()
    };
    let [one, both] = [vec![Some(true)], vec![Some(true); 2]];
    let all: Vec<_> = ran.iter().map(allowed).collect();
    assert_eq!(all, [both.clone(), both, one, vec![], vec![None], vec![]]);
    assert!(matches!(ran[5], Err(Error::TooMany { items: 5000, .. })));
    // The first try answered and charged the items that did not wait.
    for (key, used) in [("k", 2), ("l", 1), ("m", 2)] {
        assert_eq!(client.query(item(("local", key))).unwrap().used(), Some(used), "{key}");
    }
}

const HELD: &str = r#"<map>
  <group name="g" files="1" key-nodes="4" chain="8" node-size="128"/>
  <biz id="1" name="a" key="integer"><limit policy="total" max="9"/></biz>
</map>"#;

// Shows: envoy-waits.
#[test]
fn batches_that_run_together_wait_for_a_holder_once() {
    const LOCK: Duration = Duration::from_millis(400);
    let world = World::with_lock_timeout(HELD, "400ms");
    let client = Client::attach(&world.dir).unwrap();
    let other = world.attach();
    let (runtime, group) = (world.runtime(), world.group("g"));
    let slot = runtime.slots()[1].slot;
    let token = Token::new(slot, runtime.slot(slot).state().epoch);
    let header = group.header().id;
    let intents =
        [1, 3].map(|key_node| frs_store::slot::Intent { group: header, file: 0, key_node });
    frs_store::testing::pose(runtime.slot(slot), &intents, 0);
    [1, 3].iter().for_each(|&key| group.semaphore(0, key).try_take(token).expect("it is free"));
    let item = |key: u64| Item::new("a", key);
    let batches: Vec<_> =
        (0..10).map(|_| client.batch().item(item(1)).item(item(3)).atomic()).collect();
    let begun = Instant::now();
    for tried in client.try_run_all(&batches).unwrap() {
        let items = tried.unwrap().items;
        assert!(items.iter().all(|item| matches!(item, Err(Error::Item(ItemError::Busy)))));
    }
    let took = begun.elapsed();
    assert!(LOCK <= took && took < 3 * LOCK, "{took:?}");
    [1, 3].iter().for_each(|&key| group.semaphore(0, key).release());
    frs_store::testing::pose(runtime.slot(slot), &[], 0);
    drop(other);
}
