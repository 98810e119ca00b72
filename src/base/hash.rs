//! Hashes of keys and nodes: lookup3, SipHash, CRC-32C.
//!
//! Invariant: the place of a node in a file follows from these functions, so each is fixed for the
//! life of the file format. Bytes are little-endian on every machine, and only a new format number
//! may change a result.

use std::hash::Hasher;

use siphasher::{sip, sip128};

use crate::sys;

/// Both results of lookup3, by their published names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookup3 {
    /// The better mixed one.
    pub pc: u32,
    /// The other one.
    pub pb: u32,
}

impl Lookup3 {
    /// Both in one word: pc is the lower half.
    #[inline(always)]
    const fn word(self) -> u64 {
        self.pc as u64 | (self.pb as u64) << 32
    }
}

/// The three registers of lookup3.
#[derive(Debug, Clone, Copy)]
struct Registers {
    a: u32,
    b: u32,
    c: u32,
}

/// The published 32-bit lookup3 over bytes, `hashlittle` (Bob Jenkins, lookup3.c, May 2006, public
/// domain).
pub fn hashlittle(bytes: &[u8], seed: u32) -> u32 {
    hashlittle2(bytes, seed, 0).pc
}

/// The published 64-bit lookup3 over bytes, `hashlittle2` (Bob Jenkins, lookup3.c, May 2006, public
/// domain), with two seeds.
pub fn hashlittle2(bytes: &[u8], pc: u32, pb: u32) -> Lookup3 {
    lookup3_by(bytes.len(), pc, pb, |index| {
        let tail = &bytes[index * 4..];
        match tail.first_chunk::<4>() {
            Some(word) => u32::from_le_bytes(*word),
            None => tail.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)),
        }
    })
}

/// [`hashlittle2`] of the first `len` bytes of zero-padded little-endian `words`. In the seed and
/// in the result, the lower half is pc and the upper half is pb.
///
/// # Panics
/// If `words` holds fewer than `len` bytes.
#[inline(always)]
pub fn lookup3_words(words: &[u64], len: usize, seed: u64) -> u64 {
    let words = &words[..len.div_ceil(8)];
    match len {
        1..=12 => lookup3_of_one_block(words, len, seed),
        13..=24 => lookup3_of_two_blocks(words, len, seed),
        _ => lookup3_of_any(words, len, seed),
    }
}

#[inline(never)]
fn lookup3_of_any(words: &[u64], len: usize, seed: u64) -> u64 {
    let word = |i: usize| (words[i / 2] >> (i % 2 * 32)) as u32;
    lookup3_by(len, seed as u32, (seed >> 32) as u32, word).word()
}

/// [`lookup3_words`] of 1 to 12 bytes.
#[inline(always)]
fn lookup3_of_one_block(words: &[u64], len: usize, seed: u64) -> u64 {
    let (first, second) = (word_at(words, 0), word_at(words, 1));
    let start = start_of(len, seed);
    let registers = Registers {
        a: start.wrapping_add(first as u32),
        b: start.wrapping_add((first >> 32) as u32),
        c: start.wrapping_add((seed >> 32) as u32).wrapping_add(second as u32),
    };
    finish(registers).word()
}

/// [`lookup3_words`] of 13 to 24 bytes. Most keys have one or two blocks, which need no loop.
#[inline(always)]
fn lookup3_of_two_blocks(words: &[u64], len: usize, seed: u64) -> u64 {
    let (first, second, third) = (word_at(words, 0), word_at(words, 1), word_at(words, 2));
    let start = start_of(len, seed);
    let Registers { a, b, c } = mix(Registers {
        a: start.wrapping_add(first as u32),
        b: start.wrapping_add((first >> 32) as u32),
        c: start.wrapping_add((seed >> 32) as u32).wrapping_add(second as u32),
    });
    let registers = Registers {
        a: a.wrapping_add((second >> 32) as u32),
        b: b.wrapping_add(third as u32),
        c: c.wrapping_add((third >> 32) as u32),
    };
    finish(registers).word()
}

#[inline(always)]
fn word_at(words: &[u64], at: usize) -> u64 {
    words.get(at).copied().unwrap_or(0)
}

/// Initial value of the three registers, for the seed's lower half.
#[inline(always)]
fn start_of(len: usize, seed: u64) -> u32 {
    0xdead_beef_u32.wrapping_add(len as u32).wrapping_add(seed as u32)
}

