//! The client over a real data directory: threads, forks, panics, and servers that end.

mod calls;
mod waiting;

use std::cell::RefCell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use frs_base::sys;
use frs_engine::testing::World;
use frs_engine::{ItemError, NeedEnd, Role, Service};
use frs_store::{LetterQueue, ROLE_PROGRAM, Runtime, TakenLetter};

use super::pool::Pool;
use crate::attachment::{Attachment, Origin};
use crate::{Answers, AttachError, Client, Error, Item};
use crate::{Figures, List};

const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="login" key="string">
    <limit policy="interval" interval="1h" max="5" ban="2h"/>
  </biz>
  <biz id="2" name="sms" key="integer">
    <limit policy="interval" interval="1h" max="15"/><limit policy="total" max="50"/>
  </biz>
  <biz id="3" name="many" key="string"><limit policy="total" max="1000"/></biz>
  <biz id="4" name="advised" key="string">
    <limit policy="interval" interval="1h" max="1" on-exceed="captcha"/>
  </biz>
  <biz id="5" name="listed" key="string">
    <limit policy="total" max="1"/><allow key="vip"/><deny key="bot"/>
  </biz>
  <biz id="6" name="tried" key="string" mode="shadow"><limit policy="total" max="1"/></biz>
  <biz id="7" name="off" key="string" mode="off"><limit policy="total" max="1"/></biz>
</map>"#;

const fn shared<T: Send + Sync>() {}
const _: () = shared::<Client>();

/// A long lock-timeout, so that no item is busy on a slow machine.
fn world() -> World {
    World::with_lock_timeout(MAP, "20s")
}

/// The origin that a pool attaches to.
fn origin(world: &World) -> Origin {
    Origin { data_dir: world.dir.clone(), role: Role::Program }
}

fn client(world: &World) -> Client {
    Client::attach(&world.dir).unwrap()
}

/// A client whose pool may grow to this size.
fn client_of(world: &World, size: usize) -> Client {
    client(world).with_places(size)
}

fn nothing(_: &mut Attachment) -> Result<(), AttachError> {
    Ok(())
}

fn panics(_: &mut Attachment) -> Result<(), AttachError> {
    panic!("in the middle of a call")
}

/// Uses two attachments at once, so that the client has two.
fn two_at_once(client: &Client) {
    client.with(|_| client.with(nothing)).unwrap();
}

/// The number of slots that programs hold.
fn places(world: &World) -> usize {
    let slots = world.runtime().slots();
    slots.iter().filter(|slot| slot.role == ROLE_PROGRAM).count()
}

fn used(client: &Client, biz: &str, key: &str) -> Option<u64> {
    client.query(Item::new(biz, key)).unwrap().used()
}

/// Takes all remaining places for programs.
fn take_all(world: &World) -> Vec<Service> {
    std::iter::from_fn(|| Service::attach(&world.dir, Role::Program, None).ok()).collect()
}

#[test]
fn an_update_charges_and_a_query_does_not() {
    let world = world();
    let client = client(&world);
    let verdict = client.update(Item::new("login", "alice").count(2)).unwrap();
    assert!(verdict.is_allowed() && !verdict.is_limited());
    assert_eq!((verdict.limit(), verdict.used(), verdict.max()), (Some(1), Some(2), Some(5)));
    assert_eq!((verdict.remaining(), verdict.retry_ms()), (Some(3), None));
    assert!(verdict.reset_ms().is_some_and(|ms| (3_500_000..=3_600_000).contains(&ms)));
    for _ in 0..3 {
        assert_eq!(client.query(Item::new("login", "alice").count(3)).unwrap().used(), Some(2));
    }
    // By id, and as a number.
    assert_eq!(client.update(Item::new("1", "alice")).unwrap().used(), Some(3));
    assert_eq!(client.update(Item::new(2, 7)).unwrap().used(), Some(1));
    assert_eq!(used(&client, "sms", "007"), Some(1));
}

