//! Semaphores into which a stray write has put a live slot's token. Invariant: they are freed, and
//! a semaphore that is really held never is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use frs_store::Counter;
use frs_store::semaphore::Token;

use crate::testing::{Ask, World, request};
use crate::{Command, ItemError, Service};

const NOW: u64 = 1_700_000_000_000;

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="4" chain="8" node-size="128"/>
  <biz id="1" name="a" key="integer">
    <limit policy="interval" interval="24h" max="100000000"/>
  </biz>
</map>"#;

/// Ends the threads beside a test, even if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The tokens of all attached processes.
fn tokens(world: &World) -> Vec<Token> {
    let runtime = world.runtime();
    let token = |slot: u32| Token::new(slot, runtime.slot(slot).state().epoch);
    runtime.slots().iter().map(|slot| token(slot.slot)).collect()
}

/// Writes a token into the free semaphore of a key's key-node.
fn scribble(world: &World, key: u32, token: Token) {
    world.group("g").semaphore(0, key).try_take(token).expect("nobody holds it");
}

fn orphans(world: &World) -> u64 {
    world.runtime().count(Counter::SemaphoreOrphans)
}

fn charge(service: &mut Service, key: u32) -> Result<u64, ItemError> {
    service.one(Command::Update, "a", &key.to_string(), 1, NOW).map(|verdict| verdict.figures.used)
}

#[test]
fn a_semaphore_with_a_living_slots_token_is_freed_by_its_supposed_owner() {
    for lock_timeout in ["50ms", "1ms"] {
        let world = World::with_lock_timeout(MAP, lock_timeout);
        let mut service = world.attach();
        assert_eq!(charge(&mut service, 3), Ok(1));
        scribble(&world, 3, tokens(&world)[0]);
        let begun = Instant::now();
        let used = loop {
            match charge(&mut service, 3) {
                Err(ItemError::Busy) => assert!(begun.elapsed() < Duration::from_secs(10)),
                used => break used,
            }
        };
        assert_eq!((used, orphans(&world)), (Ok(2), 1), "{lock_timeout}");
        drop(service);
        world.verify();
    }
}

#[test]
fn a_semaphore_with_an_idle_owners_token_is_freed_by_who_waits_for_it() {
    let world = World::with_lock_timeout(MAP, "10s");
    let _idle = world.attach();
    let token = tokens(&world)[0];
    let mut service = world.attach();
    for round in 1..10 {
        scribble(&world, 3, token);
        assert_eq!((charge(&mut service, 3), orphans(&world)), (Ok(round), round));
    }
}

#[test]
fn one_that_works_on_other_keys_all_the_time_keeps_nobody_waiting_for_an_orphan() {
    let world = World::with_lock_timeout(MAP, "10s");
    let mut busy = world.attach();
    let token = tokens(&world)[0];
    let mut service = world.attach();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                charge(&mut busy, 2).expect("charged");
            }
        });
        let over = Over(&is_over);
        let charged: Vec<_> = (1..20)
            .map(|_| {
                scribble(&world, 3, token);
                charge(&mut service, 3)
            })
            .collect();
        drop(over);
        working.join().expect("joined");
        assert_eq!(charged, (1..20).map(Ok).collect::<Vec<_>>());
    });
}

#[test]
fn a_semaphore_that_its_living_slot_holds_is_not_freed() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let other = world.attach();
    // Stands for a suspended holder, which has announced the key-node and taken it.
    let (runtime, group) = (world.runtime(), world.group("g"));
    let (slot, token) = (other_slot(&world), tokens(&world)[1]);
    let intent = frs_store::slot::Intent { group: group.header().id, file: 0, key_node: 3 };
    frs_store::testing::pose(runtime.slot(slot), &[intent], 0);
    scribble(&world, 3, token);
    for _ in 0..5 {
        assert_eq!(charge(&mut service, 3), Err(ItemError::Busy));
    }
    assert_eq!(group.semaphore(0, 3).word() & !(1 << 31), word_of(token));
    group.semaphore(0, 3).release();
    frs_store::testing::pose(runtime.slot(slot), &[], 0);
    assert_eq!((charge(&mut service, 3), orphans(&world)), (Ok(1), 0));
    drop(other);
}

fn other_slot(world: &World) -> u32 {
    world.runtime().slots()[1].slot
}

fn word_of(token: Token) -> u32 {
    token.slot() | token.epoch() << 8
}

// Shows: stalls-are-bounded.
#[test]
fn while_free_semaphores_are_scribbled_over_every_charge_is_counted_once() {
    const KEYS: u32 = 3;
    let world = World::with_lock_timeout(MAP, "60s");
    let mut services: Vec<Service> = (0..4).map(|_| world.attach()).collect();
    let tokens = tokens(&world);
    let is_over = AtomicBool::new(false);
    let charged: u64 = std::thread::scope(|scope| {
        let charging: Vec<_> = services
            .iter_mut()
            .zip(0u32..)
            .map(|(service, nth)| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let (mut charged, mut key) = (0, nth);
                    while !is_over.load(Ordering::Relaxed) {
                        key = (key * 7 + 3) % 11;
                        // One key alone, then all keys at once.
                        let asks = [0, 1, 2].map(|key: u32| key.to_string());
                        let asks: Vec<Ask<'_>> = asks.iter().map(|key| Ask("a", key, 1)).collect();
                        let many = key % 4 == 0;
                        let one = (key % KEYS) as usize;
                        let asks = if many { &asks[..] } else { &asks[one..=one] };
                        let request = request(Command::Update, many, asks);
                        let answers = service.answers(&request, NOW);
                        let is_done = |item: &crate::Answer| item.result.is_ok();
                        assert!(answers.items.iter().all(is_done), "{answers:?}");
                        charged += asks.len() as u64;
                    }
                    charged
                })
            })
            .collect();
        let over = Over(&is_over);
        let group = world.group("g");
        let (begun, mut nth) = (Instant::now(), 0);
        while orphans(&world) < 40 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} freed", orphans(&world));
            nth += 1;
            let token = tokens[nth % tokens.len()];
            // Only if the semaphore is free: otherwise there would be two holders.
            let _ = group.semaphore(0, nth as u32 % KEYS).try_take(token);
            std::thread::yield_now();
        }
        drop(over);
        charging.into_iter().map(|charging| charging.join().expect("joined")).sum()
    });
    let mut service = world.attach();
    let used: u64 = (0..KEYS).map(|key| service.used("a", &key.to_string(), NOW)).sum();
    assert_eq!(used, charged);
    drop((service, services));
    world.verify();
}
