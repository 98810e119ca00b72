//! The filter in a key-node's head: which keys that are not in its chain may have a record that was
//! spilled.
//!
//! Invariant: a key whose record was spilled hits the filter for a whole period at least; a hit may
//! be of another key. Only the process that spills changes a filter: it adds to it under the
//! key-node's semaphore, and turns it without. A look-up, which holds the semaphore too, sees what
//! was added before its record was erased.
//!
//! Bits: 0..16 the present period, 16..32 the one before, a bit for each sixteenth of the tags.

use frs_base::sync::{AtomicU32, Ordering};

use crate::file::region::Region;

const BITS: u32 = 16;
const PRESENT: u32 = (1 << BITS) - 1;

/// The filter of a key-node, in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct SpillFilter<'a>(&'a AtomicU32);

impl<'a> SpillFilter<'a> {
    /// The filter of the key-node whose head begins at this word of its file: beside the semaphore.
    pub fn of_head(region: &'a Region, head: usize) -> SpillFilter<'a> {
        SpillFilter(region.half(head * 2 + 1))
    }

    fn word(self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Its bits, for a copy of the head.
    pub fn bits(self) -> u32 {
        self.word()
    }

    /// Whether a key with this tag may have a record that was spilled.
    pub fn may_hold(self, tag: u8) -> bool {
        let word = self.word();
        (word | word >> BITS) & bit(tag) != 0
    }

    /// Whether some key may.
    pub fn is_any(self) -> bool {
        self.word() != 0
    }

    /// The record of a key with this tag is spilled.
    pub fn add(self, tag: u8) {
        self.0.store(self.word() | bit(tag), Ordering::Relaxed);
    }

    /// Any key may have one.
    pub fn fill(self) {
        self.0.store(PRESENT, Ordering::Relaxed);
    }

    /// A period has ended: what was added in the one before it is forgotten.
    pub fn turn(self) {
        let word = self.word();
        if word != 0 {
            self.0.store(word << BITS, Ordering::Relaxed);
        }
    }
}

/// A key's home depends on the upper bits of its tag, so these are the lower ones.
fn bit(tag: u8) -> u32 {
    1 << (u32::from(tag) % BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: spill.
    #[test]
    fn what_was_added_is_known_for_a_whole_period() {
        let word = AtomicU32::new(0);
        let filter = SpillFilter(&word);
        assert!((0..=255).all(|tag| !filter.may_hold(tag)) && !filter.is_any());
        filter.add(7);
        let held = |filter: SpillFilter<'_>| (0..=255).filter(|&tag| filter.may_hold(tag)).count();
        assert_eq!((filter.may_hold(7), held(filter)), (true, 16));
        filter.turn();
        filter.add(8);
        assert_eq!((filter.may_hold(7), filter.may_hold(8)), (true, true));
        filter.turn();
        assert_eq!((filter.may_hold(7), filter.may_hold(8), held(filter)), (false, true, 16));
        filter.turn();
        assert!(!filter.is_any());
        filter.fill();
        filter.turn();
        assert_eq!((held(filter), filter.is_any()), (256, true));
    }
}