#[test]
fn a_verdict_says_all_that_the_server_would() {
    let world = world();
    let client = client(&world);
    let ask = |item: Item<'_>| client.update(item).unwrap();
    assert!(ask(Item::new("login", "bob").count(5)).is_allowed());
    let refused = ask(Item::new("login", "bob"));
    assert!(refused.is_limited() && refused.is_banned() && !refused.is_allowed());
    assert!(ask(Item::new("login", "eve").count(6)).retry_ms().is_none(), "it never helps");
    assert!(refused.retry_ms().is_some_and(|ms| (7_100_000..=7_200_000).contains(&ms)));
    let forced = ask(Item::new("many", "bob").count(1001).force());
    assert!(forced.is_limited());
    assert_eq!((forced.used(), forced.reset_ms(), forced.retry_ms()), (Some(1001), None, None));
    assert_eq!(ask(Item::new("advised", "k")).action(), None);
    assert_eq!(ask(Item::new("advised", "k")).action(), Some("captcha"));

    let detailed = ask(Item::new("sms", 1).count(2).detail());
    let [first, second] = detailed.limits() else { panic!("{detailed:?}") };
    assert_eq!((first.index, first.policy, first.limited), (1, "interval", false));
    let total = Figures { used: 2, max: 50, remaining: 48, reset_ms: None };
    assert_eq!((second.index, second.policy, second.figures), (2, "total", total));
    assert!(ask(Item::new("sms", 1)).limits().is_empty());

    let shadow = ask(Item::new("tried", "k").count(2));
    assert!(shadow.is_shadow() && shadow.is_allowed());
    let listed = |key| ask(Item::new("listed", key).count(2));
    assert_eq!((listed("vip").list(), listed("vip").is_allowed()), (Some(List::Allow), true));
    assert_eq!((listed("bot").list(), listed("bot").is_limited()), (Some(List::Deny), true));
    let off = ask(Item::new("off", "k").count(2));
    for unjudged in [listed("bot"), off.clone()] {
        let figures = [unjudged.used(), unjudged.max(), unjudged.remaining(), unjudged.reset_ms()];
        assert_eq!((unjudged.limit(), figures), (None, [None; 4]));
    }
    assert_eq!((off.weight_thousandths(), off.is_degraded()), (None, false));
    world.publish_degraded(MAP, 2);
    assert!(ask(Item::new("login", "bob")).is_degraded());
}

#[test]
fn an_item_that_is_not_judged_says_why() {
    let world = world();
    let client = client(&world);
    let long = "k".repeat(1 << 20);
    for (item, expected) in [
        (Item::new("nope", "k"), ItemError::UnknownBiz),
        (Item::new(&long, "k"), ItemError::UnknownBiz),
        (Item::new(99, "k"), ItemError::UnknownBiz),
        (Item::new("login", ""), ItemError::BadKey),
        (Item::new("login", &long), ItemError::BadKey),
        (Item::new("sms", "alice"), ItemError::BadKey),
        (Item::new("login", "k").count(1 << 40), ItemError::BadCount),
    ] {
        let error = client.update(item).unwrap_err();
        assert!(matches!(error, Error::Item(found) if found == expected), "{item:?}: {error}");
        assert_eq!(error.to_string(), format!("the item was not judged: {expected}"));
    }
    world.quarantine("default");
    let error = client.update(Item::new("login", "k")).unwrap_err();
    assert!(matches!(error, Error::Item(ItemError::Store)), "{error}");
}

#[test]
fn threads_admit_exactly_what_is_allowed_together() {
    const THREADS: usize = 16;
    for size in [1, 3, 8] {
        let world = world();
        let client = client_of(&world, size);
        let (admitted, start) = (AtomicU64::new(0), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..100 {
                        let verdict = client.update(Item::new("many", "all")).unwrap();
                        admitted.fetch_add(verdict.is_allowed().into(), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 1000);
        assert_eq!(used(&client, "many", "all"), Some(1000));
        assert!((1..=size).contains(&places(&world)), "{}", places(&world));
        drop(client);
        assert_eq!(places(&world), 0, "given back");
        world.verify();
    }
}

// Shows: one-place-per-process.
#[test]
fn threads_of_a_client_share_one_place_unless_it_is_given_more() {
    const THREADS: usize = 8;
    let world = world();
    let client = client(&world);
    let charge_at_once = |client: &Client| {
        let start = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..200 {
                        let _ = client.update(Item::new("many", "k")).unwrap();
                        assert!(places(&world) <= 3);
                    }
                });
            }
        });
    };
    charge_at_once(&client);
    assert_eq!(places(&world), 1);
    let client = client.with_places(3);
    assert_eq!(places(&world), 1, "more are made when calls need them");
    two_at_once(&client);
    assert_eq!(places(&world), 2);
    charge_at_once(&client);
    let client = client.with_places(1);
    assert_eq!((places(&world), used(&client, "many", "k")), (1, Some(1000)));
    drop(client);
    assert_eq!(places(&world), 0);
}

