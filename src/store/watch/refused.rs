//! The refused keys of each slot: the keys of a business that are refused most, in the last minute
//! and in the last hour.
//!
//! A sketch keeps the 64 keys that were refused most, with counts that are never too low and at
//! most too high by their error (space-saving: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient
//! computation of frequent and top-k elements in data streams", 2005). Its time is cut into panes
//! of 10 seconds. A pane that has ended is folded into one of 10 minutes. Readers add up the panes
//! of several processes ("Mergeable summaries", P. Agarwal et al., 2012).
//!
//! Invariant: only the owner of a slot writes its sketches, and takes no lock. A reader recognises
//! an entry that is being replaced by the entry's check, and panes that turn by the sequence of
//! their sketch. If an owner dies, nothing is counted twice, and at most the pane of 10 minutes
//! that it was folding into is lost.

mod reader;
mod summary;
mod writer;

// Not under Miri: these files have no unsafe code, and the tests take long.
#[cfg(all(test, not(miri)))]
mod tests;

pub(crate) use reader::RefusedSums;
pub use reader::{RefusedCount, RefusedKeys};
pub use writer::RefusedSketches;

use frs_base::clock::Millis;
use frs_base::sync::{Ordering, fence};
use frs_conf::key::{KeyForm, KeyRef};

use super::counter::Counters;
use crate::file::layout::{node, slot as at};
use crate::file::region::Region;

/// The length of a short pane, in milliseconds.
const SHORT_MS: u64 = 10_000;
/// Short panes of a long one.
const SHORT_OF_LONG: u64 = 60;
/// An hour in short panes.
const HOUR: u64 = 360;
/// Words of the longest text that a sketch keeps.
const KEPT_WORDS: usize = 5;
/// Bytes of the longest key that a sketch keeps whole. Of a longer key it keeps the digest and up
/// to as many first bytes.
pub const KEPT_BYTES: usize = KEPT_WORDS * 8;
/// Words of a digest.
const DIGEST_WORDS: usize = 2;
const _: () = assert!(at::ENTRY_FIELD_WORDS == DIGEST_WORDS + KEPT_WORDS);
const _: () = assert!(at::ENTRY_FIELD == at::ENTRY_KEY + 1);

/// How far a reader looks back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// 60 to 70 seconds.
    Minute,
    /// 60 to 70 minutes.
    Hour,
}

/// A key as an entry holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RefusedKey {
    /// Biz id, key length and key form, as in word 1 of a node.
    pub word: u64,
    /// The key field, padded with zeros. Of a key that was cut: its digest, and its first bytes.
    pub field: [u64; at::ENTRY_FIELD_WORDS],
}

impl RefusedKey {
    /// A whole key of at most [`KEPT_BYTES`], from its stored words.
    #[inline]
    pub fn new(biz_id: u32, form: u8, bytes: u16, words: &[u64]) -> RefusedKey {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let field = std::array::from_fn(word);
        RefusedKey { word: node::key_word(biz_id, form, bytes), field }
    }

    /// A longer text: its digest, and the whole characters among its first bytes.
    pub fn cut(biz_id: u32, digest: &[u64], text: &[u8]) -> RefusedKey {
        let bytes = 8 * DIGEST_WORDS as u16;
        let mut key = RefusedKey::new(biz_id, KeyForm::Digest as u8, bytes, digest);
        let first = &text[..text.len().min(KEPT_BYTES)];
        let end = std::str::from_utf8(first).map_or_else(|error| error.valid_up_to(), str::len);
        let mut kept = [0; KEPT_BYTES];
        kept[..end].copy_from_slice(&first[..end]);
        for (word, bytes) in key.field[DIGEST_WORDS..].iter_mut().zip(kept.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        key
    }

    /// Id of its business.
    pub const fn biz_id(&self) -> u32 {
        self.word as u32
    }

    /// The key. None if the words are no valid key, so that no owner wrote them.
    pub fn key(&self) -> Option<KeyRef<'_>> {
        let (bytes, form) = (node::key_bytes(self.word), node::key_form(self.word));
        let is_cut = form == KeyForm::Digest as u8;
        let field = if is_cut { &self.field[..DIGEST_WORDS] } else { &self.field[..] };
        KeyRef::from_stored(field, bytes, form)
    }

    /// The first characters of a key that was cut. None if the key is whole, or if only its digest
    /// is kept.
    pub fn begins(&self) -> Option<String> {
        let is_digest = node::key_form(self.word) == KeyForm::Digest as u8;
        let bytes: Vec<u8> =
            self.field[DIGEST_WORDS..].iter().flat_map(|word| word.to_le_bytes()).collect();
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        (is_digest && !text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// A check that tells entries apart, never 0. An attacker who chooses keys with equal checks
    /// only slows the comparison of keys down.
    #[inline]
    fn check(&self) -> u64 {
        // A factor for each word, so that no product waits for another one. Most keys end before
        // the last four words, so these have no factors of their own.
        const FACTORS: [u64; 4] = [
            0x9e37_79b9_7f4a_7c15,
            0xbf58_476d_1ce4_e5b9,
            0x94d0_49bb_1331_11eb,
            0xd6e8_feb8_6659_fd93,
        ];
        let [first, second, third, last @ ..] = self.field;
        let words = [self.word, first, second, third];
        let product = |at: usize| (words[at] ^ last[at].rotate_left(32)).wrapping_mul(FACTORS[at]);
        product(0).wrapping_add(product(1)).wrapping_add(product(2)).wrapping_add(product(3)) | 1
    }
}

/// How often a key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tally {
    key: RefusedKey,
    /// The key was refused at most this often.
    count: u64,
    /// The key was refused at least `count - error` times.
    error: u64,
    last_ms: Millis,
}

/// The tallies of a pane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pane {
    tallies: Vec<Tally>,
    /// No entry is free: a key without a tally was counted at most as often as the least tally.
    is_full: bool,
}

