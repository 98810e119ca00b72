//! Key types: from the text of a request to the key field of a node, and from that field to its
//! place.
//!
//! The place follows from what a node stores (biz id, form, length, words), the group's geometry
//! and its seed, and from nothing else: look-up, verify and migrate all call [`KeyRef::locate`].

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::base::hash;
use crate::base::scan::{ONES, marks};
use crate::conf::{Geometry, HashKind, KeyType};

/// Bytes of the longest key a request may name.
pub const MAX_KEY_BYTES: usize = 1024;

/// Words of the longest key field.
pub const MAX_KEY_WORDS: usize = 32;

/// What the key field of a node holds. The numbers are part of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyForm {
    /// UTF-8 text.
    Text = 0,
    /// A u64 of 8 bytes.
    Integer = 1,
    /// An IPv4 address: 4 bytes, as on the wire.
    V4 = 2,
    /// An IPv6 address cut to its biz's prefix: 16 bytes, as on the wire.
    V6 = 3,
    /// The keyed 128-bit digest of the text: 16 bytes.
    Digest = 4,
    /// Nothing: the node of a whole biz.
    Biz = 5,
}

impl KeyForm {
    /// The form a file's number stands for.
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

    /// Can a key of this form have `bytes` bytes?
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

/// The secret of a group, drawn when its files are created; it stays with migrated nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u64; 2]);

impl Seed {
    /// The digest's key: another one than that of the places, so that the one tells nothing of
    /// the other.
    const fn of_digest(self) -> [u64; 2] {
        [self.0[0] ^ 0x6469_6765_7374_2d30, self.0[1] ^ 0x6469_6765_7374_2d31]
    }
}

/// The text is no key of the biz's key type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// No byte, or more than [`MAX_KEY_BYTES`].
    #[error("a key has 1 to 1024 bytes, not {0}")]
    Length(usize),
    /// A character that XML 1.0 does not allow.
    #[error("a key holds only characters that XML 1.0 allows")]
    Character,
    /// For an integer key.
    #[error("not the decimal digits of a number from 0 to 18446744073709551615")]
    NotInteger,
    /// For an ip key.
    #[error("not an IPv4 or IPv6 address without port, brackets or zone")]
    NotAddress,
}

/// Room for one key as stored; reused from item to item.
#[derive(Debug, Clone)]
pub struct KeyField {
    /// Little-endian, byte 0 in the lowest bits of word 0, zero-padded to a whole word; words
    /// beyond that are left over from other keys.
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
    /// Takes the key that `text`, UTF-8, names for a biz of `key_type`, whose group has key fields of
    /// `key_bytes` bytes (a checked geometry's). After an error the field holds no key.
    ///
    /// # Errors
    /// If the text is empty, too long, holds a character XML 1.0 forbids, or is not of the type.
    #[inline]
    pub fn encode(
        &mut self,
        key_type: KeyType,
        text: &[u8],
        key_bytes: u32,
        seed: Seed,
    ) -> Result<(), BadKey> {
        if text.is_empty() || text.len() > MAX_KEY_BYTES {
            return Err(BadKey::Length(text.len()));
        }
        match key_type {
            KeyType::String if text.len() <= key_bytes as usize => self.set_text(text),
            KeyType::String | KeyType::Digest => self.set_digest(text, seed),
            KeyType::Integer => self.set_integer(text),
            KeyType::Ip { ipv6_prefix } => self.set_ip(text, ipv6_prefix),
        }
    }

