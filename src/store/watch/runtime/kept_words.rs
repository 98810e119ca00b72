//! Words that the store keeps for an extension, and that outlive a boot.
//!
//! Invariant: only the master stores them, before it publishes a configuration that needs them.
//! Words that fail their CRC are not returned.

use super::Runtime;
use crate::file::layout::runtime as at;
use crate::file::words::header_crc;

impl Runtime {
    /// The words. None if they were never stored, or if they are damaged.
    pub fn kept_words(&self) -> Option<[u64; at::KEPT_WORDS]> {
        let words = std::array::from_fn(|nth| self.region.load(at::KEPT + nth));
        let crc = self.region.load(at::KEPT + at::KEPT_WORDS);
        // Words that were never written are all 0.
        (crc != 0 && crc == crc_of(words)).then_some(words)
    }

    /// Stores the words. Only the master calls it.
    pub fn keep_words(&self, words: [u64; at::KEPT_WORDS]) {
        for (nth, word) in words.into_iter().chain([crc_of(words)]).enumerate() {
            self.region.store(at::KEPT + nth, word);
        }
    }

    /// Changes the words, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn damage_kept_words(&self) {
        self.region.store(at::KEPT, self.region.load(at::KEPT) ^ 1);
    }
}

/// Never 0.
fn crc_of(words: [u64; at::KEPT_WORDS]) -> u64 {
    header_crc(&words) | 1 << 63
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_stored_and_damage_is_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::create_or_open(dir.path()).expect("made");
        assert_eq!(runtime.kept_words(), None, "none were stored");
        for words in [[1, 2, 3], [0, 0, 0], [u64::MAX, 7, u64::MAX]] {
            runtime.keep_words(words);
            let again = Runtime::open(dir.path()).expect("opened");
            assert_eq!(again.kept_words(), Some(words));
            for word in at::KEPT..=at::KEPT + at::KEPT_WORDS {
                let whole = runtime.region.load(word);
                runtime.region.store(word, whole ^ 1 << 40);
                assert_eq!(runtime.kept_words(), None, "word {word}");
                runtime.region.store(word, whole);
            }
        }
    }

    #[test]
    fn words_outlive_a_boot() {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::create_or_open(dir.path()).expect("made");
        runtime.keep_words([1, 2, 3]);
        let mut header: Vec<u64> = (0..at::CRC).map(|word| runtime.region.load(word)).collect();
        header[at::BOOT] ^= 1;
        runtime.region.store(at::BOOT, header[at::BOOT]);
        runtime.region.store(at::CRC, header_crc(&header));
        let of_this_boot = Runtime::create_or_open(dir.path()).expect("made again");
        assert_ne!(of_this_boot.boot(), runtime.boot());
        assert_eq!(of_this_boot.kept_words(), Some([1, 2, 3]));
    }
}