#[test]
fn a_batch_is_answered_in_order_and_one_fault_spoils_no_neighbour() {
    let world = world();
    let client = client(&world);
    // More than one group of items that are prepared together.
    let keys: Vec<String> = (0..100).map(|nth| format!("k{nth}")).collect();
    let items = keys.iter().zip(1..).map(|(key, nth)| match nth % 10 {
        0 => Item::new("nope", key),
        _ => Item::new("many", key).count(nth),
    });
    let Answers { refused, items } = client.batch().items(items).run().unwrap();
    assert!(!refused && items.len() == 100);
    for (item, nth) in items.iter().zip(1u64..) {
        match nth % 10 {
            0 => assert_eq!(*item, Err(ItemError::UnknownBiz)),
            _ => assert_eq!(item.as_ref().unwrap().used(), Some(nth)),
        }
    }
    assert_eq!(client.batch().run().unwrap().items, []);
}

#[test]
fn an_atomic_batch_charges_all_or_nothing() {
    let world = world();
    let client = client(&world);
    let order = |pieces| {
        let item = |key| Item::new("many", key);
        client.batch().item(item("alice").count(pieces)).item(item("bob")).atomic()
    };
    let answers = order(999).run().unwrap();
    assert!(!answers.refused && answers.items.iter().flatten().all(|item| item.is_allowed()));
    let both = || (used(&client, "many", "alice"), used(&client, "many", "bob"));
    assert_eq!(both(), (Some(999), Some(1)));

    let too_much = order(2);
    assert!(too_much.clone().query().run().unwrap().refused);
    for _ in 0..2 {
        let answers = too_much.run().unwrap();
        let limited = answers.items.iter().flatten().map(|item| item.is_limited());
        assert!(answers.refused && limited.eq([true, false]));
    }
    let faulty = order(1).item(Item::new("nope", "carol")).run().unwrap();
    assert!(faulty.refused && faulty.items[2] == Err(ItemError::UnknownBiz));
    assert_eq!(both(), (Some(999), Some(1)));
    // Without `atomic` each item is judged on its own.
    assert!(order(1).query().run().unwrap().items.iter().flatten().all(|item| item.is_allowed()));
}

#[test]
fn a_batch_has_as_many_items_as_srv_xml_allows() {
    let world = world();
    let client = client(&world);
    let batch =
        |items| client.batch().items(std::iter::repeat_n(Item::new("many", "k"), items)).query();
    assert_eq!(batch(1024).run().unwrap().items.len(), 1024);
    for (batch, items) in [(batch(1025), 1025), (batch(70_000), 70_000)] {
        let error = batch.run().unwrap_err();
        assert!(matches!(error, Error::TooMany { items: found, most: 1024 } if found == items));
    }
    let atomic = world.conf.srv.http.max_atomic_items as usize;
    assert!(!batch(atomic).atomic().run().unwrap().refused);
    let error = batch(atomic + 1).atomic().run().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("a batch of {} items: srv.xml allows {atomic}", atomic + 1)
    );
}

#[test]
fn when_no_place_is_left_threads_wait_for_those_that_there_are() {
    let world = world();
    let client = client_of(&world, 8);
    let taken = take_all(&world);
    assert_eq!(places(&world), taken.len() + 1);
    let (start, threads) = (Barrier::new(8), 8);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                start.wait();
                for _ in 0..100 {
                    let _ = client.update(Item::new("many", "k")).unwrap();
                }
            });
        }
    });
    assert_eq!(used(&client, "many", "k"), Some(800));
    assert_eq!(places(&world), taken.len() + 1);
    let error = Client::attach(&world.dir).unwrap_err();
    assert!(matches!(error, AttachError::Full { most: 192, .. }), "{error}");
    assert!(error.to_string().contains("all 192 places for programs are taken"), "{error}");
}

#[test]
fn a_pool_grows_while_its_attachments_are_in_use_and_no_further_than_its_size() {
    let world = world();
    let pool = Pool::new(3, None);
    assert_eq!(places(&world), 0, "made at its first use");
    let with = |work: &mut dyn FnMut()| {
        let work = |_: &mut Attachment| {
            work();
            Ok::<(), AttachError>(())
        };
        pool.with(&origin(&world), work).unwrap();
    };
    with(&mut || with(&mut || with(&mut || assert_eq!(places(&world), 3))));
    // A fourth waits until one of the three is free.
    let (all_in_use, released) = (Barrier::new(2), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            all_in_use.wait();
            with(&mut || assert!(released.load(Ordering::Relaxed)));
        });
        with(&mut || {
            with(&mut || {
                with(&mut || {
                    all_in_use.wait();
                    std::thread::sleep(Duration::from_millis(20));
                    released.store(true, Ordering::Relaxed);
                });
            });
        });
    });
    assert_eq!(places(&world), 3);
}

