//! A mapped file as words. Only this file does pointer arithmetic on them.
//!
//! Invariant: shared memory is only accessed as atomic words, by index, within the bounds. A word
//! is used either as one u64 or as two u32 halves, never as both.
#![cfg_attr(not(loom), allow(unsafe_code))]

use frs_base::sync::{AtomicU32, AtomicU64, Ordering};

#[cfg(not(loom))]
pub use mapped::Region;
#[cfg(loom)]
pub use modelled::Region;

/// Words of a cache line.
const LINE_WORDS: usize = 8;

impl Region {
    /// Reads one word.
    #[inline]
    pub fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    /// Writes one word.
    #[inline]
    pub fn store(&self, at: usize, value: u64) {
        put(self.word(at), value);
    }

    /// Writes one word, after everything that this thread wrote before.
    #[inline]
    pub fn store_release(&self, at: usize, value: u64) {
        put_release(self.word(at), value);
    }

    /// Stores a word's own value, so that the kernel considers its page dirty. A concurrent store
    /// of another process survives. This is a compare-exchange, because the compiler turns an
    /// addition of 0 into a load, and a load followed by a store would undo a store in between.
    pub fn touch(&self, at: usize) {
        let word = self.word(at);
        let mut value = word.load(Ordering::Relaxed);
        while let Err(found) =
            word.compare_exchange_weak(value, value, Ordering::Relaxed, Ordering::Relaxed)
        {
            value = found;
        }
    }

    /// Copies words out.
    #[inline(always)]
    pub fn read(&self, at: usize, out: &mut [u64]) {
        copy_out(self.words(at, out.len()), out);
    }

    /// Copies words in.
    #[inline(always)]
    pub fn write(&self, at: usize, values: &[u64]) {
        copy_in(self.words(at, values.len()), values);
    }
}

/// Copies words of a region out.
#[inline(always)]
pub(crate) fn copy_out(words: &[AtomicU64], out: &mut [u64]) {
    let (lines, rest) = words.as_chunks::<LINE_WORDS>();
    let (copies, copy) = out.as_chunks_mut::<LINE_WORDS>();
    // One line at a time: most copies are whole lines, and a line is a run of loads without a loop.
    for (copy, line) in copies.iter_mut().zip(lines) {
        *copy = std::array::from_fn(|word| line[word].load(Ordering::Relaxed));
    }
    for (copy, word) in copy.iter_mut().zip(rest) {
        *copy = word.load(Ordering::Relaxed);
    }
}

/// Copies words into a region.
#[inline(always)]
pub(crate) fn copy_in(words: &[AtomicU64], values: &[u64]) {
    let (lines, rest) = words.as_chunks::<LINE_WORDS>();
    let (values, value) = values.as_chunks::<LINE_WORDS>();
    for (values, line) in values.iter().zip(lines) {
        (0..LINE_WORDS).for_each(|word| put(&line[word], values[word]));
    }
    for (&value, word) in value.iter().zip(rest) {
        put(word, value);
    }
}

/// Copies words into a region. Of more than one line, writes only the lines that differ. The others
/// remain in other processors' caches.
#[inline(always)]
pub(crate) fn copy_changed(words: &[AtomicU64], values: &[u64]) {
    if words.len() <= LINE_WORDS {
        return copy_in(words, values);
    }
    let (lines, rest) = words.as_chunks::<LINE_WORDS>();
    let (new_lines, new_rest) = values.as_chunks::<LINE_WORDS>();
    for (new, line) in new_lines.iter().zip(lines) {
        let mut differing = 0;
        for word in 0..LINE_WORDS {
            differing |= line[word].load(Ordering::Relaxed) ^ new[word];
        }
        if differing != 0 {
            (0..LINE_WORDS).for_each(|word| put(&line[word], new[word]));
        }
    }
    copy_in(rest, new_rest);
}

/// Writes a word of a region.
#[inline]
pub fn put(word: &AtomicU64, value: u64) {
    #[cfg(any(test, feature = "crash-points"))]
    if !crate::crash::point() {
        return;
    }
    word.store(value, Ordering::Relaxed);
}

/// Writes a word of a region, after everything that this thread wrote before.
#[inline]
pub(crate) fn put_release(word: &AtomicU64, value: u64) {
    #[cfg(any(test, feature = "crash-points"))]
    if !crate::crash::point() {
        return;
    }
    word.store(value, Ordering::Release);
}

