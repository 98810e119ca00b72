//! Keys: from the text of a request to the key field of a node, and from that field to the text
//! that tools show. [`place`] computes the place of a node.
//!
//! Invariant: two texts that mean the same key of a business have the same stored form.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frs_base::hash;
use frs_base::scan::{ONES, marks};

use crate::schema::KeyType;

mod place;

pub use place::{KeyNodeId, Location};

/// The most bytes of a key in a request.
pub const MAX_KEY_BYTES: usize = 1024;

/// Words of the largest key field.
pub const MAX_KEY_WORDS: usize = 32;

/// The kinds of content of a node's key field. The numbers are part of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyForm {
    /// UTF-8 text.
    Text = 0,
    /// A u64, 8 bytes.
    Integer = 1,
    /// An IPv4 address, 4 bytes, as on the wire.
    V4 = 2,
    /// An IPv6 address cut to its biz's prefix, 16 bytes, as on the wire.
    V6 = 3,
    /// The keyed 128-bit digest of the text, 16 bytes.
    Digest = 4,
    /// No key: the node of a whole biz.
    Biz = 5,
}

impl KeyForm {
    /// The form that this number stands for in a file.
    pub const fn from_number(number: u8) -> Option<KeyForm> {
        Some(match number {
            0 => KeyForm::Text,
            1 => KeyForm::Integer,
            2 => KeyForm::V4,
            3 => KeyForm::V6,
            4 => KeyForm::Digest,
            5 => KeyForm::Biz,
            _ => return None,
        })
    }

    /// Whether a key of this form can have `bytes` bytes.
    const fn allows(self, bytes: u16) -> bool {
        match self {
            KeyForm::Text => 1 <= bytes && bytes <= 8 * MAX_KEY_WORDS as u16,
            KeyForm::Integer => bytes == 8,
            KeyForm::V4 => bytes == 4,
            KeyForm::V6 | KeyForm::Digest => bytes == 16,
            KeyForm::Biz => bytes == 0,
        }
    }
}

/// The secret of a group, drawn when its files are created. Migrated nodes keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u64; 2]);

impl Seed {
    /// The key of the digests of a group's own bizs. It differs from the key of the places, so that
    /// neither reveals anything about the other.
    pub const fn digest_key(self) -> DigestKey {
        DigestKey([self.0[0] ^ 0x6469_6765_7374_2d30, self.0[1] ^ 0x6469_6765_7374_2d31])
    }
}

/// Keys the digests that nodes hold instead of long keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestKey(pub [u64; 2]);

impl DigestKey {
    /// A hash that tells this key from others and reveals nothing of it.
    pub fn mark(self) -> u64 {
        hash::siphash_text(b"key", self.0)
    }
}

impl From<Seed> for DigestKey {
    fn from(seed: Seed) -> DigestKey {
        seed.digest_key()
    }
}

/// The text is not a key of the biz's key type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// The key is empty, or has more than [`MAX_KEY_BYTES`].
    #[error("a key has 1 to 1024 bytes, not {0}")]
    Length(usize),
    /// The key has a character that XML 1.0 does not allow.
    #[error("a key holds only characters that XML 1.0 allows")]
    Character,
    /// An integer key is not a number.
    #[error("not the decimal digits of a number from 0 to 18446744073709551615")]
    NotInteger,
    /// An ip key is not an address.
    #[error("not an IPv4 or IPv6 address without port, brackets or zone")]
    NotAddress,
}

/// A buffer for one key in its stored form, reused from item to item.
#[derive(Debug, Clone)]
pub struct KeyField {
    /// Little-endian: byte 0 is in the lowest bits of word 0. The last word of the key is padded
    /// with zeros. The words after it are left over from earlier keys.
    words: [u64; MAX_KEY_WORDS],
    bytes: u16,
    form: KeyForm,
}

impl Default for KeyField {
    fn default() -> KeyField {
        KeyField { words: [0; MAX_KEY_WORDS], bytes: 0, form: KeyForm::Biz }
    }
}

impl KeyField {
    /// Stores the key that `text`, which is UTF-8, names for a biz of `key_type`. `key_bytes` is
    /// the size of the key fields of its group, from a checked geometry. After an error the field
    /// holds no key.
    ///
    /// # Errors
    /// The text is empty, too long, contains a character that XML 1.0 forbids, or does not fit the
    /// type.
    #[inline(always)]
    pub fn encode(
        &mut self,
        key_type: KeyType,
        text: &[u8],
        key_bytes: u32,
        digest_key: impl Into<DigestKey>,
    ) -> Result<(), BadKey> {
        if text.is_empty() || text.len() > MAX_KEY_BYTES {
            return Err(BadKey::Length(text.len()));
        }
        match key_type {
            KeyType::String if text.len() <= key_bytes as usize => self.set_text(text),
            KeyType::String | KeyType::Digest => self.set_digest(text, digest_key.into()),
            KeyType::Integer => self.set_integer(text),
            KeyType::Ip { ipv6_prefix } => self.set_ip(text, ipv6_prefix),
        }
    }

