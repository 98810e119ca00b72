//! Model check of wants and doorbells over boxed words: an owner and a courier, either of which
//! dies at any of its stores. They run the production code of `ring.rs`, `queue.rs` and
//! `doorbell.rs` of `watch/mailbox/`.
//!
//! Under `--cfg loom` the ring has one entry, so that each want reuses the entry of the one before,
//! and every interleaving is checked, as in `model.rs`. Without it the threads run freely; Miri
//! runs the check that way.

#[cfg(not(loom))]
use std::{
    sync::Arc,
    sync::atomic::{AtomicU32, AtomicU64},
    thread,
};

#[cfg(loom)]
use loom::{
    sync::Arc,
    sync::atomic::{AtomicU32, AtomicU64},
    thread,
};

use crate::crash;
use crate::file::layout::{node, slot};
use crate::file::region::Region;
use crate::watch::mailbox::doorbell::{Asking, Bell};
use crate::watch::mailbox::queue::{TakenWant, WantQueue};
use crate::watch::mailbox::ring::{OwnerBell, Ticket, WantRing};
use crate::watch::mailbox::want::{Want, WantKind, WantResult};
use crate::watch::slot::{SlotOwner, SlotWords};

#[cfg(loom)]
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // LOOM_MAX_PREEMPTIONS sets another bound.
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

#[cfg(not(loom))]
fn explore(model: impl Fn() + Sync + Send + 'static) {
    (0..if cfg!(miri) { 2 } else { 200 }).for_each(|_| model());
}

/// One slot.
struct World(Region);

impl World {
    /// A slot with an owner of epoch 1 that has opened the ring.
    fn new() -> Arc<World> {
        let world = World(Region::boxed(slot::WORDS));
        world.own(1);
        Arc::new(world)
    }

    fn slot(&self) -> SlotWords<'_> {
        SlotWords::at(&self.0, 0)
    }

    /// The steps of an owner that has just taken the slot.
    fn own(&self, epoch: u32) {
        self.slot().claim(SlotOwner { pid: 1, role: 1 }, epoch);
        self.ring().open(epoch, OwnerBell::Futex);
    }

    fn ring(&self) -> WantRing<'_> {
        WantRing::of_slot(self.slot())
    }

    fn ask(&self, need: u64) -> Ticket {
        self.ring().push(&want(need)).expect("an entry is free")
    }

    /// One turn of a courier: answers all wants that it finds.
    fn serve(&self, queue: &mut WantQueue) {
        if let Some(TakenWant { ticket, want: taken }) = queue.take_next(self.slot()) {
            assert_eq!(taken, want(taken.need), "half a want");
            WantQueue::finish(self.slot(), ticket, answer(taken.need));
        }
        assert_eq!(queue.damaged(), 0, "a want is read that was never written");
    }
}

fn want(need: u64) -> Want {
    let mut field = [0; slot::WANT_FIELD_WORDS];
    field[0] = !need;
    let key_word = node::key_word(7, 0, 8);
    Want {
        kind: WantKind::Update,
        key_word,
        field,
        generation: need,
        need,
        deadline_ms: need,
        request: None,
    }
}

/// The answer to a want. It differs from the answer to the next want.
fn answer(need: u64) -> WantResult {
    if need % 2 == 1 { WantResult::Answered } else { WantResult::Unreachable }
}

#[test]
fn no_want_is_answered_to_another() {
    explore(|| {
        let world = World::new();
        let courier = {
            let world = world.clone();
            thread::spawn(move || {
                let mut queue = WantQueue::default();
                (0..2).for_each(|_| world.serve(&mut queue));
                queue
            })
        };
        let given_up = world.ring().give_up(world.ask(1));
        assert!(given_up.is_none_or(|result| result == answer(1)), "{given_up:?}");
        let second = world.ask(2);
        let early = world.ring().poll(second);
        let mut queue = courier.join().unwrap();
        world.serve(&mut queue);
        let result = early.or_else(|| world.ring().poll(second));
        assert_eq!(result, Some(answer(2)));
    });
}