    /// The key within.
    #[inline]
    pub fn key(&self) -> KeyRef<'_> {
        let words = usize::from(self.bytes).div_ceil(8);
        KeyRef { words: &self.words[..words], bytes: self.bytes, form: self.form }
    }

    #[inline]
    fn set_text(&mut self, text: &[u8]) -> Result<(), BadKey> {
        let (whole, tail) = text.as_chunks::<8>();
        let mut suspect = match whole {
            // Most keys have no more: of a loop the compiler makes a call, which costs more.
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

    /// Sets a word; is it suspect?
    #[inline(always)]
    fn set_word(&mut self, at: usize, bytes: &[u8; 8]) -> bool {
        self.words[at] = u64::from_le_bytes(*bytes);
        is_suspect(self.words[at])
    }

    #[inline(never)]
    fn set_digest(&mut self, text: &[u8], seed: Seed) -> Result<(), BadKey> {
        let (whole, tail) = text.as_chunks::<8>();
        let suspect = whole.iter().any(|bytes| is_suspect(u64::from_le_bytes(*bytes)))
            || is_suspect(padded(tail_word(tail), tail.len()));
        if suspect && !is_xml_text(text) {
            return Err(BadKey::Character);
        }
        self.words[..2].copy_from_slice(&hash::siphash_digest(text, seed.of_digest()));
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

/// 0 to 7 bytes, zero-padded: two reads that overlap instead of a loop over bytes.
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

/// A word of which only the first 0 to 7 bytes are text, with spaces for the others.
#[inline(always)]
const fn padded(word: u64, bytes: usize) -> u64 {
    word | (ONES * 0x20) << (bytes * 8)
}

/// Has a byte of `word` a value that can begin a character XML forbids: below 0x20, or 0xEF?
#[inline(always)]
fn is_suspect(word: u64) -> bool {
    marks(word, b"\xEF") != 0
}

#[cold]
fn is_xml_text(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.chars().all(is_xml_char))
}

/// `Char` of XML 1.0.
fn is_xml_char(c: char) -> bool {
    !matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// Nothing but digits, with any number of leading zeros.
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

/// A key-node of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyNodeId {
    /// File of the group.
    pub file: u32,
    /// Key-node of the file.
    pub key_node: u32,
}

/// The place a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// File of the group.
    pub file: u32,
    /// Key-node of the file.
    pub key_node: u32,
    /// What the key-node's head holds of the node, 1..=255.
    pub tag: u8,
}

/// A key as stored. Two keys of a biz are the same if all three parts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRef<'a> {
    words: &'a [u64],
    bytes: u16,
    form: KeyForm,
}

impl Location {
    /// Its key-node.
    pub const fn key_node_id(&self) -> KeyNodeId {
        KeyNodeId { file: self.file, key_node: self.key_node }
    }
}

impl<'a> KeyRef<'a> {
    /// The key of the node of a whole biz.
    pub const BIZ: KeyRef<'static> = KeyRef { words: &[], bytes: 0, form: KeyForm::Biz };

    /// The key in a node's whole key field; none if no encoder writes that.
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

    /// The words in use, zero-padded; the rest of a node's key field is zero.
    #[inline]
    pub const fn words(&self) -> &'a [u64] {
        self.words
    }

    /// Bytes of the key.
    #[inline]
    pub const fn bytes(&self) -> u16 {
        self.bytes
    }

    /// What the bytes are.
    #[inline]
    pub const fn form(&self) -> KeyForm {
        self.form
    }

    /// The index estimation: 64 bits of the stored key together with its biz.
    ///
    /// For `bob` that is lookup3 of the key's bytes, with the biz id in the seed's upper half; for
    /// the node of a whole biz, of biz id and a flag. For `siphash` it is SipHash-1-3 of biz id,
    /// length and form in one word, then the key's words.
    #[inline(always)]
    pub fn estimate(&self, biz_id: u32, kind: HashKind, seed: Seed) -> u64 {
        let biz = u64::from(biz_id);
        match (kind, self.form) {
            (HashKind::Bob, KeyForm::Biz) => hash::lookup3_words(&[biz | 1 << 32], 8, seed.0[0]),
            (HashKind::Bob, _) => {
                hash::lookup3_words(self.words, usize::from(self.bytes), seed.0[0] ^ biz << 32)
            }
            (HashKind::Siphash, form) => {
                let prefix = biz | u64::from(self.bytes) << 32 | (form as u64) << 48;
                hash::siphash_words(prefix, self.words, seed.0)
            }
        }
    }

    /// Where the node of this key of a biz belongs.
    #[inline(always)]
    pub fn locate(&self, biz_id: u32, geometry: &Geometry, seed: Seed) -> Location {
        let h = self.estimate(biz_id, geometry.hash, seed);
        let KeyNodeId { file, key_node } = match self.form {
            KeyForm::Integer => route_integer(self.words[0], geometry),
            _ => route(h, geometry),
        };
        Location { file, key_node, tag: tag(h) }
    }
}