    /// The key in the field.
    #[inline]
    pub fn key(&self) -> KeyRef<'_> {
        let words = usize::from(self.bytes).div_ceil(8);
        KeyRef { words: &self.words[..words], bytes: self.bytes, form: self.form }
    }

    #[inline(always)]
    fn set_text(&mut self, text: &[u8]) -> Result<(), BadKey> {
        let (whole, tail) = text.as_chunks::<8>();
        let mut suspect = match whole {
            // Most keys have at most three whole words. The compiler turns a loop into a call,
            // which costs more.
            [] => false,
            [first] => self.set_word(0, first),
            [first, second] => self.set_word(0, first) | self.set_word(1, second),
            [first, second, third] => {
                self.set_word(0, first) | self.set_word(1, second) | self.set_word(2, third)
            }
            _ => {
                let words = whole.iter().take(MAX_KEY_WORDS).enumerate();
                words.fold(false, |suspect, (at, bytes)| suspect | self.set_word(at, bytes))
            }
        };
        if let (Some(word), false) = (self.words.get_mut(whole.len()), tail.is_empty()) {
            *word = tail_word(tail);
            suspect |= is_suspect(padded(*word, tail.len()));
        }
        if suspect && !is_xml_text(text) {
            return Err(BadKey::Character);
        }
        (self.bytes, self.form) = (text.len() as u16, KeyForm::Text);
        Ok(())
    }

    /// Sets a word, and returns whether it is suspect.
    #[inline(always)]
    fn set_word(&mut self, at: usize, bytes: &[u8; 8]) -> bool {
        self.words[at] = u64::from_le_bytes(*bytes);
        is_suspect(self.words[at])
    }

    #[inline(never)]
    fn set_digest(&mut self, text: &[u8], key: DigestKey) -> Result<(), BadKey> {
        let (whole, tail) = text.as_chunks::<8>();
        let suspect = whole.iter().any(|bytes| is_suspect(u64::from_le_bytes(*bytes)))
            || is_suspect(padded(tail_word(tail), tail.len()));
        if suspect && !is_xml_text(text) {
            return Err(BadKey::Character);
        }
        self.words[..2].copy_from_slice(&hash::siphash_digest(text, key.0));
        (self.bytes, self.form) = (16, KeyForm::Digest);
        Ok(())
    }

    #[inline(never)]
    fn set_integer(&mut self, text: &[u8]) -> Result<(), BadKey> {
        self.words[0] = parse_integer(text).ok_or(BadKey::NotInteger)?;
        (self.bytes, self.form) = (8, KeyForm::Integer);
        Ok(())
    }

    #[inline(never)]
    fn set_ip(&mut self, text: &[u8], ipv6_prefix: u8) -> Result<(), BadKey> {
        let address = std::str::from_utf8(text).ok().and_then(|text| text.parse::<IpAddr>().ok());
        match address.ok_or(BadKey::NotAddress)?.to_canonical() {
            IpAddr::V4(address) => {
                self.words[0] = u64::from(u32::from_le_bytes(address.octets()));
                (self.bytes, self.form) = (4, KeyForm::V4);
            }
            IpAddr::V6(address) => {
                let kept = cut_to_prefix(address.to_bits(), ipv6_prefix).swap_bytes();
                self.words[0] = kept as u64;
                self.words[1] = (kept >> 64) as u64;
                (self.bytes, self.form) = (16, KeyForm::V6);
            }
        }
        Ok(())
    }
}