/// lookup3 over `len` bytes. `word(i)` is bytes 4i to 4i+3, with zeros beyond the end. Adding zeros
/// does the same as the switch over the tail in the published code.
#[inline(always)]
fn lookup3_by(len: usize, pc: u32, pb: u32, word: impl Fn(usize) -> u32) -> Lookup3 {
    let start = 0xdead_beef_u32.wrapping_add(len as u32).wrapping_add(pc);
    let (mut a, mut b, mut c) = (start, start, start.wrapping_add(pb));
    if len == 0 {
        return Lookup3 { pc: c, pb: b };
    }
    let (mut left, mut at) = (len, 0);
    while left > 12 {
        a = a.wrapping_add(word(at));
        b = b.wrapping_add(word(at + 1));
        c = c.wrapping_add(word(at + 2));
        Registers { a, b, c } = mix(Registers { a, b, c });
        left -= 12;
        at += 3;
    }
    a = a.wrapping_add(word(at));
    if left > 4 {
        b = b.wrapping_add(word(at + 1));
    }
    if left > 8 {
        c = c.wrapping_add(word(at + 2));
    }
    finish(Registers { a, b, c })
}

#[inline(always)]
fn mix(Registers { mut a, mut b, mut c }: Registers) -> Registers {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    Registers { a, b, c }
}

#[inline(always)]
fn finish(Registers { mut a, mut b, mut c }: Registers) -> Lookup3 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    Lookup3 { pc: c, pb: b }
}

/// SipHash-1-3 (Aumasson and Bernstein, 2012) of `prefix` and then `words`. That is enough against
/// chosen keys, which can only affect the place of a node.
#[inline(never)]
pub fn siphash_words(prefix: u64, words: &[u64], key: [u64; 2]) -> u64 {
    let mut hasher = sip::SipHasher13::new_with_keys(key[0], key[1]);
    hasher.write(&prefix.to_le_bytes());
    for word in words {
        hasher.write(&word.to_le_bytes());
    }
    hasher.finish()
}

/// SipHash-2-4 of a text (Aumasson and Bernstein, 2012): without the key nobody can find two texts
/// with the same hash, or a text with a rare hash.
pub fn siphash_text(text: &[u8], key: [u64; 2]) -> u64 {
    sip::SipHasher24::new_with_keys(key[0], key[1]).hash(text)
}

/// SipHash-1-3 of a text: the faster form, for texts of which a record keeps few.
pub fn siphash_short(text: &[u8], key: [u64; 2]) -> u64 {
    sip::SipHasher13::new_with_keys(key[0], key[1]).hash(text)
}

/// SipHash-2-4 with a result of 128 bits, as two little-endian words. It replaces the key itself,
/// so it must not be possible to make two keys collide on purpose.
pub fn siphash_digest(bytes: &[u8], key: [u64; 2]) -> [u64; 2] {
    let digest = sip128::SipHasher24::new_with_keys(key[0], key[1]).hash(bytes);
    [digest.h1, digest.h2]
}

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4) of the little-endian bytes of three words and the
/// rest.
#[inline(always)]
pub fn crc32c_words(first: [u64; 3], rest: &[u64]) -> u32 {
    match sys::crc32c_words(!0, first, rest) {
        Some(state) => !state,
        None => {
            let [a, b, c] = first;
            !crc32c_table(a, b, c, rest)
        }
    }
}

/// The reflected polynomial of CRC-32C.
const CASTAGNOLI: u32 = 0x82f6_3b78;

/// `TABLE[n][b]`: the register after byte `b` and `n` zero bytes ("slicing by 8", Kounavis and
/// Berry, 2005).
static TABLE: [[u32; 256]; 8] = slicing_table();

const fn slicing_table() -> [[u32; 256]; 8] {
    let mut table = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut state = byte as u32;
        let mut slice = 0;
        while slice < 8 {
            let mut bit = 0;
            while bit < 8 {
                state = if state & 1 == 1 { state >> 1 ^ CASTAGNOLI } else { state >> 1 };
                bit += 1;
            }
            table[slice][byte] = state;
            slice += 1;
        }
        byte += 1;
    }
    table
}