/// The key-node of an index estimation.
#[inline(always)]
const fn route(h: u64, geometry: &Geometry) -> KeyNodeId {
    KeyNodeId { file: (h >> 32) as u32 % geometry.files, key_node: h as u32 % geometry.key_nodes }
}

/// The key-node of an integer key by modulo, so that neighbours spread evenly.
#[inline(always)]
const fn route_integer(key: u64, geometry: &Geometry) -> KeyNodeId {
    let files = geometry.files as u64;
    KeyNodeId {
        file: (key % files) as u32,
        key_node: (key / files % geometry.key_nodes as u64) as u32,
    }
}

/// 1..=255 from all bits of `h`, by multiplicative hashing (Knuth, TAOCP 3, 6.4): the low bits
/// alone are spent on the key-node.
#[inline]
const fn tag(h: u64) -> u8 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let top = (h.wrapping_mul(K) >> 56) as u8;
    top % 255 + 1
}

/// The key as a tool shows it: text, number and addresses as they are, `digest:` and 32 hex digits,
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
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const SEED: Seed = Seed([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
    const IP64: KeyType = KeyType::Ip { ipv6_prefix: 64 };

    fn geometry(files: u32, key_nodes: u32, hash: HashKind) -> Geometry {
        Geometry { files, key_nodes, chain: 56, node_bytes: 128, key_bytes: 24, hash }
    }

    fn encoded(key_type: KeyType, text: &str) -> Result<KeyField, BadKey> {
        let words = [0x5a5a_5a5a_5a5a_5a5a; MAX_KEY_WORDS];
        let mut field = KeyField { words, ..KeyField::default() };
        field.encode(key_type, text.as_bytes(), 24, SEED).map(|()| field)
    }

    fn shown(key_type: KeyType, text: &str) -> Result<String, BadKey> {
        encoded(key_type, text).map(|field| field.key().to_string())
    }

    fn parts(key_type: KeyType, text: &str) -> (Vec<u64>, u16, KeyForm) {
        let field = encoded(key_type, text).unwrap();
        let key = field.key();
        (key.words().to_vec(), key.bytes(), key.form())
    }

    #[test]
    fn text_is_stored_as_its_bytes_in_zero_padded_little_endian_words() {
        let word = u64::from_le_bytes(*b"alice\0\0\0");
        assert_eq!(parts(KeyType::String, "alice"), (vec![word], 5, KeyForm::Text));
        let two = [*b"abcdefgh", *b"i\0\0\0\0\0\0\0"].map(u64::from_le_bytes);
        assert_eq!(parts(KeyType::String, "abcdefghi"), (two.to_vec(), 9, KeyForm::Text));
    }

    #[test]
    fn a_string_longer_than_the_key_field_is_its_digest() {
        let fits = "x".repeat(24);
        let longer = "x".repeat(25);
        assert_eq!(parts(KeyType::String, &fits).2, KeyForm::Text);
        assert_eq!(parts(KeyType::String, &longer).1, 16);
        assert_eq!(parts(KeyType::String, &longer), parts(KeyType::Digest, &longer));
        assert_ne!(parts(KeyType::Digest, &fits), parts(KeyType::Digest, &longer));
        assert!(shown(KeyType::Digest, "x").unwrap().starts_with("digest:"));
        assert_eq!(shown(KeyType::Digest, "x").unwrap().len(), 7 + 32);
    }

    #[test]
    fn the_digest_is_keyed_by_both_words_of_the_seed() {
        let digest = |seed| {
            let mut field = KeyField::default();
            field.encode(KeyType::Digest, b"x", 24, seed).unwrap();
            field.key().words().to_vec()
        };
        let Seed([a, b]) = SEED;
        assert_ne!(digest(SEED), digest(Seed([a ^ 1, b])));
        assert_ne!(digest(SEED), digest(Seed([a, b ^ 1])));
    }

    #[test]
    fn a_string_has_1_to_1024_bytes() {
        for key_type in [KeyType::String, KeyType::Digest, KeyType::Integer, IP64] {
            assert_eq!(encoded(key_type, "").err(), Some(BadKey::Length(0)));
            let long = "0".repeat(1025);
            assert_eq!(encoded(key_type, &long).err(), Some(BadKey::Length(1025)));
        }
        assert!(encoded(KeyType::String, &"é".repeat(512)).is_ok());
    }

    #[test]
    fn a_string_holds_what_xml_allows() {
        for code in (0..0x1_0000).filter_map(char::from_u32) {
            let forbidden = matches!(u32::from(code), 0..=8 | 11 | 12 | 14..=31 | 0xfffe | 0xffff);
            for text in [format!("{code}"), format!("0123456{code}"), format!("01234567é{code}8")]
            {
                let expected = forbidden.then_some(BadKey::Character);
                assert_eq!(encoded(KeyType::String, &text).err(), expected, "{text:?}");
                assert_eq!(encoded(KeyType::Digest, &text).err(), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn an_integer_is_the_decimal_digits_of_a_u64() {
        assert_eq!(shown(KeyType::Integer, "18829340001").unwrap(), "18829340001");
        assert_eq!(shown(KeyType::Integer, "0000000000000000000000000000042").unwrap(), "42");
        assert_eq!(shown(KeyType::Integer, "000").unwrap(), "0");
        assert_eq!(parts(KeyType::Integer, "18446744073709551615").0, [u64::MAX]);
        for bad in ["18446744073709551616", "99999999999999999999", "-1", "+1", "1 ", " 1", "1.0"] {
            assert_eq!(encoded(KeyType::Integer, bad).err(), Some(BadKey::NotInteger), "{bad}");
        }
        for bad in ["0x1", "1e3", "a", "١"] {
            assert_eq!(encoded(KeyType::Integer, bad).err(), Some(BadKey::NotInteger), "{bad}");
        }
    }

    #[test]
    fn an_address_is_v4_or_v6_cut_to_the_prefix() {
        assert_eq!(parts(IP64, "1.2.3.4"), (vec![0x0403_0201], 4, KeyForm::V4));
        assert_eq!(parts(IP64, "::ffff:1.2.3.4"), parts(IP64, "1.2.3.4"));
        assert_eq!(parts(IP64, "::ffff:102:304"), parts(IP64, "1.2.3.4"));
        let cut = [u64::from_le_bytes([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1]), 0];
        assert_eq!(parts(IP64, "2001:db8:0:1:2:3:4:5"), (cut.to_vec(), 16, KeyForm::V6));
        assert_eq!(shown(IP64, "2001:DB8:0:1::9").unwrap(), "2001:db8:0:1::");
        for (prefix, address) in [
            (1, "8000::"),
            (16, "ffff::"),
            (60, "ffff:ffff:ffff:fff0::"),
            (127, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"),
            (128, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            let all = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
            assert_eq!(shown(KeyType::Ip { ipv6_prefix: prefix }, all).unwrap(), address);
        }
    }

    #[test]
    fn ports_brackets_zones_and_sloppy_addresses_are_bad() {
        let bad =
            ["1.2.3.4:80", "[::1]", "[::1]:80", "fe80::1%eth0", "fe80::1%1", "1.2.3", "01.2.3.4"];
        for text in bad.into_iter().chain(["1.2.3.256", " 1.2.3.4", "::1/64", "localhost", "::1::"])
        {
            assert_eq!(encoded(IP64, text).err(), Some(BadKey::NotAddress), "{text}");
        }
    }

    #[test]
    fn only_what_an_encoder_writes_is_a_stored_key() {
        let stored = |field: &[u64], bytes, form| KeyRef::from_stored(field, bytes, form).is_some();
        assert!(stored(&[0x6261, 0, 0], 2, 0));
        assert!(!stored(&[0x6261, 0, 0], 1, 0)); // padding in the word
        assert!(!stored(&[0x6261, 0, 1], 2, 0)); // padding beyond it
        assert!(!stored(&[0x6261], 9, 0)); // longer than the field
        assert!(!stored(&[0, 0, 0], 0, 0));
        assert!(!stored(&[1; 33], 257, 0));
        assert!(stored(&[u64::MAX, 0], 8, 1) && !stored(&[7, 0], 1, 1));
        assert!(stored(&[0x0403_0201, 0], 4, 2) && !stored(&[1 << 32, 0], 4, 2));
        assert!(stored(&[1, 2], 16, 3) && stored(&[1, 2], 16, 4) && !stored(&[1, 2], 8, 4));
        assert!(stored(&[0, 0], 0, 5) && !stored(&[1, 0], 0, 5));
        assert!(!stored(&[0, 0], 0, 6) && !stored(&[0, 0], 0, 255));
        assert_eq!(KeyRef::from_stored(&[0, 0], 0, 5), Some(KeyRef::BIZ));
    }

    #[test]
    fn integers_are_placed_by_modulo() {
        let geometry = geometry(3, 100, HashKind::Bob);
        for key in [0, 1, 2, 3, 299, 300, u64::MAX] {
            let field = encoded(KeyType::Integer, &key.to_string()).unwrap();
            let place = field.key().locate(7, &geometry, SEED);
            assert_eq!(u64::from(place.file), key % 3);
            assert_eq!(u64::from(place.key_node), key / 3 % 100);
        }
    }

    #[test]
    fn a_place_depends_on_key_biz_seed_and_kind() {
        let places = |kind| {
            let field = encoded(KeyType::String, "alice").unwrap();
            let key = field.key();
            let Seed([a, b]) = SEED;
            [
                key.estimate(1, kind, SEED),
                key.estimate(2, kind, SEED),
                key.estimate(1, kind, Seed([a ^ 1, b])),
                encoded(KeyType::String, "alicf").unwrap().key().estimate(1, kind, SEED),
                KeyRef::BIZ.estimate(1, kind, SEED),
                KeyRef::BIZ.estimate(2, kind, SEED),
            ]
        };
        let all: HashSet<u64> =
            [HashKind::Bob, HashKind::Siphash].into_iter().flat_map(places).collect();
        assert_eq!(all.len(), 12);
    }

    #[test]
    fn the_file_format_fixes_places() {
        let place = |key: KeyRef<'_>, kind| {
            let place = key.locate(1001, &geometry(2, 8192, kind), SEED);
            (place.file, place.key_node, place.tag)
        };
        let text = encoded(KeyType::String, "18829340001@example").unwrap();
        let number = encoded(KeyType::Integer, "18829340001").unwrap();
        assert_eq!(place(text.key(), HashKind::Bob), (0, 6148, 248));
        assert_eq!(place(text.key(), HashKind::Siphash), (0, 1703, 193));
        assert_eq!(place(number.key(), HashKind::Bob), (1, 5808, 205));
        assert_eq!(place(KeyRef::BIZ, HashKind::Bob), (1, 1241, 118));
        let digest = shown(KeyType::Digest, "alice").unwrap();
        assert_eq!(digest, "digest:482e0a36279ebbcde3870db3d65fe25a");
    }

    /// Chi-squared of counts that should be equal, divided by its degrees of freedom: about 1.
    fn unevenness(counts: &[u32]) -> f64 {
        let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
        let sum: f64 = counts.iter().map(|&n| (f64::from(n) - mean).powi(2) / mean).sum();
        sum / (counts.len() - 1) as f64
    }

    #[test]
    fn keys_that_look_alike_spread_evenly_over_files_key_nodes_and_tags() {
        let name = |n: u32| format!("user{n:07}");
        let address = |n: u32| Ipv4Addr::from(0x0a00_0000 + n).to_string();
        for kind in [HashKind::Bob, HashKind::Siphash] {
            let geometry = geometry(3, 1024, kind);
            for (key_type, make) in
                [(KeyType::String, &name as &dyn Fn(u32) -> String), (IP64, &address)]
            {
                let (mut files, mut key_nodes, mut tags) = ([0; 3], [0; 1024], [0; 255]);
                for n in 0..100_000 {
                    let field = encoded(key_type, &make(n)).unwrap();
                    let place = field.key().locate(1, &geometry, SEED);
                    files[place.file as usize] += 1;
                    key_nodes[place.key_node as usize] += 1;
                    tags[usize::from(place.tag) - 1] += 1;
                }
                // Five standard deviations; one tag in 255 is twice as likely.
                assert!(unevenness(&files) < 6.0, "{files:?}");
                assert!(unevenness(&key_nodes) < 1.0 + 5.0 * (2.0_f64 / 1023.0).sqrt());
                assert!(unevenness(&tags[1..]) < 1.0 + 5.0 * (2.0_f64 / 253.0).sqrt());
            }
        }
    }

    #[test]
    fn tags_within_a_key_node_tell_keys_apart() {
        let geometry = geometry(1, 64, HashKind::Bob);
        let mut tags = [0; 255];
        for n in 0..64 * 4000 {
            let field = encoded(KeyType::String, &format!("user{n:07}")).unwrap();
            let place = field.key().locate(1, &geometry, SEED);
            if place.key_node == 9 {
                tags[usize::from(place.tag) - 1] += 1;
            }
        }
        assert!(unevenness(&tags[1..]) < 1.0 + 5.0 * (2.0_f64 / 253.0).sqrt());
    }

    proptest! {
        #[test]
        fn a_key_comes_back_from_its_stored_form(text in "\\PC{1,24}", before in "[a-z]{1,24}") {
            let mut field = KeyField::default();
            field.encode(KeyType::String, before.as_bytes(), 96, SEED).unwrap();
            field.encode(KeyType::String, text.as_bytes(), 96, SEED).unwrap();
            let key = field.key();
            let mut stored = [0; 12];
            stored[..key.words().len()].copy_from_slice(key.words());
            let back = KeyRef::from_stored(&stored, key.bytes(), key.form() as u8).unwrap();
            prop_assert_eq!(back, key);
            prop_assert_eq!(back.to_string(), text);
            for kind in [HashKind::Bob, HashKind::Siphash] {
                let geometry = geometry(5, 977, kind);
                prop_assert_eq!(back.locate(3, &geometry, SEED), key.locate(3, &geometry, SEED));
            }
        }

        #[test]
        fn an_integer_comes_back(number: u64, zeros in 0_usize..30) {
            let text = format!("{}{number}", "0".repeat(zeros));
            prop_assert_eq!(shown(KeyType::Integer, &text).unwrap(), number.to_string());
        }

        #[test]
        fn an_address_comes_back(v4: u32, v6: u128) {
            let v4 = Ipv4Addr::from(v4);
            prop_assert_eq!(shown(IP64, &v4.to_string()).unwrap(), v4.to_string());
            let whole = IpAddr::from(Ipv6Addr::from(v6)).to_canonical();
            let kept = shown(KeyType::Ip { ipv6_prefix: 128 }, &whole.to_string()).unwrap();
            prop_assert_eq!(kept, whole.to_string());
        }

        #[test]
        fn no_text_makes_an_encoder_panic(text in "\\PC{0,80}|[0-9.:a-f\\[\\]%]{0,45}") {
            for key_type in [KeyType::String, KeyType::Digest, KeyType::Integer, IP64] {
                let _ = encoded(key_type, &text);
            }
        }
    }
}
