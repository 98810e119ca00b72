//! A want: one item that needs a lease, as an owner writes it into the ring of its slot and the
//! courier reads it there.
//!
//! Invariant: a record is believed only if its CRC covers exactly what is read, the sequence of its
//! entry included. A stray write, or half of another want, gives [`Damaged`], and never a panic.

#[cfg(not(loom))]
use frs_base::hash::crc32c_words;
#[cfg(not(loom))]
use frs_conf::key::KeyRef;

use crate::file::layout::node;
use crate::file::layout::slot::{
    WANT_CHECK, WANT_DEADLINE, WANT_FIELD, WANT_FIELD_WORDS, WANT_GENERATION, WANT_KEY, WANT_NEED,
    WANT_REQUEST, WANT_WORDS,
};

/// The words of a record.
pub(crate) type Record = [u64; WANT_WORDS];

/// The kinds of wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum WantKind {
    /// Reads the ledger's count (`exact`).
    Query = 1,
    /// Charges uses.
    Update = 2,
    /// Fetches the record of the key that the cluster keeps.
    Fetch = 3,
    /// Finds out the present window, and gives uses back in it.
    Window = 4,
}

/// An item's request to the courier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Its kind.
    pub kind: WantKind,
    /// Biz id, length and form of the key: word 1 of its node.
    pub key_word: u64,
    /// The key field of its node, zero beyond the key.
    pub field: [u64; WANT_FIELD_WORDS],
    /// The configuration that the item was resolved with.
    pub generation: u64,
    /// Uses that it lacks.
    pub need: u64,
    /// The time when the wait for it ends, in milliseconds of CLOCK_BOOTTIME.
    pub deadline_ms: u64,
    /// The atomic request that it is a part of.
    pub request: Option<WantedTogether>,
}

/// An atomic request: all of its wants are for one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedTogether {
    /// Its number in its slot, below 2^48.
    pub number: u64,
    /// How many wants it has, at least 1.
    pub wants: u16,
}

impl WantedTogether {
    /// Bits of a number.
    const NUMBER_BITS: u32 = 48;

    fn word(request: Option<WantedTogether>) -> u64 {
        request.map_or(0, |request| request.number | u64::from(request.wants) << Self::NUMBER_BITS)
    }

    fn of_word(word: u64) -> Option<WantedTogether> {
        let wants = (word >> Self::NUMBER_BITS) as u16;
        let number = word & ((1 << Self::NUMBER_BITS) - 1);
        (wants > 0).then_some(WantedTogether { number, wants })
    }
}

/// A record that no owner wrote in this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

/// The result of a want. The ring stores these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum WantResult {
    /// The node holds the ledger's answer, so the item runs again.
    Answered = 1,
    /// The cluster cannot be reached: `on-down` decides.
    Unreachable = 2,
    /// The courier cannot serve the want, for example because its record is damaged or of another
    /// configuration. The item runs again, and asks again if it still lacks something.
    Unserved = 3,
    /// A stray write has taken the entry from this want. Treated as [`WantResult::Unserved`]. No
    /// courier stores this result.
    Lost = 4,
    /// The item's node has no room: leases fill its chain.
    Full = 5,
}

impl WantResult {
    /// The result of a number in the ring.
    pub(crate) const fn of_number(number: u8) -> Option<WantResult> {
        Some(match number {
            1 => WantResult::Answered,
            2 => WantResult::Unreachable,
            3 => WantResult::Unserved,
            5 => WantResult::Full,
            _ => return None,
        })
    }
}

impl WantKind {
    const fn of_number(number: u64) -> Option<WantKind> {
        Some(match number {
            1 => WantKind::Query,
            2 => WantKind::Update,
            3 => WantKind::Fetch,
            4 => WantKind::Window,
            _ => return None,
        })
    }
}

#[cfg(not(loom))]
impl Want {
    /// A want of a key of a biz: one use, by configuration 0, with no time to wait.
    pub fn of_key(kind: WantKind, biz_id: u32, key: KeyRef<'_>) -> Want {
        let mut field = [0; WANT_FIELD_WORDS];
        field[..key.words().len()].copy_from_slice(key.words());
        let key_word = node::key_word(biz_id, key.form() as u8, key.bytes());
        Want { kind, key_word, field, generation: 0, need: 1, deadline_ms: 0, request: None }
    }

    /// The biz.
    #[cfg(any(test, feature = "testing"))]
    pub fn biz_id(&self) -> u32 {
        self.key_word as u32
    }

    /// The key, if its words are valid.
    #[cfg(any(test, feature = "testing"))]
    pub fn key(&self) -> Option<KeyRef<'_>> {
        let (bytes, form) = (node::key_bytes(self.key_word), node::key_form(self.key_word));
        KeyRef::from_stored(&self.field, bytes, form)
    }
}