#[cfg(not(loom))]
mod mapped {
    use std::fs::File;
    use std::io;
    use std::mem::ManuallyDrop;
    use std::ops::Range;
    use std::ptr::NonNull;
    use std::sync::Arc;

    use nix::sys::mman::ProtFlags;

    use super::{AtomicU32, AtomicU64};
    use crate::file::map::{Map, PageAccess};

    /// Words that other processes may see and change.
    #[derive(Debug)]
    pub struct Region {
        base: NonNull<AtomicU64>,
        words: usize,
        backing: Backing,
    }

    /// A separate function, because an assertion stores the arguments of its message on every call.
    #[cold]
    #[inline(never)]
    fn out_of_bounds(at: usize, len: usize, of: usize) -> ! {
        panic!("words {at}..+{len} of {of}");
    }

    #[derive(Debug)]
    enum Backing {
        Map(Map),
        /// Memory of this process only, for tests and Miri. Not a box: a box claims exclusive
        /// access to its words at each move, and a region may be moved while its words are used.
        Shared {
            _all: Arc<Vec<AtomicU64>>,
        },
    }

    // SAFETY: all access goes through atomics. The backing is neither moved nor freed while the
    // Region lives, and both kinds may be freed from another thread.
    unsafe impl Send for Region {}
    // SAFETY: as above. A shared Region gives out nothing but atomics.
    unsafe impl Sync for Region {}

    impl Region {
        /// Maps `words` words of a file from a byte offset (a multiple of the page size), shared.
        /// The caller has checked that the file is that long.
        pub fn map(file: &File, offset_bytes: u64, words: usize) -> io::Result<Region> {
            let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            Ok(Region::of_map(Map::new(file, offset_bytes, words * 8, access)?, words))
        }

        /// Like [`Region::map`], for reading. A store through it would fault, so its users only
        /// load.
        pub(crate) fn map_for_reading(file: &File, words: usize) -> io::Result<Region> {
            Ok(Region::of_map(Map::new(file, 0, words * 8, ProtFlags::PROT_READ)?, words))
        }

        fn of_map(map: Map, words: usize) -> Region {
            Region { base: map.start().cast(), words, backing: Backing::Map(map) }
        }

        /// Zeroed words of this process only.
        pub fn boxed(words: usize) -> Region {
            // A vector of plain words is zeroed without touching its pages. Most of a large region
            // is never touched.
            let mut zeros = ManuallyDrop::new(vec![0u64; words]);
            let (start, capacity) = (zeros.as_mut_ptr().cast::<AtomicU64>(), zeros.capacity());
            // SAFETY: the vector has no other owner any more. AtomicU64 has the size, the alignment
            // and the bit validity of u64.
            let zeros = unsafe { Vec::from_raw_parts(start, words, capacity) };
            Region::of_words(Arc::new(zeros), 0, words)
        }

        /// The same words from `at` on, as another process would map them.
        #[cfg(any(test, feature = "crash-points"))]
        pub fn part(&self, at: usize, words: usize) -> Region {
            match &self.backing {
                Backing::Map(_) => panic!("a map is mapped again by its file"),
                Backing::Shared { _all: all } => {
                    let _ = self.words(at, words);
                    Region::of_words(all.clone(), at, words)
                }
            }
        }

        fn of_words(all: Arc<Vec<AtomicU64>>, at: usize, words: usize) -> Region {
            let base = NonNull::from(&all[at..at + words]).cast();
            Region { base, words, backing: Backing::Shared { _all: all } }
        }

        /// Its length in words.
        pub fn len(&self) -> usize {
            self.words
        }

        /// Its length in bytes.
        pub fn bytes(&self) -> usize {
            self.words * 8
        }

        /// Whether it has no words.
        pub fn is_empty(&self) -> bool {
            self.words == 0
        }

        /// Addresses of its bytes, for the list of maps that the SIGBUS handler reads.
        pub fn span(&self) -> Range<usize> {
            let start = self.base.as_ptr() as usize;
            start..start + self.bytes()
        }

        /// A word. Panics out of bounds.
        #[inline]
        pub fn word(&self, at: usize) -> &AtomicU64 {
            if at >= self.words {
                out_of_bounds(at, 1, self.words);
            }
            // SAFETY: in bounds by the check. The map or memory lives as long as `self`. Others, in
            // this process or another, use atomics too. A map is page-aligned.
            unsafe { &*self.base.as_ptr().add(at) }
        }