/// 0 to 7 bytes, zero-padded. Two overlapping reads replace a loop over bytes.
#[inline(always)]
fn tail_word(tail: &[u8]) -> u64 {
    match (tail.first_chunk::<4>(), tail.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            let shift = (tail.len() - 4) * 8;
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift
        }
        _ => tail.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// The words of a key field that holds this text, which is a key. `None` if it has more than 24
/// bytes.
#[inline(always)]
pub fn words_of_short_text(text: &[u8]) -> Option<[u64; 3]> {
    let (whole, tail) = text.as_chunks::<8>();
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    Some(match (whole, tail.is_empty()) {
        ([], _) => [tail_word(tail), 0, 0],
        ([first], _) => [word(first), tail_word(tail), 0],
        ([first, second], _) => [word(first), word(second), tail_word(tail)],
        ([first, second, third], true) => [word(first), word(second), word(third)],
        _ => return None,
    })
}

/// A word of which only the first 0 to 7 bytes are text, with spaces in the other bytes.
#[inline(always)]
const fn padded(word: u64, bytes: usize) -> u64 {
    word | (ONES * 0x20) << (bytes * 8)
}

/// Whether any byte of `word` can begin a character that XML forbids: a byte below 0x20, or 0xEF.
#[inline(always)]
fn is_suspect(word: u64) -> bool {
    marks(word, b"\xEF") != 0
}

#[cold]
fn is_xml_text(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.chars().all(is_xml_char))
}

/// Checks that a text is a key of this type, as [`KeyField::encode`] does.
///
/// # Errors
/// The text is not a key of this type.
pub fn check(key_type: KeyType, text: &[u8]) -> Result<(), BadKey> {
    match key_type {
        _ if text.is_empty() || text.len() > MAX_KEY_BYTES => Err(BadKey::Length(text.len())),
        KeyType::String | KeyType::Digest if is_xml_text(text) => Ok(()),
        KeyType::String | KeyType::Digest => Err(BadKey::Character),
        KeyType::Integer | KeyType::Ip { .. } => {
            KeyField::default().encode(key_type, text, 0, DigestKey([0; 2]))
        }
    }
}

/// `Char` of XML 1.0.
pub fn is_xml_char(c: char) -> bool {
    !matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// Reads digits only, with any number of leading zeros.
fn parse_integer(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The first `prefix` bits of an IPv6 address.
const fn cut_to_prefix(address: u128, prefix: u8) -> u128 {
    match u128::MAX.checked_shr(prefix as u32) {
        Some(rest) => address & !rest,
        None => address,
    }
}

/// A key in its stored form. Two keys of a biz are the same if all three parts are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRef<'a> {
    words: &'a [u64],
    bytes: u16,
    form: KeyForm,
}

impl<'a> KeyRef<'a> {
    /// The key of the node of a whole biz.
    pub const BIZ: KeyRef<'static> = KeyRef { words: &[], bytes: 0, form: KeyForm::Biz };

    /// The key in a node's whole key field. `None` if no encoder writes such a field.
    pub fn from_stored(field: &'a [u64], bytes: u16, form: u8) -> Option<KeyRef<'a>> {
        let form = KeyForm::from_number(form).filter(|form| form.allows(bytes))?;
        let (words, padding) = field.split_at_checked(usize::from(bytes).div_ceil(8))?;
        let key = KeyRef { words, bytes, form };
        let padded = padding.iter().all(|&word| word == 0)
            && words
                .last()
                .is_none_or(|&last| bytes.is_multiple_of(8) || last >> (bytes % 8 * 8) == 0);
        padded.then_some(key)
    }

    /// The words in use, zero-padded. The rest of a node's key field is zero.
    #[inline]
    pub const fn words(&self) -> &'a [u64] {
        self.words
    }

    /// Bytes of the key.
    #[inline]
    pub const fn bytes(&self) -> u16 {
        self.bytes
    }

    /// The form of the key.
    #[inline]
    pub const fn form(&self) -> KeyForm {
        self.form
    }
}

/// The key as tools show it: text, numbers and addresses unchanged, `digest:` and 32 hex digits,
/// `*` for the whole biz.
impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.words.first().copied().unwrap_or(0);
        let second = self.words.get(1).copied().unwrap_or(0);
        match self.form {
            KeyForm::Text => fmt_text(self.words, self.bytes, f),
            KeyForm::Integer => write!(f, "{first}"),
            KeyForm::V4 => write!(f, "{}", Ipv4Addr::from((first as u32).to_le_bytes())),
            KeyForm::V6 => {
                let bits = u128::from(first) | u128::from(second) << 64;
                write!(f, "{}", Ipv6Addr::from(bits.to_le_bytes()))
            }
            KeyForm::Digest => {
                write!(f, "digest:{:016x}{:016x}", first.swap_bytes(), second.swap_bytes())
            }
            KeyForm::Biz => f.write_str("*"),
        }
    }
}

fn fmt_text(words: &[u64], len: u16, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut bytes = [0; 8 * MAX_KEY_WORDS];
    for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *chunk = word.to_le_bytes();
    }
    f.write_str(&String::from_utf8_lossy(&bytes[..usize::from(len).min(bytes.len())]))
}

#[cfg(test)]
mod tests;
