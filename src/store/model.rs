//! Model check of semaphore, commit and recovery over boxed words: a transaction that dies at any of
//! its steps, a waiter that recovers it, and one that only goes on.
//!
//! Under `--cfg loom` every interleaving of them is looked at:
//! `RUSTFLAGS="--cfg loom" cargo test --release --lib store::model`. Without it the dying one goes
//! first; that is what Miri runs.

use super::layout::{PAGE_WORDS, slot};
use super::region::Region;
use super::semaphore::{Semaphore, Token};
use super::slot::{Files, Intent, SlotWords, State, Undo, UndoLog};

#[cfg(loom)]
use loom::{
    sync::atomic::{AtomicBool, Ordering},
    sync::{Arc, Mutex},
    thread,
};
#[cfg(not(loom))]
use std::{
    sync::atomic::{AtomicBool, Ordering},
    sync::{Arc, Mutex},
    thread,
};

const GROUP: u64 = 7;
/// Two key-nodes: word 0 and word 1 hold their semaphores.
const SEMAPHORES: [usize; 2] = [0, 2];
/// The two words a transaction adds 1 to; behind the header page, as `restore` demands.
const WORDS: [usize; 2] = [PAGE_WORDS, PAGE_WORDS + 1];

struct World {
    file: Region,
    slots: Region,
    /// Falls when its owner is dead: the lock of the slot's byte.
    alive: [AtomicBool; 2],
    /// Held by who recovers.
    recovery: Mutex<()>,
}

impl World {
    fn new() -> World {
        let world = World {
            file: Region::boxed(PAGE_WORDS + 2),
            slots: Region::boxed(2 * slot::WORDS),
            alive: [AtomicBool::new(true), AtomicBool::new(true)],
            recovery: Mutex::new(()),
        };
        for slot in 0..2 {
            world.slot(slot).set_state(State { used: true, epoch: 1 });
        }
        world
    }

    fn slot(&self, slot: usize) -> SlotWords<'_> {
        SlotWords::at(&self.slots, slot * slot::WORDS)
    }

    fn semaphore(&self, key_node: usize) -> Semaphore<'_> {
        Semaphore::at(self.file.half(SEMAPHORES[key_node]))
    }

    /// What a waiter does who sees a dead holder.
    fn recover(&self, slot: usize) {
        if self.alive[slot].load(Ordering::Acquire) {
            return;
        }
        let Ok(_lock) = self.recovery.try_lock() else { return };
        self.slot(slot).recover(slot as u32, self);
    }
}

impl Files for World {
    fn restore(&self, undo: &Undo) {
        assert_eq!(undo.group, GROUP);
        self.file.store(undo.at as usize, undo.old);
    }

    fn release_for(&self, intent: &Intent, dead: Token) -> bool {
        self.semaphore(intent.key_node as usize).release_for(dead)
    }
}

/// Counts steps; the owner stops dead at step `last`.
struct Life {
    left: usize,
}

impl Life {
    fn step(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }
}

/// One transaction over `key_nodes`: adds 1 to both words. None if it died; whether it committed.
fn transact(
    world: &World,
    slot: usize,
    key_nodes: &[usize],
    life: &mut Life,
) -> (bool, Option<()>) {
    let mut committed = false;
    let done = (|| {
        let token = Token::new(slot as u32, 1);
        let words = world.slot(slot);
        let intents: Vec<Intent> = key_nodes
            .iter()
            .map(|&key_node| Intent { group: GROUP, file: 0, key_node: key_node as u32 })
            .collect();
        life.step()?;
        words.announce(intents.iter().copied());
        for &key_node in key_nodes {
            life.step()?;
            take(world, key_node, token);
        }
        let old: Vec<u64> = WORDS.iter().map(|&at| world.file.load(at)).collect();
        assert_eq!(old[0], old[1], "half a transaction is seen");
        let mut log = UndoLog::of(words);
        for (index, &at) in WORDS.iter().enumerate() {
            life.step()?;
            let stored = world.file.words(at, 1);
            log.changes(&intents[0], stored, &[old[index] + 1], at).unwrap();
        }
        life.step()?;
        words.begin(log.len());
        for (index, &at) in WORDS.iter().enumerate() {
            life.step()?;
            world.file.store(at, old[index] + 1);
        }
        life.step()?;
        words.commit();
        committed = true;
        for &key_node in key_nodes.iter().rev() {
            life.step()?;
            world.semaphore(key_node).release();
        }
        life.step()?;
        words.withdraw();
        Some(())
    })();
    (committed, done)
}

fn take(world: &World, key_node: usize, token: Token) {
    loop {
        let Err(seen) = world.semaphore(key_node).try_take(token) else { return };
        if let Some(holder) = Token::of_word(seen) {
            world.recover(holder.slot() as usize);
        }
        thread::yield_now();
    }
}

#[cfg(loom)]
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[cfg(not(loom))]
fn explore(model: impl Fn() + Sync + Send + 'static) {
    model();
}

fn check(steps: usize, key_nodes: &'static [usize]) {
    explore(move || {
        let world = Arc::new(World::new());
        let dying = {
            let world = world.clone();
            thread::spawn(move || {
                let (committed, done) = transact(&world, 0, key_nodes, &mut Life { left: steps });
                if done.is_none() {
                    // The lock falls with the address space: after everything it did.
                    world.alive[0].store(false, Ordering::Release);
                }
                committed
            })
        };
        let mut life = Life { left: usize::MAX };
        let (second, _) = transact(&world, 1, key_nodes, &mut life);
        assert!(second);
        let first = dying.join().unwrap();
        world.recover(0);
        let expected = 1 + u64::from(first);
        assert_eq!(WORDS.map(|at| world.file.load(at)), [expected; 2]);
        for key_node in 0..2 {
            assert_eq!(world.semaphore(key_node).word(), 0, "a semaphore stays taken");
        }
        // Recovery can be repeated.
        world.recover(0);
        assert_eq!(WORDS.map(|at| world.file.load(at)), [expected; 2]);
    });
}

#[test]
fn one_key_node_death_at_every_step() {
    for steps in 0..=9 {
        check(steps, &[0]);
    }
}

#[test]
fn two_key_nodes_death_at_every_step() {
    for steps in 0..=11 {
        check(steps, &[0, 1]);
    }
}

#[test]
fn two_recoverers_at_once() {
    for steps in 0..=8 {
        explore(move || {
            let world = Arc::new(World::new());
            let (committed, done) = transact(&world, 0, &[0], &mut Life { left: steps });
            assert!(done.is_none());
            world.alive[0].store(false, Ordering::Release);
            let other = {
                let world = world.clone();
                thread::spawn(move || world.recover(0))
            };
            world.recover(0);
            other.join().unwrap();
            world.recover(0);
            assert_eq!(WORDS.map(|at| world.file.load(at)), [u64::from(committed); 2]);
            assert_eq!(world.semaphore(0).word(), 0);
            assert!(!world.slot(0).state().used);
        });
    }
}
