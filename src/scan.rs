//! Many bytes of a text at once: looked at, and copied.

use std::ops::Range;

/// Is one of the bytes a control character, or one of `set`?
#[inline(always)]
pub fn has_any<const S: usize>(text: &[u8], set: &[u8; S]) -> bool {
    match text.last_chunk() {
        // What does not fill a chunk is looked at with bytes of the one before.
        Some(last) => {
            let (chunks, _) = text.as_chunks();
            chunks.iter().any(|chunk| chunk_has_any(chunk, set)) || chunk_has_any(last, set)
        }
        None => match (text.first_chunk(), text.last_chunk()) {
            (Some(first), Some(last)) => {
                [first, last].iter().any(|word| marks(u64::from_le_bytes(**word), set) != 0)
            }
            _ => text.iter().any(|byte| *byte < 0x20 || set.contains(byte)),
        },
    }
}

/// Each step is the same for all bytes, without a branch: the compiler makes one instruction of it.
#[inline(always)]
fn chunk_has_any<const S: usize>(chunk: &[u8; 16], set: &[u8; S]) -> bool {
    // What is looked for becomes 0.
    let mut found = chunk.map(|byte| byte.saturating_sub(0x1f));
    for value in set {
        for (found, byte) in found.iter_mut().zip(chunk) {
            *found = (*found).min(byte ^ value);
        }
    }
    u128::from_le_bytes(found.map(|byte| u8::from(byte == 0))) != 0
}

/// A byte of 1 for each of a word's.
pub const ONES: u64 = u64::MAX / 0xff;

/// The top bits of the bytes of `word` that are control characters or one of `set`, by the "zero byte
/// in a word" tests of Anderson's Bit Twiddling Hacks: the lowest mark is always right, one above it
/// may be a mistake.
#[inline(always)]
pub fn marks<const S: usize>(word: u64, set: &[u8; S]) -> u64 {
    let mut marks = word.wrapping_sub(ONES * 0x20) & !word;
    for &value in set {
        let differing = word ^ (ONES * u64::from(value));
        marks |= differing.wrapping_sub(ONES) & !differing;
    }
    marks & (ONES * 0x80)
}

/// Where the first byte stands that is a control character or one of `set`.
#[inline(always)]
pub fn find_any<const S: usize>(text: &[u8], set: &[u8; S]) -> Option<usize> {
    let mut at = 0;
    while let Some(chunk) = text[at..].first_chunk() {
        let marks = marks(u64::from_le_bytes(*chunk), set);
        if marks != 0 {
            return Some(at + marks.trailing_zeros() as usize / 8);
        }
        at += chunk.len();
    }
    let last = text[at..].iter().position(|byte| *byte < 0x20 || set.contains(byte));
    last.map(|index| at + index)
}

/// A short text in a longer one: copied with what is behind it, which takes no loop and no call.
#[derive(Debug, Clone, Copy)]
pub struct Short<'a> {
    /// It, and all that is behind it.
    pub bytes: &'a [u8],
    /// Its length.
    pub len: usize,
}

impl<'a> Short<'a> {
    /// The longest.
    pub const MAX_BYTES: usize = 32;

    /// That part of a text, if it is short.
    #[inline(always)]
    pub fn of(text: &'a [u8], part: Range<usize>) -> Option<Short<'a>> {
        let bytes = text.get(part.start..)?;
        let len = part.end.wrapping_sub(part.start);
        (len <= Short::MAX_BYTES).then_some(Short { bytes, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &[u8; 4] = b"\"&<\xEF";

    #[test]
    fn every_byte_at_every_place() {
        for len in 1..40 {
            for at in 0..len {
                for byte in 0..=255 {
                    let mut text = vec![b'a'; len];
                    text[at] = byte;
                    let is_any = byte < 0x20 || SET.contains(&byte);
                    assert_eq!(has_any(&text, SET), is_any);
                    assert_eq!(find_any(&text, SET), is_any.then_some(at));
                }
            }
        }
    }

    #[test]
    fn short_parts() {
        let text = [b'a'; 100];
        let len_of = |part: Range<usize>| Some(Short::of(&text, part)?.len);
        assert_eq!(len_of(0..0), Some(0));
        assert_eq!(len_of(68..100), Some(32));
        assert_eq!(len_of(100..100), Some(0));
        assert_eq!(len_of(67..100), None);
        assert_eq!(len_of(101..101), None);
        #[expect(clippy::reversed_empty_ranges)]
        let reversed = 5..4;
        assert_eq!(len_of(reversed), None);
    }

    proptest::proptest! {
        #[test]
        fn the_first_of_many(text: Vec<u8>) {
            let first = text.iter().position(|byte| *byte < 0x20 || SET.contains(byte));
            proptest::prop_assert_eq!(find_any(&text, SET), first);
            proptest::prop_assert_eq!(has_any(&text, SET), first.is_some());
        }
    }
}
