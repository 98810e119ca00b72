//! A letter: an opaque message, as an owner writes it into the ring of its slot and the reader of
//! the mailboxes finds it there.
//!
//! Invariant: a record is believed only if its CRC covers exactly what is read, the sequence of its
//! entry included. A stray write, or half of another letter, gives [`Damaged`], and never a panic.

#[cfg(not(loom))]
use frs_base::hash::crc32c_words;

use crate::file::layout::slot::{
    LETTER_CHECK, LETTER_HEAD, LETTER_HEAD_WORDS, LETTER_TAIL, LETTER_TAIL_WORDS, LETTER_WORDS,
};

/// The words of a record.
pub(crate) type Record = [u64; LETTER_WORDS];

/// A message of the layers above. The store knows its size and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Letter {
    /// Its kind, as the layers above number it.
    pub kind: u8,
    /// The part of fixed size. Bits 32..48 of the first word are the bytes of the tail in use.
    pub head: [u64; LETTER_HEAD_WORDS],
    /// The part of variable size, zero beyond its bytes.
    pub tail: [u64; LETTER_TAIL_WORDS],
}

/// A record that no owner wrote in this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

/// The reply to a letter: a number of the layers above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply(u8);

impl Reply {
    /// The reader of the mailboxes cannot read the letter.
    pub const UNREADABLE: Reply = Reply(3);
    /// A stray write has taken the entry from this letter. Nobody stores this reply.
    pub const LOST: Reply = Reply(4);
    /// The largest number.
    const MAX: u8 = 7;

    /// The reply of a number from 1 to 7. None for other numbers, and for that of
    /// [`Reply::LOST`].
    pub const fn of_number(number: u8) -> Option<Reply> {
        let is_stored = number > 0 && number <= Reply::MAX && number != Reply::LOST.0;
        if is_stored { Some(Reply(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl Letter {
    /// Its record in an entry of this sequence, and how many words of it are in use.
    pub(crate) fn encode(&self, sequence: u64) -> (Record, usize) {
        let words = words_in_use(self.head[0]).expect("a tail that a record can hold");
        let mut record = [0; LETTER_WORDS];
        record[LETTER_HEAD..LETTER_TAIL].copy_from_slice(&self.head);
        record[LETTER_TAIL..words].copy_from_slice(&self.tail[..words - LETTER_TAIL]);
        let kind = u64::from(self.kind);
        record[LETTER_CHECK] = check(sequence, kind, &record[..words]) | kind << 32;
        (record, words)
    }

    /// The letter in a record of an entry of this sequence; words after those in use are ignored.
    pub(crate) fn decode(record: &Record, sequence: u64) -> Result<Letter, Damaged> {
        let words = words_in_use(record[LETTER_HEAD]).ok_or(Damaged)?;
        let number = record[LETTER_CHECK] >> 32;
        let kind = u8::try_from(number).map_err(|_| Damaged)?;
        if check(sequence, number, &record[..words]) != record[LETTER_CHECK] & 0xffff_ffff {
            return Err(Damaged);
        }
        let mut letter =
            Letter { kind, head: [0; LETTER_HEAD_WORDS], tail: [0; LETTER_TAIL_WORDS] };
        letter.head.copy_from_slice(&record[LETTER_HEAD..LETTER_TAIL]);
        letter.tail[..words - LETTER_TAIL].copy_from_slice(&record[LETTER_TAIL..words]);
        Ok(letter)
    }
}

/// Words in use of a record whose head begins with this word. None if no record has room for such
/// a tail.
pub(crate) fn words_in_use(first: u64) -> Option<usize> {
    let tail = usize::from((first >> 32) as u16).div_ceil(8);
    (tail <= LETTER_TAIL_WORDS).then_some(LETTER_TAIL + tail)
}

/// The CRC of a record's words in use.
fn check(sequence: u64, kind: u64, record: &[u64]) -> u64 {
    let (first, rest) = (record[LETTER_HEAD], &record[LETTER_HEAD + 1..]);
    u64::from(crc32c_words([sequence, kind, first], rest))
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

    fn letter() -> impl Strategy<Value = Letter> {
        let tail = proptest::collection::vec(any::<u64>(), 0..=LETTER_TAIL_WORDS);
        let head = any::<[u64; LETTER_HEAD_WORDS]>();
        (any::<u8>(), head, tail, 0..8u16).prop_map(|(kind, mut head, words, less)| {
            let mut tail = [0; LETTER_TAIL_WORDS];
            tail[..words.len()].copy_from_slice(&words);
            let bytes = (words.len() as u16 * 8).saturating_sub(less);
            // Words after the last byte do not belong to the letter.
            tail[usize::from(bytes).div_ceil(8)..].fill(0);
            head[0] = head[0] & !(0xffff << 32) | u64::from(bytes) << 32;
            Letter { kind, head, tail }
        })
    }

    proptest! {
        #[test]
        fn a_letter_is_read_as_it_was_written(letter in letter(), sequence: u64, rest: u64) {
            let (mut record, words) = letter.encode(sequence);
            // Words that another letter left there.
            record[words..].fill(rest);
            prop_assert_eq!(Letter::decode(&record, sequence), Ok(letter));
        }

        #[test]
        fn a_stray_write_is_noticed(
            letter in letter(), sequence: u64, at in 0..LETTER_WORDS, flips in 1..u64::MAX,
        ) {
            let (mut record, words) = letter.encode(sequence);
            record[at] ^= flips;
            let is_whole = Letter::decode(&record, sequence) == Ok(letter);
            prop_assert_eq!(is_whole, at >= words);
        }

        #[test]
        fn a_letter_of_an_entry_before_is_noticed(letter in letter(), sequence: u64, other: u64) {
            prop_assume!(sequence != other);
            let (record, _) = letter.encode(sequence);
            prop_assert_eq!(Letter::decode(&record, other), Err(Damaged));
        }

        #[test]
        fn no_words_are_a_panic(words: [u64; LETTER_WORDS], sequence: u64) {
            let _ = Letter::decode(&words, sequence);
        }
    }

    #[test]
    fn a_reply_is_a_small_number() {
        let numbers = (0..=255).filter(|&number| Reply::of_number(number).is_some());
        assert_eq!(numbers.collect::<Vec<u8>>(), [1, 2, 3, 5, 6, 7]);
        assert_eq!(Reply::of_number(3), Some(Reply::UNREADABLE));
    }
}
