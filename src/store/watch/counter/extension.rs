//! The words of a slot in which an extension counts: a part above the store.
//!
//! Invariant: the store gives these words no meaning. Only the owner of the slot writes them, and
//! they stay when it dies, so that the sum over all slots is the total of all owners.

use frs_base::sync::Ordering;

use super::{Counters, Histogram, Timed, at};

/// The words of an extension in a slot.
#[derive(Debug, Clone, Copy)]
pub struct ExtensionWords<'a>(Counters<'a>);

impl ExtensionWords<'_> {
    /// How many words there are.
    pub const COUNT: usize = at::EXTENSION_WORDS;
    /// The size of a table in them that the digest of the file's layout covers: builds with another
    /// size refuse the file.
    pub const TABLE: usize = at::EXTENSION_TABLE;

    /// Reads a word.
    pub fn load(self, word: usize) -> u64 {
        self.0.load(Self::place(word))
    }

    /// Adds to a word. Only the owner calls it.
    pub fn grow(self, word: usize, by: u64) {
        self.0.grow(Self::place(word), by);
    }

    /// Stores a word. Only the owner calls it.
    pub fn set(self, word: usize, value: u64) {
        self.0.set(Self::place(word), value);
    }

    /// Reads a word, and then all that was stored before it. Acquire: pairs with
    /// [`ExtensionWords::publish`].
    pub fn load_published(self, word: usize) -> u64 {
        self.0.region.word(self.0.base + Self::place(word)).load(Ordering::Acquire)
    }

    /// Stores a word after all that was stored before. Only the owner calls it. Release: pairs with
    /// [`ExtensionWords::load_published`].
    pub fn publish(self, word: usize, value: u64) {
        self.0.region.word(self.0.base + Self::place(word)).store(value, Ordering::Release);
    }

    /// Counts times from messages to their answers. Only the owner calls it.
    pub fn grow_times(self, times: &Histogram) {
        self.0.grow_times(Timed::Extension, times);
    }

    fn place(word: usize) -> usize {
        assert!(word < Self::COUNT, "word {word} of an extension");
        at::EXTENSION + word
    }
}

impl<'a> Counters<'a> {
    /// The words of an extension.
    pub fn extension(self) -> ExtensionWords<'a> {
        ExtensionWords(self)
    }
}

/// The sums of the words of an extension over all slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtensionSums {
    /// Empty before the first slot.
    words: Vec<u64>,
    /// Times from messages to their answers.
    pub times: Histogram,
}

impl ExtensionSums {
    /// The sum of a word.
    pub fn word(&self, word: usize) -> u64 {
        self.words.get(word).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, slot: Counters<'_>) {
        self.words.resize(ExtensionWords::COUNT, 0);
        for (word, sum) in self.words.iter_mut().enumerate() {
            // Some words are no counts, and their sum means nothing.
            *sum = sum.wrapping_add(slot.load(at::EXTENSION + word));
        }
        slot.add_times(Timed::Extension, &mut self.times);
    }
}
