//! Model check of the keeper's copies for a checkpoint, beside transactions: every change that is
//! not marked is in the checkpoint, and no copy is half of a transaction. Writers and keeper run
//! the production code of `commit/protocol.rs` and `checkpoint/dirty.rs`.
//!
//! Variants that leave a necessary step out must fail.

use super::*;
use crate::checkpoint::dirty::{Side, copy_quiet};

/// How the keeper copies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HowCopied {
    /// As production does.
    Soundly,
    /// Wrong: it looks at the semaphore first, and then takes the marks.
    #[cfg(loom)]
    MarksLast,
    /// Wrong: it looks at the semaphore before and after a single copy.
    #[cfg(loom)]
    Once,
}

#[cfg(loom)]
pub(super) fn mark_in_no_order(dirty: &DirtyPages) {
    let bit = 1 << (WORDS[0] / PAGE_WORDS);
    for word in Side::BOTH.map(|side| dirty.word(0, side)) {
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::AcqRel);
        }
    }
}

fn world(how: HowMarked) -> World {
    let pages = WORDS[1] / PAGE_WORDS + 1;
    let dirty = DirtyPages::new(Region::boxed(DirtyPages::words_of(pages)), 0, pages);
    World { marks: Some(Marks { dirty, how }), ..World::new() }
}

impl World {
    fn dirty(&self) -> &DirtyPages {
        &self.marks.as_ref().expect("this world has checkpoints").dirty
    }
}

/// One turn of the keeper: the marked words go into the checkpoint, or are marked again.
fn keep(world: &World, checkpoint: &mut [u64; 2], how: HowCopied) {
    let (dirty, semaphore) = (world.dirty(), world.semaphore(0));
    let stored = world.file.words(WORDS[0], 2);
    let mut copy = [0; 2];
    let (taken, is_quiet) = match how {
        HowCopied::Soundly => {
            let taken = dirty.take(0, Side::A);
            (taken, taken != 0 && copy_quiet(semaphore, stored, &mut copy))
        }
        #[cfg(loom)]
        HowCopied::MarksLast => {
            let is_quiet = copy_quiet(semaphore, stored, &mut copy);
            (dirty.take(0, Side::A), is_quiet)
        }
        #[cfg(loom)]
        HowCopied::Once => {
            let taken = dirty.take(0, Side::A);
            let is_free = semaphore.word_in_order() == 0;
            crate::file::region::copy_out(stored, &mut copy);
            loom::sync::atomic::fence(Ordering::Acquire);
            (taken, taken != 0 && is_free && semaphore.word_in_order() == 0)
        }
    };
    if taken == 0 {
        return;
    }
    if is_quiet {
        assert_eq!(copy[0], copy[1], "half a transaction is in the checkpoint");
        *checkpoint = copy;
    } else {
        dirty.give_back(0, Side::A, taken);
    }
}

/// A transaction that dies after `stores` stores, beside a keeper of two turns. With `is_marked`
/// the page is marked already, so the writer only looks.
fn check(is_marked: bool, stores: usize, how: (HowMarked, HowCopied)) {
    explore(move || {
        let world = Arc::new(world(how.0));
        if is_marked {
            world.dirty().mark(WORDS[0], 1);
        }
        let writer = {
            let world = world.clone();
            thread::spawn(move || {
                let end = transact_and_die(&world, 0, &[0], stores);
                #[cfg(loom)]
                if how.0 == HowMarked::Late && !end.died {
                    mark_in_no_order(world.dirty());
                }
                end
            })
        };
        let mut checkpoint = [0; 2];
        keep(&world, &mut checkpoint, how.1);
        keep(&world, &mut checkpoint, how.1);
        let End { committed, .. } = writer.join().unwrap();
        world.recover(0);
        let stored = WORDS.map(|at| world.file.load(at));
        assert_eq!(stored, [u64::from(committed); 2]);
        if world.dirty().look(0, Side::A) == 0 {
            assert_eq!(checkpoint, stored, "a change is neither marked nor in the checkpoint");
        }
        if committed {
            assert!(world.dirty().look(0, Side::B) != 0, "b has taken nothing yet");
        }
        // All semaphores are free now, so this turn completes the checkpoint.
        keep(&world, &mut checkpoint, how.1);
        assert_eq!(checkpoint, stored);
    });
}

const SOUND: (HowMarked, HowCopied) = (HowMarked::Soundly, HowCopied::Soundly);

/// Stores of an undisturbed transaction, with those of the marks.
fn all() -> usize {
    all_stores(&[0]) + 1
}

// Shows: checkpoints.
#[test]
fn what_is_not_marked_is_in_the_checkpoint_whoever_dies() {
    for is_marked in [false, true] {
        for stores in 0..=all() {
            check(is_marked, stores, SOUND);
        }
    }
}

/// A recoverer, beside the keeper, undoes what a dead owner has half written.
// Shows: checkpoints.
#[test]
fn what_a_recoverer_writes_back_is_marked() {
    for stores in 0..all() {
        explore(move || {
            let world = Arc::new(world(HowMarked::Soundly));
            let End { committed, .. } = transact_and_die(&world, 0, &[0], stores);
            let recoverer = {
                let world = world.clone();
                thread::spawn(move || world.recover(0))
            };
            let mut checkpoint = [0; 2];
            keep(&world, &mut checkpoint, HowCopied::Soundly);
            recoverer.join().unwrap();
            let stored = WORDS.map(|at| world.file.load(at));
            assert_eq!(stored, [u64::from(committed); 2]);
            keep(&world, &mut checkpoint, HowCopied::Soundly);
            assert_eq!(checkpoint, stored);
        });
    }
}

#[cfg(loom)]
#[test]
#[should_panic]
fn a_look_in_no_order_with_the_semaphore_loses_changes() {
    check(true, usize::MAX, (HowMarked::InNoOrder, HowCopied::Soundly));
}

#[cfg(loom)]
#[test]
#[should_panic]
fn a_mark_behind_the_release_loses_changes() {
    check(false, all_stores(&[0]) - 1, (HowMarked::Late, HowCopied::Soundly));
}

#[cfg(loom)]
#[test]
#[should_panic]
fn a_look_at_the_semaphore_before_the_marks_are_taken_loses_changes() {
    check(true, usize::MAX, (HowMarked::Soundly, HowCopied::MarksLast));
}

#[cfg(loom)]
#[test]
#[should_panic]
fn one_copy_between_two_looks_may_be_half_a_transaction() {
    check(true, usize::MAX, (HowMarked::Soundly, HowCopied::Once));
}
