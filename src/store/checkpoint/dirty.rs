//! The pages of a group file that have changed since each of its two checkpoints.
//!
//! Invariant: a page's bit for a checkpoint is set whenever the page differs from the copy that the
//! checkpoint last took of it. The only exception is a page whose key-node is just being changed,
//! under its semaphore.
//!
//! A writer takes the semaphore, changes nodes, looks at the bit, sets it if it is clear, and
//! releases. The keeper clears the bit, looks at the semaphore, and copies. All four are SeqCst, so
//! either the writer sees the bit cleared, or the keeper sees the semaphore taken. So a look at the
//! bit is enough for a writer if the page is marked already, as most pages are. An instruction that
//! locks the line would cost an Update more than 2 % of its time. `model/checkpoint.rs` shows that
//! this suffices, and that less does not.

use frs_base::sync::{AtomicU64, Ordering, fence, in_order};

use crate::file::layout::PAGE_WORDS;
use crate::file::region::{Region, copy_out};
use crate::lock::semaphore::Semaphore;

/// The two checkpoints of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `GROUP.I.checkpoint.a`.
    A = 0,
    /// `GROUP.I.checkpoint.b`.
    B = 1,
}

impl Side {
    /// Both.
    pub const BOTH: [Side; 2] = [Side::A, Side::B];

    /// The other one.
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

/// Pages of a word of bits.
pub(crate) const PAGES_OF_WORD: usize = 64;
const SIDES: usize = 2;

/// The bits of a file: of each 64 pages a word for checkpoint a and, on the same line, one for b.
#[derive(Debug)]
pub struct DirtyPages {
    region: Region,
    /// The first word of bits.
    first: usize,
    pages: usize,
}

impl DirtyPages {
    /// Words for the bits of this many pages.
    pub const fn words_of(pages: usize) -> usize {
        pages.div_ceil(PAGES_OF_WORD) * SIDES
    }

    /// The bits of `pages` pages in a region, from its word `first` on.
    pub fn new(region: Region, first: usize, pages: usize) -> DirtyPages {
        assert!(region.words(first, Self::words_of(pages)).len() == Self::words_of(pages));
        DirtyPages { region, first, pages }
    }

    /// The region that holds them.
    #[cfg(not(loom))]
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// Pages of the file.
    #[cfg(test)]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Words of bits for each checkpoint.
    pub(crate) fn words_of_side(&self) -> usize {
        self.pages.div_ceil(PAGES_OF_WORD)
    }

    /// Marks the pages that hold `len` words of the file from `at` on. The caller, or the dead
    /// owner whose work it undoes, holds the semaphore of their key-node.
    #[inline(always)]
    pub fn mark(&self, at: usize, len: usize) {
        debug_assert!(len > 0);
        in_order();
        let (first, last) = (at / PAGE_WORDS, (at + len - 1) / PAGE_WORDS);
        self.mark_page(first);
        if first != last {
            (first + 1..=last).for_each(|page| self.mark_page(page));
        }
    }

    #[inline(always)]
    fn mark_page(&self, page: usize) {
        let bit = 1 << (page % PAGES_OF_WORD);
        let words = self.region.words(self.words_at(page), SIDES);
        // SeqCst: after the exchange of the semaphore; pairs with `take` and with the keeper's look
        // at the semaphore.
        if words[0].load(Ordering::SeqCst) & words[1].load(Ordering::SeqCst) & bit == 0 {
            set(words, bit);
        }
    }

    /// Asks the processor to fetch the bits of the page that holds word `at` of the file.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn prefetch(&self, at: usize) {
        self.region.prefetch(self.words_at(at / PAGE_WORDS));
    }

    /// The words with a page's bits.
    #[inline(always)]
    fn words_at(&self, page: usize) -> usize {
        self.first + page / PAGES_OF_WORD * SIDES
    }

    pub(crate) fn word(&self, index: usize, side: Side) -> &AtomicU64 {
        self.region.word(self.first + index * SIDES + side as usize)
    }