/// Stores of an owner that asks, and gives up: record, state, tail, state.
const OWNERS_STORES: usize = 4 + 1 + slot::WANT_FIELD + 1;

#[test]
fn an_owner_dies_at_every_step() {
    for stores in 0..=OWNERS_STORES {
        explore(move || {
            let world = World::new();
            let courier = {
                let world = world.clone();
                thread::spawn(move || {
                    let mut queue = WantQueue::default();
                    (0..2).for_each(|_| world.serve(&mut queue));
                    queue
                })
            };
            crash::die_after(Some(stores));
            if let Ok(ticket) = world.ring().push(&want(1)) {
                world.ring().give_up(ticket);
            }
            crash::die_after(None);
            world.own(2);
            let ticket = world.ask(2);
            let mut queue = courier.join().unwrap();
            world.serve(&mut queue);
            assert_eq!(world.ring().poll(ticket), Some(answer(2)));
            assert_eq!(world.ring().poll(ticket), Some(WantResult::Lost), "it is spent");
        });
    }
}

#[test]
fn a_courier_dies_at_every_step() {
    // The courier's two stores: it takes, and finishes.
    for stores in 0..=2 {
        for gives_up in [false, true] {
            explore(move || {
                let world = World::new();
                let courier = {
                    let world = world.clone();
                    thread::spawn(move || {
                        crash::die_after(Some(stores));
                        world.serve(&mut WantQueue::default());
                    })
                };
                let (mut need, mut ticket) = (1, world.ask(1));
                if gives_up {
                    let result = world.ring().give_up(ticket);
                    assert!(result.is_none_or(|result| result == answer(1)));
                    (need, ticket) = (2, world.ask(2));
                }
                courier.join().unwrap();
                // The next courier serves asked and taken wants.
                world.serve(&mut WantQueue::default());
                assert_eq!(world.ring().poll(ticket), Some(answer(need)));
            });
        }
    }
}

/// Two couriers run at once, as in an upgrade while the older one does not know yet that it has
/// lost the lock. Each want is answered once.
#[test]
fn two_couriers_answer_once() {
    explore(|| {
        let world = World::new();
        let ticket = world.ask(1);
        let older = {
            let world = world.clone();
            thread::spawn(move || world.serve(&mut WantQueue::default()))
        };
        world.serve(&mut WantQueue::default());
        older.join().unwrap();
        assert_eq!(world.ring().poll(ticket), Some(answer(1)));
        world.ask(2);
    });
}

/// Either the side that was about to sleep has found the work, or the other side has rung.
#[test]
fn no_call_is_lost() {
    explore(|| {
        let words = Arc::new((AtomicU32::new(0), [AtomicU64::new(0)]));
        let ringer = {
            let words = words.clone();
            thread::spawn(move || {
                Asking::at(&words.1).set(5);
                Bell::at(&words.0).ring()
            })
        };
        let bell = Bell::at(&words.0);
        bell.lie_down();
        let sleeps = !Asking::at(&words.1).is_any();
        let is_rung = ringer.join().unwrap();
        assert!(!sleeps || is_rung, "it sleeps, and nobody wakes it");
        bell.get_up();
        assert_eq!(Asking::at(&words.1).take().collect::<Vec<_>>(), [5]);
    });
}

/// The same in the other direction: the published work is the result of a want.
#[test]
fn an_owner_sleeps_through_no_answer() {
    explore(|| {
        let (world, word) = (World::new(), Arc::new(AtomicU32::new(0)));
        let ticket = world.ask(1);
        let courier = {
            let (world, word) = (world.clone(), word.clone());
            thread::spawn(move || {
                world.serve(&mut WantQueue::default());
                Bell::at(&word).ring()
            })
        };
        Bell::at(&word).lie_down();
        let result = world.ring().poll(ticket);
        let is_rung = courier.join().unwrap();
        assert!(result.is_some() || is_rung, "it sleeps, and nobody wakes it");
    });
}
