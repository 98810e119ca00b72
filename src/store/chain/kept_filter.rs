//! The filter in a key-node's head. It tells which keys without a node in the chain may have a
//! record that is kept outside these files.
//!
//! Invariant: a key whose record left for that place hits the filter for at least a whole period; a
//! hit may also be caused by another key. Only one process changes filters: it adds keys under the
//! key-node's semaphore, and turns periods without it. A look-up holds the semaphore, too, so
//! it sees a key that was added before the key's record was erased.
//!
//! Bits: 0..16 the present period, 16..32 the one before, a bit for each sixteenth of the tags.

use std::ops::Range;

use frs_base::sync::{AtomicU32, Ordering};

use crate::file::group::Group;
use crate::file::region::Region;

const BITS: u32 = 16;
const PRESENT: u32 = (1 << BITS) - 1;

/// The filter of a key-node, in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct KeptFilter<'a>(&'a AtomicU32);

impl<'a> KeptFilter<'a> {
    /// The filter of the key-node whose head begins at this word of its file: beside the semaphore.
    pub(crate) fn of_head(region: &'a Region, head: usize) -> KeptFilter<'a> {
        KeptFilter(region.half(head * 2 + 1))
    }

    /// Its bits, as the head holds them.
    pub fn bits(self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether a key with this tag may have a kept record.
    pub fn may_be_kept(self, tag: u8) -> bool {
        let word = self.bits();
        (word | word >> BITS) & bit(tag) != 0
    }

    /// Whether any key may have a kept record.
    pub fn is_any(self) -> bool {
        self.bits() != 0
    }

    /// Adds a key with this tag, whose record is kept.
    pub fn add(self, tag: u8) {
        self.0.store(self.bits() | bit(tag), Ordering::Relaxed);
    }

    /// Fills the filter: any key may have a kept record.
    pub fn fill(self) {
        self.0.store(PRESENT, Ordering::Relaxed);
    }

    /// Ends a period. Keys that were added in the period before it are forgotten.
    pub fn turn(self) {
        let word = self.bits();
        if word != 0 {
            self.0.store(word << BITS, Ordering::Relaxed);
        }
    }
}

/// The bit of a tag, by its lower bits: the upper bits decide the home, so keys of one place have
/// them in common.
fn bit(tag: u8) -> u32 {
    1 << (u32::from(tag) % BITS)
}

impl Group {
    /// The filter of a key-node. It tells which keys that have no node here may have a kept
    /// record.
    pub fn filter(&self, file: u32, key_node: u32) -> KeptFilter<'_> {
        KeptFilter::of_head(self.file(file), self.head(key_node))
    }

    /// Ends a period of the filters of the key-nodes `from..to`, which are numbered over all files.
    pub fn turn_filters(&self, from: usize, to: usize) {
        self.filters(from..to).for_each(KeptFilter::turn);
    }

    /// Whether any key may have a kept record.
    pub fn has_kept(&self) -> bool {
        self.filters(0..self.geometry().all_key_nodes()).any(KeptFilter::is_any)
    }

    /// Fills all filters: any key may have a kept record.
    pub fn fill_filters(&self) {
        self.filters(0..self.geometry().all_key_nodes()).for_each(KeptFilter::fill);
    }

    fn filters(&self, some: Range<usize>) -> impl Iterator<Item = KeptFilter<'_>> {
        some.map(|number| {
            let at = self.geometry().key_node_at(number);
            self.filter(at.file, at.key_node)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: spill.
    #[test]
    fn what_was_added_is_known_for_a_whole_period() {
        let word = AtomicU32::new(0);
        let filter = KeptFilter(&word);
        assert!((0..=255).all(|tag| !filter.may_be_kept(tag)) && !filter.is_any());
        filter.add(7);
        let held =
            |filter: KeptFilter<'_>| (0..=255).filter(|&tag| filter.may_be_kept(tag)).count();
        assert_eq!((filter.may_be_kept(7), held(filter)), (true, 16));
        filter.turn();
        filter.add(8);
        assert_eq!((filter.may_be_kept(7), filter.may_be_kept(8)), (true, true));
        filter.turn();
        assert_eq!((filter.may_be_kept(7), filter.may_be_kept(8), held(filter)), (false, true, 16));
        filter.turn();
        assert!(!filter.is_any());
        filter.fill();
        filter.turn();
        assert_eq!((held(filter), filter.is_any()), (256, true));
    }
}