    /// Clears 64 bits and returns those that were set. A later copy by [`copy_quiet`] holds all
    /// changes that these bits stand for.
    pub fn take(&self, index: usize, side: Side) -> u64 {
        // SeqCst: before the look at the semaphore; pairs with `mark_page`. A load comes first:
        // most words are 0, and an exchange would take the line from the writers.
        let word = self.word(index, side);
        if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::SeqCst) }
    }

    /// The bits that are set now. They include every change made before the caller saw the
    /// semaphore released.
    pub fn look(&self, index: usize, side: Side) -> u64 {
        self.word(index, side).load(Ordering::Acquire)
    }

    /// Sets bits again, because their pages were not written.
    pub fn give_back(&self, index: usize, side: Side, bits: u64) {
        if bits != 0 {
            self.word(index, side).fetch_or(bits, Ordering::SeqCst);
        }
    }

    /// Sets all bits of a checkpoint, because its content is not known.
    pub fn fill(&self, side: Side) {
        for index in 0..self.words_of_side() {
            let pages = (self.pages - index * PAGES_OF_WORD).min(PAGES_OF_WORD);
            self.give_back(index, side, u64::MAX >> (PAGES_OF_WORD - pages));
        }
    }

    /// How many pages are marked.
    #[cfg(test)]
    pub fn count(&self, side: Side) -> u64 {
        (0..self.words_of_side()).map(|index| u64::from(self.look(index, side).count_ones())).sum()
    }
}

/// The first change of a page after a pass: a few times a second.
#[cold]
#[inline(never)]
fn set(words: &[AtomicU64], bit: u64) {
    #[cfg(any(test, feature = "crash-points"))]
    if !crate::crash::point() {
        return;
    }
    for word in words {
        // Release, included in SeqCst: a keeper that takes the bit sees the changed nodes; pairs
        // with `take`.
        word.fetch_or(bit, Ordering::SeqCst);
    }
}

/// Copies words of a key-node as a commit left them. Takes no semaphore. Returns false if a process
/// holds the semaphore or changes the words meanwhile: then `out` is worthless, and the words can
/// be copied later.
///
/// If two copies are equal, their words were in memory all together between the copies, while the
/// semaphore was free. A look at the semaphore before and after one copy is not enough: a whole
/// transaction may come and go between the two.
pub(crate) fn copy_quiet(semaphore: Semaphore<'_>, words: &[AtomicU64], out: &mut [u64]) -> bool {
    if semaphore.word_in_order() != 0 {
        return false;
    }
    copy_out(words, out);
    // Acquire: if the copy has a word of a transaction, the look below sees its semaphore taken;
    // pairs with the fences of `begin`.
    fence(Ordering::Acquire);
    semaphore.word_in_order() == 0
        && words.iter().zip(out.iter()).all(|(word, &copy)| word.load(Ordering::Relaxed) == copy)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pages(count: usize) -> DirtyPages {
        DirtyPages::new(Region::boxed(3 + DirtyPages::words_of(count)), 3, count)
    }

    fn marked(dirty: &DirtyPages, side: Side) -> Vec<usize> {
        let is_set = |page: &usize| dirty.look(page / 64, side) >> (page % 64) & 1 == 1;
        (0..dirty.pages()).filter(is_set).collect()
    }

    #[test]
    fn each_page_that_a_change_touches_is_marked_for_both() {
        let dirty = pages(130);
        dirty.mark(PAGE_WORDS - 1, 1);
        dirty.mark(64 * PAGE_WORDS - 1, 2);
        dirty.mark(100 * PAGE_WORDS, 3 * PAGE_WORDS);
        for side in Side::BOTH {
            assert_eq!(marked(&dirty, side), [0, 63, 64, 100, 101, 102]);
        }
        assert_eq!(dirty.take(1, Side::A).count_ones(), 4);
        assert_eq!(marked(&dirty, Side::A), [0, 63]);
        assert_eq!(dirty.count(Side::B), 6);
        dirty.mark(101 * PAGE_WORDS, 1);
        assert_eq!(marked(&dirty, Side::A), [0, 63, 101], "again, though b has it");
    }

    #[test]
    fn all_of_it_is_no_more_than_there_is() {
        for count in [1, 63, 64, 65, 130] {
            let dirty = pages(count);
            dirty.fill(Side::B);
            assert_eq!((dirty.count(Side::A), dirty.count(Side::B)), (0, count as u64));
        }
    }
}
