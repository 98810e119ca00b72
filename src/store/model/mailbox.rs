//! Model check of letters and doorbells over boxed words: an owner and a reader, either of which
//! dies at any of its stores. They run the production code of `ring.rs`, `queue.rs` and
//! `doorbell.rs` of `watch/mailbox/`.
//!
//! Under `--cfg loom` the ring has one entry, so that each letter reuses the entry of the one
//! before, and every interleaving is checked, as in `model.rs`. Without it the threads run freely;
//! Miri runs the check that way.

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
use crate::file::layout::slot;
use crate::file::region::Region;
use crate::watch::mailbox::doorbell::{Asking, Bell};
use crate::watch::mailbox::letter::{Letter, Reply};
use crate::watch::mailbox::queue::{LetterQueue, TakenLetter};
use crate::watch::mailbox::ring::{OwnerBell, Ring, Ticket};
use crate::watch::slot::{SlotOwner, SlotWords};

fn explore(model: impl Fn() + Sync + Send + 'static) {
    super::explore_or_run(if cfg!(miri) { 2 } else { 200 }, model);
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

    fn ring(&self) -> Ring<'_> {
        Ring::of_slot(self.slot())
    }

    fn push(&self, number: u64) -> Ticket {
        self.ring().push(&letter(number)).expect("an entry is free")
    }

    /// One turn of a reader: replies to the next letter that it finds.
    fn serve(&self, queue: &mut LetterQueue) {
        if let Some(TakenLetter { ticket, letter: taken }) = queue.take_next(self.slot()) {
            let number = taken.head[1];
            assert_eq!(taken, letter(number), "half a letter");
            LetterQueue::reply(self.slot(), ticket, reply(number));
        }
        assert_eq!(queue.damaged(), 0, "a letter is read that was never written");
    }
}

fn letter(number: u64) -> Letter {
    let mut tail = [0; slot::LETTER_TAIL_WORDS];
    tail[0] = !number;
    // Eight bytes of the tail are in use.
    Letter { kind: 2, head: [8 << 32, number, number, number, 0], tail }
}

/// The reply to a letter. It differs from the reply to the next letter.
fn reply(number: u64) -> Reply {
    Reply::of_number(if number % 2 == 1 { 1 } else { 2 }).expect("a reply")
}

#[test]
fn no_letter_gets_the_reply_to_another() {
    explore(|| {
        let world = World::new();
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let mut queue = LetterQueue::default();
                (0..2).for_each(|_| world.serve(&mut queue));
                queue
            })
        };
        let given_up = world.ring().give_up(world.push(1));
        assert!(given_up.is_none_or(|result| result == reply(1)), "{given_up:?}");
        let second = world.push(2);
        let early = world.ring().poll(second);
        let mut queue = reader.join().unwrap();
        world.serve(&mut queue);
        let result = early.or_else(|| world.ring().poll(second));
        assert_eq!(result, Some(reply(2)));
    });
}

/// Stores of an owner that pushes a letter, and gives it up: record, state, tail, state.
const OWNERS_STORES: usize = 4 + 1 + slot::LETTER_TAIL + 1;

#[test]
fn an_owner_dies_at_every_step() {
    for stores in 0..=OWNERS_STORES {
        explore(move || {
            let world = World::new();
            let reader = {
                let world = world.clone();
                thread::spawn(move || {
                    let mut queue = LetterQueue::default();
                    (0..2).for_each(|_| world.serve(&mut queue));
                    queue
                })
            };
            crash::die_after(Some(stores));
            if let Ok(ticket) = world.ring().push(&letter(1)) {
                world.ring().give_up(ticket);
            }
            crash::die_after(None);
            world.own(2);
            let ticket = world.push(2);
            let mut queue = reader.join().unwrap();
            world.serve(&mut queue);
            assert_eq!(world.ring().poll(ticket), Some(reply(2)));
            assert_eq!(world.ring().poll(ticket), Some(Reply::LOST), "it is spent");
        });
    }
}

#[test]
fn a_reader_dies_at_every_step() {
    // The reader's two stores: it takes, and replies.
    for stores in 0..=2 {
        for gives_up in [false, true] {
            explore(move || {
                let world = World::new();
                let reader = {
                    let world = world.clone();
                    thread::spawn(move || {
                        crash::die_after(Some(stores));
                        world.serve(&mut LetterQueue::default());
                    })
                };
                let (mut number, mut ticket) = (1, world.push(1));
                if gives_up {
                    let result = world.ring().give_up(ticket);
                    assert!(result.is_none_or(|result| result == reply(1)));
                    (number, ticket) = (2, world.push(2));
                }
                reader.join().unwrap();
                // The next reader serves pushed and taken letters.
                world.serve(&mut LetterQueue::default());
                assert_eq!(world.ring().poll(ticket), Some(reply(number)));
            });
        }
    }
}

/// Two readers run at once, as in an upgrade while the older one does not know yet that it has
/// lost the lock. Each letter gets one reply.
#[test]
fn two_readers_reply_once() {
    explore(|| {
        let world = World::new();
        let ticket = world.push(1);
        let older = {
            let world = world.clone();
            thread::spawn(move || world.serve(&mut LetterQueue::default()))
        };
        world.serve(&mut LetterQueue::default());
        older.join().unwrap();
        assert_eq!(world.ring().poll(ticket), Some(reply(1)));
        world.push(2);
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

/// The same in the other direction: the published work is the reply to a letter.
#[test]
fn an_owner_sleeps_through_no_reply() {
    explore(|| {
        let (world, word) = (World::new(), Arc::new(AtomicU32::new(0)));
        let ticket = world.push(1);
        let reader = {
            let (world, word) = (world.clone(), word.clone());
            thread::spawn(move || {
                world.serve(&mut LetterQueue::default());
                Bell::at(&word).ring()
            })
        };
        Bell::at(&word).lie_down();
        let result = world.ring().poll(ticket);
        let is_rung = reader.join().unwrap();
        assert!(result.is_some() || is_rung, "it sleeps, and nobody wakes it");
    });
}