impl Want {
    /// Its record in an entry of this sequence, and how many words of it are in use.
    pub(crate) fn encode(&self, sequence: u64) -> (Record, usize) {
        let words = words_in_use(self.key_word).expect("a key that a node can hold");
        let mut record = [0; WANT_WORDS];
        record[WANT_KEY] = self.key_word;
        record[WANT_GENERATION] = self.generation;
        record[WANT_NEED] = self.need;
        record[WANT_DEADLINE] = self.deadline_ms;
        record[WANT_REQUEST] = WantedTogether::word(self.request);
        let field = words - WANT_FIELD;
        record[WANT_FIELD..words].copy_from_slice(&self.field[..field]);
        let kind = self.kind as u64;
        record[WANT_CHECK] = check(sequence, kind, &record[..words]) | kind << 32;
        (record, words)
    }

    /// The want in a record of an entry of this sequence; words after those in use are ignored.
    pub(crate) fn decode(record: &Record, sequence: u64) -> Result<Want, Damaged> {
        let words = words_in_use(record[WANT_KEY]).ok_or(Damaged)?;
        let number = record[WANT_CHECK] >> 32;
        let kind = WantKind::of_number(number).ok_or(Damaged)?;
        if check(sequence, number, &record[..words]) != record[WANT_CHECK] & 0xffff_ffff {
            return Err(Damaged);
        }
        let mut field = [0; WANT_FIELD_WORDS];
        field[..words - WANT_FIELD].copy_from_slice(&record[WANT_FIELD..words]);
        Ok(Want {
            kind,
            key_word: record[WANT_KEY],
            field,
            generation: record[WANT_GENERATION],
            need: record[WANT_NEED],
            deadline_ms: record[WANT_DEADLINE],
            request: WantedTogether::of_word(record[WANT_REQUEST]),
        })
    }
}

/// Words in use of a record whose key has this word. None if no record has room for such a key.
pub(crate) fn words_in_use(key_word: u64) -> Option<usize> {
    let field = usize::from(node::key_bytes(key_word)).div_ceil(8);
    (field <= WANT_FIELD_WORDS).then_some(WANT_FIELD + field)
}

/// The CRC of a record's words in use.
fn check(sequence: u64, kind: u64, record: &[u64]) -> u64 {
    u64::from(crc32c_words([sequence, kind, record[WANT_KEY]], &record[WANT_GENERATION..]))
}

/// Under loom, in place of the hash: a sum that any word changes.
#[cfg(loom)]
fn crc32c_words(first: [u64; 3], rest: &[u64]) -> u32 {
    let words = first.iter().chain(rest);
    words.fold(1u64, |sum, word| sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn want() -> impl Strategy<Value = Want> {
        let kind = prop::sample::select(vec![
            WantKind::Query,
            WantKind::Update,
            WantKind::Fetch,
            WantKind::Window,
        ]);
        let key = proptest::collection::vec(any::<u64>(), 0..=WANT_FIELD_WORDS);
        let request = any::<Option<(u64, u16)>>();
        (kind, any::<[u64; 3]>(), any::<u32>(), any::<u8>(), (key, request), 0..8u16).prop_map(
            |(kind, [generation, need, deadline_ms], biz, form, (key, request), less)| {
                let request = request.map(|(number, wants)| WantedTogether {
                    number: number >> 16,
                    wants: wants.max(1),
                });
                let mut field = [0; WANT_FIELD_WORDS];
                field[..key.len()].copy_from_slice(&key);
                let bytes = (key.len() as u16 * 8).saturating_sub(less);
                // Words after the last byte do not belong to the key.
                field[usize::from(bytes).div_ceil(8)..].fill(0);
                let key_word = node::key_word(biz, form, bytes);
                Want { kind, key_word, field, generation, need, deadline_ms, request }
            },
        )
    }

    proptest! {
        #[test]
        fn a_want_is_read_as_it_was_written(want in want(), sequence: u64, rest: u64) {
            let (mut record, words) = want.encode(sequence);
            // Words that another want left there.
            record[words..].fill(rest);
            prop_assert_eq!(Want::decode(&record, sequence), Ok(want));
        }

        #[test]
        fn a_stray_write_is_noticed(
            want in want(), sequence: u64, at in 0..WANT_WORDS, flips in 1..u64::MAX,
        ) {
            let (mut record, words) = want.encode(sequence);
            record[at] ^= flips;
            let is_whole = Want::decode(&record, sequence) == Ok(want);
            prop_assert_eq!(is_whole, at >= words);
        }

        #[test]
        fn a_want_of_an_entry_before_is_noticed(want in want(), sequence: u64, other: u64) {
            prop_assume!(sequence != other);
            let (record, _) = want.encode(sequence);
            prop_assert_eq!(Want::decode(&record, other), Err(Damaged));
        }

        #[test]
        fn no_words_are_a_panic(words: [u64; WANT_WORDS], sequence: u64) {
            let _ = Want::decode(&words, sequence);
        }
    }
}