/// The register after three words and the rest, for processors without the instruction. The first
/// three are single words, because an array would be stored each time, even without a call.
#[cold]
#[inline(never)]
fn crc32c_table(a: u64, b: u64, c: u64, rest: &[u64]) -> u32 {
    [a, b, c].iter().chain(rest).fold(!0, |state, word| {
        let bytes = (word ^ u64::from(state)).to_le_bytes();
        bytes.iter().zip(TABLE.iter().rev()).fold(0, |sum, (&byte, row)| sum ^ row[byte as usize])
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GETTYSBURG: &[u8] = b"Four score and seven years ago";

    /// Bit by bit, from the definition.
    fn crc32c_bitwise(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |state, &byte| {
            (0..8).fold(state ^ u32::from(byte), |s, _| {
                s >> 1 ^ if s & 1 == 1 { CASTAGNOLI } else { 0 }
            })
        })
    }

    /// By the processor's instruction, if it has one, and by the table.
    fn crc32c_of(words: &[u64]) -> [u32; 2] {
        let (first, rest) = words.split_first_chunk().expect("three words");
        let [a, b, c] = *first;
        [crc32c_words(*first, rest), !crc32c_table(a, b, c, rest)]
    }

    fn words_of(bytes: &[u8]) -> Vec<u64> {
        let padded = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        };
        bytes.chunks(8).map(padded).collect()
    }

    #[test]
    fn lookup3_gives_the_values_published_in_driver5() {
        assert_eq!(hashlittle2(b"", 0, 0), Lookup3 { pc: 0xdead_beef, pb: 0xdead_beef });
        assert_eq!(hashlittle2(b"", 0, 0xdead_beef), Lookup3 { pc: 0xbd5b_7dde, pb: 0xdead_beef });
        assert_eq!(
            hashlittle2(b"", 0xdead_beef, 0xdead_beef),
            Lookup3 { pc: 0x9c09_3ccd, pb: 0xbd5b_7dde }
        );
        assert_eq!(hashlittle2(GETTYSBURG, 0, 0), Lookup3 { pc: 0x1777_0551, pb: 0xce72_26e6 });
        assert_eq!(hashlittle2(GETTYSBURG, 0, 1), Lookup3 { pc: 0xe360_7cae, pb: 0xbd37_1de4 });
        assert_eq!(hashlittle2(GETTYSBURG, 1, 0), Lookup3 { pc: 0xcd62_8161, pb: 0x6cbe_a4b3 });
        assert_eq!(hashlittle(GETTYSBURG, 0), 0x1777_0551);
        assert_eq!(hashlittle(GETTYSBURG, 1), 0xcd62_8161);
    }

    #[test]
    fn crc32c_gives_the_published_values() {
        assert_eq!(crc32c_bitwise(b"123456789"), 0xe306_9283);
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        for (bytes, crc) in [
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32][..], 0x62a8_ab43),
            (&ascending[..], 0x46dd_794e),
            (&descending[..], 0x113f_db5c),
        ] {
            let words = words_of(bytes);
            assert_eq!(crc32c_bitwise(bytes), crc);
            assert_eq!(crc32c_of(&words), [crc; 2]);
        }
    }

    #[test]
    fn siphash_gives_the_reference_values() {
        // Key 00..0f: appendix A of the paper, and the first of the reference code's
        // vectors_sip128.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let bytes: Vec<u8> = (0..15).collect();
        let mut hasher = sip::SipHasher24::new_with_keys(key[0], key[1]);
        hasher.write(&bytes);
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash_digest(&[], key), [0xe6a8_25ba_047f_81a3, 0x9302_55c7_1472_f66d]);
    }

    /// One length has its own code path.
    #[test]
    fn crc32c_is_one_function_of_every_length() {
        for length in 3..=64 {
            let bytes: Vec<u8> = (0..length * 8).map(|at| (at * 37 + length) as u8).collect();
            let crc = crc32c_bitwise(&bytes);
            assert_eq!(crc32c_of(&words_of(&bytes)), [crc; 2], "{length} words");
        }
    }

    proptest! {
        #[test]
        fn lookup3_over_words_is_lookup3_over_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..64), pc: u32, pb: u32,
        ) {
            let Lookup3 { pc: c, pb: b } = hashlittle2(&bytes, pc, pb);
            let seed = u64::from(pc) | u64::from(pb) << 32;
            let hash = lookup3_words(&words_of(&bytes), bytes.len(), seed);
            prop_assert_eq!(hash, u64::from(c) | u64::from(b) << 32);
        }

        #[test]
        fn crc32c_is_one_function_however_it_is_computed(
            words in proptest::collection::vec(any::<u64>(), 3..40),
        ) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let crc = crc32c_bitwise(&bytes);
            prop_assert_eq!(crc32c_of(&words), [crc; 2]);
        }
    }
}
