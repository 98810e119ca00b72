//! Words that the store keeps for an extension: a part above it that shares state between the
//! processes of a host.
//!
//! Invariant: the store gives them no meaning and writes none of them. They are 0 in a new
//! runtime.mmap.

use frs_base::sync::AtomicU64;

use super::Runtime;
use crate::file::layout::runtime as at;

impl Runtime {
    /// How many words of an extension there are.
    pub const EXTENSION_WORDS: usize = at::EXTENSION_WORDS;

    /// A word on the cache line of the generation, which every batch reads.
    #[inline]
    pub fn extension_word(&self) -> &AtomicU64 {
        self.region.word(at::EXTENSION_WORD)
    }

    /// Words on a cache line of their own.
    pub fn extension_words(&self) -> &[AtomicU64; at::EXTENSION_WORDS] {
        let words = self.region.words(at::EXTENSION, at::EXTENSION_WORDS);
        words.first_chunk().expect("as many as were asked for")
    }
}