#[test]
fn a_panic_costs_its_attachment_and_the_client_goes_on() {
    let world = world();
    let client = client_of(&world, 1);
    let before = world.runtime().slots()[0];
    let panicked = std::thread::scope(|scope| {
        let work = || client.with(panics);
        scope.spawn(work).join().is_err()
    });
    assert!(panicked);
    assert_eq!(client.update(Item::new("many", "k")).unwrap().used(), Some(1));
    let after = world.runtime();
    assert_eq!(places(&world), 1);
    let epoch = |runtime: &Runtime| runtime.slot(before.slot).state().epoch;
    assert!(epoch(&after) >= 2, "attached anew");
}

#[test]
fn where_an_attachment_cannot_be_made_anew_another_one_serves() {
    let world = world();
    let client = client_of(&world, 2);
    two_at_once(&client);
    assert_eq!(places(&world), 2);
    let mut taken = take_all(&world);
    std::thread::scope(|scope| {
        let panics = || client.with(panics);
        assert!(scope.spawn(panics).join().is_err());
    });
    // The place of the dropped attachment is free at once.
    for _ in 0..5 {
        let _ = client.update(Item::new("many", "k")).unwrap();
        taken.extend(take_all(&world));
    }
    assert_eq!(used(&client, "many", "k"), Some(5));
}

#[test]
fn where_nothing_is_in_force_calls_say_so_until_a_server_serves() {
    let world = world();
    let client = client_of(&world, 2);
    two_at_once(&client);
    let _ = client.update(Item::new("many", "k")).unwrap();
    world.runtime().publish(0);
    for _ in 0..3 {
        let error = client.update(Item::new("many", "k")).unwrap_err();
        assert!(matches!(error, Error::Attach(AttachError::NoServer { .. })), "{error}");
        let error = client.batch().item(Item::new("many", "k")).run().unwrap_err();
        assert!(error.to_string().starts_with("no server runs on the data directory /"), "{error}");
    }
    world.publish(MAP, 2);
    assert_eq!(client.update(Item::new("many", "k")).unwrap().used(), Some(2));
    // An attachment that was idle meanwhile is made again, too.
    two_at_once(&client);
    assert_eq!(places(&world), 2);
}

#[test]
fn a_runtime_file_that_is_made_anew_is_attached_to() {
    let world = world();
    let client = client_of(&world, 1);
    let _ = client.update(Item::new("many", "k")).unwrap();
    // As a master does when its file was removed: no generation is in force in the old file any
    // more.
    let old = world.runtime();
    std::fs::remove_file(Runtime::path_in(&world.dir)).unwrap();
    old.publish(0);
    let error = client.update(Item::new("many", "k")).unwrap_err();
    assert!(matches!(error, Error::Attach(AttachError::NoServer { .. })), "{error}");
    let source = std::error::Error::source(&error).expect("a source");
    assert!(source.to_string().contains("runtime.mmap"), "{source}");
    // A program that shows an error with its sources shows each of them once.
    assert!(source.source().is_none(), "{source}");
    Runtime::create_or_open(&world.dir).unwrap();
    world.prepare();
    world.publish(MAP, 2);
    assert_eq!(client.update(Item::new("many", "k")).unwrap().used(), Some(2));
    assert_eq!(places(&world), 1);
    assert!(old.slots().is_empty(), "given back there");
}

#[test]
fn a_reload_is_taken_by_the_next_call() {
    let world = world();
    let client = client(&world);
    let _ = client.update(Item::new("login", "alice").count(5)).unwrap();
    world.publish(&MAP.replace("max=\"5\"", "max=\"9\""), 2);
    let verdict = client.update(Item::new("login", "alice")).unwrap();
    assert_eq!((verdict.used(), verdict.max()), (Some(6), Some(9)));
}

