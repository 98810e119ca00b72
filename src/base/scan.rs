//! Tests and copies many bytes of a text at once.

use std::ops::Range;

/// Whether one of the bytes is a control character, or one of `set`.
#[inline(always)]
pub fn has_any<const S: usize>(text: &[u8], set: &[u8; S]) -> bool {
    match text.last_chunk() {
        // `last` overlaps the whole chunks and covers the bytes after them.
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

/// Each step is the same for all bytes and has no branch, so the compiler makes one instruction of
/// it.
#[inline(always)]
fn chunk_has_any<const S: usize>(chunk: &[u8; 16], set: &[u8; S]) -> bool {
    // Bytes that match become 0.
    let mut found = chunk.map(|byte| byte.saturating_sub(0x1f));
    for value in set {
        for (found, byte) in found.iter_mut().zip(chunk) {
            *found = (*found).min(byte ^ value);
        }
    }
    u128::from_le_bytes(found.map(|byte| u8::from(byte == 0))) != 0
}

/// A word in which each byte is 1.
pub const ONES: u64 = u64::MAX / 0xff;

/// The top bits of those bytes of `word` that are control characters or in `set`, by the "zero byte
/// in a word" tests of Anderson's Bit Twiddling Hacks. The lowest mark is always right. A higher
/// mark may be wrong.
#[inline(always)]
pub fn marks<const S: usize>(word: u64, set: &[u8; S]) -> u64 {
    let mut marks = word.wrapping_sub(ONES * 0x20) & !word;
    for &value in set {
        let differing = word ^ (ONES * u64::from(value));
        marks |= differing.wrapping_sub(ONES) & !differing;
    }
    marks & (ONES * 0x80)
}

/// A short text in a longer one. It is copied together with what follows it, which needs no loop
/// and no call.
#[derive(Debug, Clone, Copy)]
pub struct Short<'a> {
    /// The text and everything after it.
    pub bytes: &'a [u8],
    /// Length of the text.
    pub len: usize,
}

impl<'a> Short<'a> {
    /// The greatest length.
    pub const MAX_BYTES: usize = 32;

    /// This part of a text, if it is short.
    #[inline(always)]
    pub fn of(text: &'a [u8], part: Range<usize>) -> Option<Short<'a>> {
        let bytes = text.get(part.start..)?;
        let len = part.end.wrapping_sub(part.start);
        (len <= Short::MAX_BYTES).then_some(Short { bytes, len })
    }

    /// Whether one of its bytes is marked by `marks`, which marks the bytes of a word as [`marks`]
    /// does.
    #[inline(always)]
    pub fn has_marked(self, marks: impl Fn(u64) -> u64) -> bool {
        let (words, rest) = self.bytes.as_chunks();
        // The first mark may be after the text.
        let is_inside = |marks: u64, at: usize| self.len > at + marks.trailing_zeros() as usize / 8;
        let mut at = 0;
        for word in words {
            let marks = marks(u64::from_le_bytes(*word));
            if marks != 0 {
                return is_inside(marks, at);
            }
            at += word.len();
            if at >= self.len {
                return false;
            }
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        is_inside(marks(u64::from_le_bytes(last)), at)
    }

    /// The text alone.
    pub fn text(self) -> &'a [u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &[u8; 4] = b"\"&<\xEF";

    /// `has_marked` for `text` with any number of bytes `behind` after it.
    fn short_has_marked(text: &[u8], behind: u8) -> Option<bool> {
        let told = (0..=9).map(|more| {
            let whole = [text, &vec![behind; more]].concat();
            let short = Short::of(&whole, 0..text.len())?;
            assert_eq!(short.text(), text);
            Some(short.has_marked(|word| marks(word, SET)))
        });
        let told: Vec<Option<bool>> = told.collect();
        assert!(told.iter().all(|one| *one == told[0]), "{text:?} {behind}: {told:?}");
        told[0]
    }

    #[test]
    fn every_byte_at_every_place() {
        for len in 1..40 {
            for at in 0..len {
                for byte in 0..=255 {
                    let mut text = vec![b'a'; len];
                    text[at] = byte;
                    let is_any = byte < 0x20 || SET.contains(&byte);
                    assert_eq!(has_any(&text, SET), is_any);
                    let short = (len <= 32).then_some(is_any);
                    assert_eq!(short_has_marked(&text, b'a'), short);
                    assert_eq!(short_has_marked(&text, b'&'), short);
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
        fn any_of_many(text: Vec<u8>, behind: u8) {
            let is_any = text.iter().any(|byte| *byte < 0x20 || SET.contains(byte));
            proptest::prop_assert_eq!(has_any(&text, SET), is_any);
            let short = (text.len() <= 32).then_some(is_any);
            proptest::prop_assert_eq!(short_has_marked(&text, behind), short);
        }
    }
}
