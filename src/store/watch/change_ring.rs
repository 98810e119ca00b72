//! The ring of changes of a slot: which records its owner has changed, for the process that tells
//! the other machines.
//!
//! Invariant: a change is noted before the semaphore of its key-node is released. So whoever sees
//! the change noted, and then the semaphore free, reads the changed node. A reader notices that
//! changes were overwritten before it has read them.

use frs_base::sync::{AtomicU64, Ordering, fence};

use super::slot::SlotWords;
use crate::file::layout::slot::{CHANGES, CHANGES_NOTED, CHANGES_START};
use crate::file::region::put_release;

const USED: u64 = 1 << 63;
const PLACE_AT: u32 = 32;
const FILE_AT: u32 = 38;
const PLACE_BITS: u64 = 0x3f;
const FILE_BITS: u64 = 0xfff;

/// A changed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangedPlace {
    /// The index of its file in the register.
    pub file: u32,
    /// The key-node of the file.
    pub key_node: u32,
    /// Its place in the chain.
    pub place: u32,
}

impl ChangedPlace {
    fn word(self) -> u64 {
        USED | u64::from(self.file) << FILE_AT
            | u64::from(self.place) << PLACE_AT
            | u64::from(self.key_node)
    }

    fn of_word(word: u64) -> Option<ChangedPlace> {
        (word & USED != 0).then_some(ChangedPlace {
            file: (word >> FILE_AT & FILE_BITS) as u32,
            key_node: word as u32,
            place: (word >> PLACE_AT & PLACE_BITS) as u32,
        })
    }
}

/// The ring of a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangeRing<'s> {
    noted: &'s AtomicU64,
    places: &'s [AtomicU64],
}

impl<'s> ChangeRing<'s> {
    /// The ring in the words of a slot.
    #[inline]
    pub fn of(slot: SlotWords<'s>) -> ChangeRing<'s> {
        ChangeRing { noted: slot.word(CHANGES_NOTED), places: slot.words(CHANGES_START, CHANGES) }
    }

    /// Notes a change. Only the owner of the slot calls it, while it holds the semaphore.
    #[inline]
    pub fn note(self, changed: ChangedPlace) {
        let noted = self.noted.load(Ordering::Relaxed);
        // Release: a reader that finds this place overwritten also finds `noted` behind it; pairs
        // with the fence of `take`.
        put_release(&self.places[noted as usize % CHANGES], changed.word());
        // Release: pairs with `take`.
        put_release(self.noted, noted.wrapping_add(1));
    }

    /// How many changes were noted.
    pub fn noted(self) -> u64 {
        // Acquire: pairs with `note`.
        self.noted.load(Ordering::Acquire)
    }
}

/// How far a reader has read the ring of a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangesRead(u64);

/// What a reader finds in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangesFound {
    /// All changes since the last look.
    All,
    /// Some were overwritten: any record may have changed.
    Overrun,
}

impl ChangesRead {
    /// From now on.
    pub(crate) fn from_now(ring: ChangeRing<'_>) -> ChangesRead {
        ChangesRead(ring.noted())
    }

    /// Calls `each` with every change since the last call. After an overrun, too, what is left is
    /// read.
    pub(crate) fn take(
        &mut self,
        ring: ChangeRing<'_>,
        mut each: impl FnMut(ChangedPlace),
    ) -> ChangesFound {
        let noted = ring.noted();
        let mut found = ChangesFound::All;
        let behind = noted.wrapping_sub(self.0);
        if behind > CHANGES as u64 {
            // The count of a slot never goes back; a stray write may have changed it.
            found = ChangesFound::Overrun;
            self.0 = noted.wrapping_sub(CHANGES as u64);
        }
        let from = self.0;
        while self.0 != noted {
            let word = ring.places[self.0 as usize % CHANGES].load(Ordering::Acquire);
            if let Some(changed) = ChangedPlace::of_word(word) {
                each(changed);
            }
            self.0 = self.0.wrapping_add(1);
        }
        // Acquire: what overwrote a place that was read above is counted below; pairs with `note`.
        fence(Ordering::Acquire);
        // The owner writes a place before it counts it, so the place behind the count is not safe
        // either.
        if ring.noted.load(Ordering::Relaxed).wrapping_sub(from) >= CHANGES as u64 && from != noted
        {
            found = ChangesFound::Overrun;
        }
        found
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::file::layout::slot::WORDS;
    use crate::file::region::Region;

    fn place(nth: u64) -> ChangedPlace {
        ChangedPlace { file: 4095, key_node: nth as u32, place: (nth % 56) as u32 }
    }

    #[test]
    fn a_reader_gets_each_change_once_or_is_told_that_it_missed_some() {
        let region = Region::boxed(WORDS);
        let ring = ChangeRing::of(SlotWords::at(&region, 0));
        let mut read = ChangesRead::from_now(ring);
        let mut next = 0;
        for some in [0, 1, CHANGES as u64 / 2, CHANGES as u64 - 1] {
            (next..next + some).for_each(|nth| ring.note(place(nth)));
            let mut seen = Vec::new();
            assert_eq!(read.take(ring, |changed| seen.push(changed)), ChangesFound::All);
            assert!(seen.into_iter().eq((next..next + some).map(place)));
            next += some;
        }
        for some in [CHANGES as u64, 3 * CHANGES as u64 + 1] {
            (next..next + some).for_each(|nth| ring.note(place(nth)));
            let mut seen = Vec::new();
            assert_eq!(read.take(ring, |changed| seen.push(changed)), ChangesFound::Overrun);
            assert!(seen.into_iter().eq((next + some - CHANGES as u64..next + some).map(place)));
            assert_eq!(read.take(ring, |_| panic!("read before")), ChangesFound::All);
            next += some;
        }
    }
}