#[test]
fn where_no_server_is_attaching_says_what_to_do() {
    let nothing = tempfile::tempdir().unwrap();
    for dir in [nothing.path().to_path_buf(), nothing.path().join("data")] {
        let error = Client::attach(&dir).unwrap_err();
        assert!(matches!(error, AttachError::NoServer { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains(&dir.display().to_string()) && said.contains("start one"), "{said}");
    }
    let world = world();
    std::fs::write(Runtime::path_in(&world.dir), "no runtime.mmap").unwrap();
    let error = Client::attach(&world.dir).unwrap_err();
    assert!(matches!(error, AttachError::Failed { .. }), "{error}");
}

/// Simulates a fork: a pool whose process counts one fork more. tests/library_fork.rs makes a real
/// fork.
#[test]
fn a_forked_child_waits_for_no_lock_that_its_parent_held() {
    let world = world();
    let client = client_of(&world, 2);
    let child = sys::forks() + 1;
    client
        .with(|_| {
            // One attachment is in use at the fork, the other is idle.
            client.with(nothing).unwrap();
            assert_eq!(places(&world), 2);
            let pool = client.pools.of(child).unwrap();
            pool.with(&origin(&world), nothing).unwrap();
            // The parent's handles are not forked ones here, so the idle one was released.
            assert_eq!(places(&world), 2);
            assert!(std::ptr::eq(pool, client.pools.of(child).unwrap()));
            Ok::<(), AttachError>(())
        })
        .unwrap();
    assert_eq!(client.update(Item::new("many", "k")).unwrap().used(), Some(1));
}

#[test]
fn a_client_ends_after_so_many_generations_of_children() {
    let world = world();
    let client = client(&world);
    assert!(client.pools.of(sys::forks() + 63).is_ok());
    for generation in [64, 1 << 40] {
        let error = client.pools.of(sys::forks() + generation).unwrap_err();
        assert!(matches!(error, AttachError::Forked { most: 63 }), "{error}");
    }
    // A grandchild drops the client: the ancestors' attachments stay as they are.
    drop(client);
    assert_eq!(places(&world), 0);
}

/// Publishes the map with this bound of items.
fn publish_max_items(world: &World, max_items: u32, generation: u64) {
    let srv = format!(
        "<srv><workers>1</workers><listen>127.0.0.1:1</listen><data dir=\"{}\"/>\
         <http lock-timeout=\"20s\" max-items=\"{max_items}\" max-atomic-items=\"2\"/></srv>",
        world.dir.display()
    );
    let texts = frs_conf::Texts::of(srv, MAP);
    frs_conf::active::write(&world.dir, generation, &texts).unwrap();
    world.runtime().publish(generation);
}

#[test]
fn a_batch_is_bounded_by_the_configuration_in_force() {
    let world = world();
    let client = client_of(&world, 1);
    let run = |items| {
        let items = std::iter::repeat_n(Item::new("many", "k"), items);
        client.batch().items(items).query().run()
    };
    assert!(run(1024).is_ok());
    publish_max_items(&world, 2000, 2);
    assert!(run(1500).is_ok(), "the first call after the reload");
    publish_max_items(&world, 10, 3);
    assert!(matches!(run(11), Err(Error::TooMany { items: 11, most: 10 })));
}

#[test]
fn an_attachment_that_no_call_uses_takes_a_new_generation_with_the_others() {
    let world = world();
    let client = client_of(&world, 2);
    two_at_once(&client);
    assert_eq!(places(&world), 2);
    world.publish(MAP, 2);
    let _ = client.query(Item::new("many", "k")).unwrap();
    let generations = world.runtime().slots().into_iter().map(|slot| slot.generation);
    assert_eq!(generations.collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn a_program_that_never_waits_is_answered_once_the_cluster_had_its_time() {
    let world = frs_cluster::testing::shared(
        r#"<map><group name="g" files="1" key-nodes="8" chain="8" node-size="128" backup="1s"/>
        <biz id="1" name="b" key="string"><limit policy="total" max="1"/></biz></map>"#,
    );
    let client = Client::attach(&world.dir).unwrap();
    let item = Item::new("b", "k");
    assert!(matches!(client.try_query(item), Err(Error::WouldWait)));
    assert!(matches!(client.try_update(item), Err(Error::WouldWait)));
    // No courier answers.
    std::thread::sleep(std::time::Duration::from_millis(110));
    assert!(client.try_update(item).unwrap().is_allowed());
    assert!(!client.try_update(item).unwrap().is_allowed(), "it is here now");
}

/// A client whose calls wait for a courier that is played by hand.
struct Shared {
    world: World,
    client: Client,
    queue: RefCell<LetterQueue>,
}

impl Shared {
    fn new() -> Shared {
        let world = frs_cluster::testing::shared(
            r#"<map><group name="g" files="1" key-nodes="64" chain="8" node-size="640"/>
            <biz id="1" name="shared" key="string" share="cluster" hosts="2" wait="1000ms"
              on-down="local"><limit policy="interval" interval="1m" max="10"/></biz>
            <biz id="2" name="local" key="string"><limit policy="total" max="1000"/></biz></map>"#,
        );
        let client = client(&world);
        Shared { world, client, queue: RefCell::default() }
    }

    /// The next want, once there is one.
    fn wanted(&self) -> TakenLetter {
        let runtime = self.world.runtime();
        loop {
            let slot = runtime.open_rings().next().expect("the client's ring");
            if let Some(want) = self.queue.borrow_mut().take_next(runtime.slot(slot)) {
                return want;
            }
            std::thread::yield_now();
        }
    }

    /// The cluster cannot be reached: the item is judged here.
    fn finish(&self, want: &TakenLetter) {
        let runtime = self.world.runtime();
        let slot = runtime.open_rings().next().expect("the client's ring");
        LetterQueue::reply(runtime.slot(slot), want.ticket, NeedEnd::Unreachable.reply());
        runtime.ring_owner(slot, None);
    }
}

// Shows: lease-waits-block-none.
#[test]
fn a_call_that_waits_for_uses_keeps_no_other_waiting() {
    let shared = Shared::new();
    let Shared { client, world, .. } = &shared;
    let order =
        |key: &str| client.batch().items([Item::new("shared", key), Item::new("local", key)]);
    // If the machine stands still for a second in each round, the test shows nothing.
    let is_shown = (0..20).map(|round| format!("k{round}")).any(|key| {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (ended, of_two, key) = (&ended, order(&key), &key);
            scope.spawn(move || {
                let answers = of_two.run().unwrap();
                ended.store(true, Ordering::Relaxed);
                assert!(answers.items.iter().all(|item| item.as_ref().unwrap().is_allowed()));
            });
            let want = shared.wanted();
            let tried = client.try_update(Item::new("local", key)).unwrap();
            assert_eq!(tried.used(), Some(2), "beside that of the batch");
            assert_eq!(client.update(Item::new("local", key)).unwrap().used(), Some(3));
            let other = client.try_update(Item::new("shared", "other"));
            assert!(ended.load(Ordering::Relaxed) || matches!(other, Err(Error::WouldWait)));
            let answers = order("other").try_run().unwrap();
            assert!(answers.items[1].is_ok());
            let is_first = !ended.load(Ordering::Relaxed);
            shared.finish(&want);
            is_first
        })
    });
    assert!(is_shown, "the others ended after the one that waited");
    assert_eq!(places(world), 1);
}

// Shows: lease-waits-block-none.
#[test]
fn calls_that_wait_by_one_attachment_are_answered_in_any_order() {
    let shared = Shared::new();
    let client = &shared.client;
    std::thread::scope(|scope| {
        let ask = |key: &'static str| {
            let asked = scope.spawn(move || client.update(Item::new("shared", key)).unwrap());
            (asked, shared.wanted())
        };
        let (first, want_of_first) = ask("a");
        let (second, want_of_second) = ask("b");
        shared.finish(&want_of_second);
        assert!(second.join().unwrap().is_allowed());
        shared.finish(&want_of_first);
        assert!(first.join().unwrap().is_allowed());
    });
}

// Shows: lease-waits-block-none.
#[test]
fn a_call_whose_attachment_is_lost_while_it_waits_is_busy() {
    let shared = Shared::new();
    let client = &shared.client;
    std::thread::scope(|scope| {
        let ask = |key| client.batch().items([Item::new("shared", key), Item::new("local", key)]);
        let each = scope.spawn(move || ask("a").run().unwrap());
        shared.wanted();
        let together = scope.spawn(move || ask("b").atomic().run().unwrap());
        shared.wanted();
        let panics = || client.with(panics);
        assert!(scope.spawn(panics).join().is_err());
        let Answers { refused, items } = each.join().unwrap();
        assert!(!refused && items[0] == Err(ItemError::Busy));
        assert_eq!(items[1].as_ref().unwrap().used(), Some(1), "it was charged");
        let Answers { refused, items } = together.join().unwrap();
        assert!(
            refused && items.len() == 2 && items.iter().all(|item| *item == Err(ItemError::Busy))
        );
    });
    assert_eq!(used(client, "local", "a"), Some(1));
    assert_eq!(used(client, "local", "b"), Some(0));
}
