//! Model check of the ring of changes: who sees a change noted, and the key-node free, reads what
//! the change has left. Writers and the reader run the production code.
//!
//! A variant that notes after the release must fail.

use super::*;
use crate::checkpoint::dirty::copy_quiet;
use crate::watch::change_ring::{ChangeRing, ChangedPlace, ChangesRead};

const PLACE: ChangedPlace = ChangedPlace { file: 3, key_node: 0, place: 5 };

pub(super) fn note(world: &World, slot: usize) {
    ChangeRing::of(world.slot(slot)).note(PLACE);
}

/// Stores of an undisturbed transaction, with those of its note.
fn all() -> usize {
    all_stores(&[0]) + 2
}

/// A transaction that dies after `stores` stores, beside a reader of two turns.
fn check(stores: usize, noted: HowNoted) {
    explore(move || {
        let world = Arc::new(World { noted, ..World::new() });
        let writer = {
            let world = world.clone();
            thread::spawn(move || transact_and_die(&world, 0, &[0], stores))
        };
        let ring = ChangeRing::of(world.slot(0));
        let mut read = ChangesRead::default();
        let (mut is_due, mut last) = (false, None);
        let mut turn = || {
            read.take(ring, |changed| {
                assert_eq!(changed, PLACE);
                is_due = true;
            });
            let mut copy = [0; 2];
            if is_due && copy_quiet(world.semaphore(0), world.file.words(WORDS[0], 2), &mut copy) {
                assert_eq!(copy[0], copy[1], "half a transaction was read");
                (is_due, last) = (false, Some(copy));
            }
        };
        turn();
        turn();
        let End { committed, .. } = writer.join().unwrap();
        world.recover(0);
        turn();
        let stored = WORDS.map(|at| world.file.load(at));
        assert_eq!(stored, [u64::from(committed); 2]);
        if committed {
            assert_eq!(last, Some(stored), "a change was not noted, or read too early");
        }
    });
}

// Shows: mirrored-changes.
#[test]
fn a_change_is_read_after_it_was_noted_whoever_dies() {
    for stores in 0..=all() {
        check(stores, HowNoted::Soundly);
    }
}

#[cfg(loom)]
#[test]
#[should_panic]
fn a_note_behind_the_release_loses_changes_of_who_dies() {
    check(all_stores(&[0]) - 1, HowNoted::Late);
}