        /// `len` words from `at` on. Panics out of bounds.
        #[inline]
        pub fn words(&self, at: usize, len: usize) -> &[AtomicU64] {
            if at > self.words || len > self.words - at {
                out_of_bounds(at, len, self.words);
            }
            // SAFETY: in bounds by the check. Alive, aligned and atomic as for `word`.
            unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at), len) }
        }

        /// A half of a word, by 32-bit index. Panics out of bounds.
        #[inline]
        pub fn half(&self, at: usize) -> &AtomicU32 {
            if at / 2 >= self.words {
                out_of_bounds(at / 2, 1, self.words);
            }
            // SAFETY: in bounds by the check. Alive and aligned as for `word`. A word used by
            // halves is never used whole (this module's invariant).
            unsafe { &*self.base.as_ptr().cast::<AtomicU32>().add(at) }
        }

        /// Asks the processor to fetch the cache line of a word. Has no effect outside the region.
        #[inline(always)]
        pub fn prefetch(&self, at: usize) {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                // SAFETY: a hint. It reads and writes nothing and does not fault, at any address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(self.base.as_ptr().wrapping_add(at).cast()) };
            }
            let _ = at;
        }

        fn backing_map(&self) -> Option<&Map> {
            match &self.backing {
                Backing::Map(map) => Some(map),
                Backing::Shared { .. } => None,
            }
        }

        /// Leaves the map out of forked children.
        pub(crate) fn dont_fork(&self) -> io::Result<()> {
            self.backing_map().map_or(Ok(()), Map::dont_fork)
        }

        /// Turns read-ahead off, for a file that is mostly holes.
        pub(crate) fn dont_read_ahead(&self) -> io::Result<()> {
            self.backing_map().map_or(Ok(()), Map::dont_read_ahead)
        }

        /// Populates the page tables.
        pub(crate) fn populate(&self, access: PageAccess) -> io::Result<()> {
            self.backing_map().map_or(Ok(()), |map| map.populate(access))
        }

        /// How many huge pages fit into it. The rest stays in small pages.
        pub fn huge_pages(&self) -> usize {
            self.backing_map().map_or(0, Map::huge_pages)
        }

        /// Asks the kernel to make `count` huge pages, if the file is in memory.
        pub fn collapse(&self, first: usize, count: usize) -> io::Result<()> {
            self.backing_map().map_or(Ok(()), |map| map.collapse(first, count))
        }

        /// Writes dirty pages back and waits until that is done (msync).
        pub fn flush(&self) -> io::Result<()> {
            self.flush_part(0, self.bytes())
        }

        /// Writes the dirty pages of `bytes` bytes from byte `from` on back and waits for it.
        pub fn flush_part(&self, from: usize, bytes: usize) -> io::Result<()> {
            self.backing_map().map_or(Ok(()), |map| map.flush(from, bytes))
        }
    }
}

#[cfg(loom)]
mod modelled {
    use super::{AtomicU32, AtomicU64};

    /// Words under loom. Whole words and halves are kept separately.
    #[derive(Debug)]
    pub struct Region {
        words: Vec<AtomicU64>,
        halves: Vec<AtomicU32>,
    }

    impl Region {
        /// Zeroed words.
        pub fn boxed(words: usize) -> Region {
            Region {
                words: (0..words).map(|_| AtomicU64::new(0)).collect(),
                halves: (0..words * 2).map(|_| AtomicU32::new(0)).collect(),
            }
        }

        /// A word.
        pub fn word(&self, at: usize) -> &AtomicU64 {
            &self.words[at]
        }

        /// `len` words from `at` on.
        pub fn words(&self, at: usize, len: usize) -> &[AtomicU64] {
            &self.words[at..at + len]
        }

        /// A half of a word.
        pub fn half(&self, at: usize) -> &AtomicU32 {
            &self.halves[at]
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_length_are_written_as_they_are() {
        // Miri is slow. Two lines and a rest reach every branch.
        let longest = if cfg!(miri) { 2 * LINE_WORDS + 4 } else { 64 };
        for length in 0..=longest {
            for changed in 0..length {
                let words: Vec<AtomicU64> = (0..length as u64).map(AtomicU64::new).collect();
                let mut values: Vec<u64> = (0..length as u64).collect();
                values[changed] = u64::MAX;
                copy_changed(&words, &values);
                let written: Vec<u64> =
                    words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
                assert_eq!(written, values);
            }
        }
    }
}