/// The two kinds of panes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Short = 0,
    Long = 1,
}

/// The sketch of all businesses without their own.
const OTHERS: usize = at::SKETCHES.saturating_sub(1);

/// A sketch in a slot.
#[derive(Debug, Clone, Copy)]
struct SketchWords<'a> {
    region: &'a Region,
    head: usize,
    panes: usize,
}

impl<'a> SketchWords<'a> {
    fn of(counters: Counters<'a>, sketch: usize) -> SketchWords<'a> {
        let Counters { region, base } = counters;
        let head = base + at::SKETCH_HEADS + sketch * at::SKETCH_HEAD_WORDS;
        let panes = base + at::SKETCHES_START + sketch * at::SKETCH_WORDS;
        SketchWords { region, head, panes }
    }

    fn head(&self, word: usize) -> u64 {
        self.region.load(self.head + word)
    }

    fn set_head(&self, word: usize, value: u64) {
        self.store(self.head + word, value);
    }

    #[inline]
    fn store(&self, at: usize, value: u64) {
        self.store_with(at, value, Ordering::Relaxed);
    }

    #[inline]
    fn store_with(&self, at: usize, value: u64, order: Ordering) {
        #[cfg(any(test, feature = "crash-points"))]
        if !crate::crash::figure() {
            return;
        }
        self.region.word(at).store(value, order);
    }

    /// The business that it was given to.
    fn biz(&self) -> Option<u32> {
        let word = self.head(at::SKETCH_BIZ);
        (word & at::SKETCH_GIVEN != 0).then_some(word as u32)
    }

    /// The word with the number of the pane in this place.
    fn number_word(kind: Kind, place: usize) -> usize {
        at::SKETCH_NUMBERS + kind as usize * at::SKETCH_PANES + place
    }

    /// The place of the pane with this number.
    fn place(number: u64) -> usize {
        (number % at::SKETCH_PANES as u64) as usize
    }

    /// The numbers of its panes; 0 for a place without a pane.
    fn numbers(&self, kind: Kind) -> [u64; at::SKETCH_PANES] {
        std::array::from_fn(|place| self.head(Self::number_word(kind, place)))
    }

    /// The key of the entry at this word.
    fn key_at(&self, entry: usize) -> RefusedKey {
        let word = |at: usize| self.region.load(entry + at);
        RefusedKey {
            word: word(at::ENTRY_KEY),
            field: std::array::from_fn(|part| word(at::ENTRY_FIELD + part)),
        }
    }

    /// Whether the entry at this word holds this key.
    #[inline]
    fn holds(&self, entry: usize, key: &RefusedKey) -> bool {
        let words = self.region.words(entry + at::ENTRY_KEY, 1 + at::ENTRY_FIELD_WORDS);
        let differs = |at: usize, of: u64| words[at].load(Ordering::Relaxed) ^ of;
        let [first, second, third, fourth, fifth, sixth, seventh] = key.field;
        let one = differs(0, key.word) | differs(1, first) | differs(2, second);
        let other = differs(3, third) | differs(4, fourth) | differs(5, fifth);
        one | other | differs(6, sixth) | differs(7, seventh) == 0
    }

    /// Reads a pane. An entry that is being replaced is left out, but the pane still counts as
    /// full: entries are replaced only when none is free.
    fn read_pane(&self, kind: Kind, number: u64, pane: &mut Pane) {
        pane.tallies.clear();
        let mut free = 0;
        for at in 0..at::SKETCH_ENTRIES {
            let entry = self.entry(kind, number, at);
            // Acquire: pairs with the writer's last store of an entry.
            let check = self.region.word(entry + at::ENTRY_CHECK).load(Ordering::Acquire);
            let key = self.key_at(entry);
            let [count, error, last_ms] = [at::ENTRY_COUNT, at::ENTRY_ERROR, at::ENTRY_LAST]
                .map(|word| self.region.load(entry + word));
            // Acquire: pairs with the writer's fence.
            fence(Ordering::Acquire);
            if check != 0
                && check == key.check()
                && self.region.load(entry + at::ENTRY_CHECK) == check
            {
                pane.tallies.push(Tally { key, count, error: error.min(count), last_ms });
            }
            free += usize::from(check == 0 && count == 0);
        }
        pane.is_full = free == 0;
    }

    /// The first word of an entry.
    fn entry(&self, kind: Kind, number: u64, entry: usize) -> usize {
        self.entry_of(Self::pane_start(kind, number), entry)
    }

    /// The first word of an entry of the pane that starts there.
    #[inline]
    fn entry_of(&self, pane_start: usize, entry: usize) -> usize {
        self.panes + pane_start + entry * at::SKETCH_ENTRY_WORDS
    }

    /// The first word of a pane, from the first one of its sketch on.
    fn pane_start(kind: Kind, number: u64) -> usize {
        (kind as usize * at::SKETCH_PANES + Self::place(number)) * at::PANE_WORDS
    }
}

/// The number of the short pane of a time. It is never 0.
const fn short_pane(now: Millis) -> u64 {
    now / SHORT_MS + 1
}

/// The number of the long pane that a short one belongs to.
const fn long_pane(short: u64) -> u64 {
    (short - 1) / SHORT_OF_LONG + 1
}
