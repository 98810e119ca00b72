//! Turns the values of a descriptor into a key that fits its business, and into ids.
//!
//! Invariant: every value makes a key, so a client cannot escape its limit by a value that does not
//! fit. Keys that fit stay unchanged. Text keys that do not fit differ if their values differ. All
//! values that are not a number, or not an address, make one key. Ids that fit stay unchanged, and
//! those that do not fit differ if their values differ.

use std::fmt::Write as _;

use frs_conf::key;
use frs_conf::{KeyType, Template, TemplatePart};
use ring::digest::{SHA256, digest};

use crate::messages::Entry;

/// The key for an empty value.
const EMPTY: &str = "~empty";
/// The text between the beginning of a value and the digest of the whole value.
const DIGEST: &str = "~sha256:";
/// The most bytes that are kept of the beginning. Lists match it.
const KEPT_BYTES: usize = 512;
/// The most bytes of an id.
const ID_BYTES: usize = 64;
/// The key for values that are not a number.
const NO_INTEGER: &str = "18446744073709551615";
/// The key for values that are not an address: an address that nothing has (RFC 6666).
const NO_ADDRESS: &str = "100::";

/// A key, and whether the values made it without a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FittedKey {
    /// The key.
    pub key: String,
    /// Whether the key fitted.
    pub is_whole: bool,
}

/// A key or an id to be filled with the values of a call's entries.
#[derive(Debug)]
pub struct Form {
    parts: Vec<TemplatePart>,
    /// The bytes that values write as `%XX`.
    escaped: Vec<u8>,
}

impl Form {
    /// The form of a template.
    pub fn new(template: &Template) -> Form {
        Form { parts: template.0.clone(), escaped: template.escaped() }
    }

    /// The text that the values of these entries make.
    pub fn filled(&self, entries: &[Entry]) -> Vec<u8> {
        let mut text = Vec::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(plain) => text.extend_from_slice(plain.as_bytes()),
                TemplatePart::Value(at) => {
                    let value = entries.get(*at).map_or(&[][..], |entry| &entry.value);
                    push_value(&mut text, value, &self.escaped);
                }
            }
        }
        text
    }
}

/// Appends a value to a text. Writes the escaped bytes as `%XX`.
fn push_value(text: &mut Vec<u8>, value: &[u8], escaped: &[u8]) {
    if escaped.is_empty() {
        return text.extend_from_slice(value);
    }
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in value {
        if escaped.contains(&byte) {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            text.extend([b'%', DIGITS[high], DIGITS[low]]);
        } else {
            text.push(byte);
        }
    }
}

/// A key that fits a business with keys of this type.
pub fn fitted(text: Vec<u8>, key_type: KeyType) -> FittedKey {
    let text = match String::from_utf8(text) {
        Ok(key) if key::check(key_type, key.as_bytes()).is_ok() => {
            return FittedKey { key, is_whole: true };
        }
        Ok(key) => key.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    let key = match key_type {
        KeyType::Integer => NO_INTEGER.to_owned(),
        KeyType::Ip { .. } => NO_ADDRESS.to_owned(),
        KeyType::String | KeyType::Digest if text.is_empty() => EMPTY.to_owned(),
        KeyType::String | KeyType::Digest => digested(&text),
    };
    FittedKey { key, is_whole: false }
}

/// The beginning of a text, without characters that no key holds, and the digest of the whole text.
fn digested(text: &[u8]) -> String {
    let mut key = String::with_capacity(KEPT_BYTES + DIGEST.len() + 64);
    for c in String::from_utf8_lossy(text).chars() {
        if key.len() + c.len_utf8() > KEPT_BYTES {
            break;
        }
        key.push(if key::is_xml_char(c) { c } else { char::REPLACEMENT_CHARACTER });
    }
    key.push_str(DIGEST);
    push_digest(&mut key, text);
    key
}

/// An id of a hold or a call. One that is longer than 64 bytes, or that no key holds, becomes the
/// digest of all of it, which has 64 digits. An empty one stays empty, which no business takes: all
/// calls would share it.
pub fn fitted_id(text: Vec<u8>) -> String {
    let is_fit = |id: &str| id.len() <= ID_BYTES && id.chars().all(key::is_xml_char);
    match String::from_utf8(text) {
        Ok(id) if is_fit(&id) => id,
        unfit => {
            let text = unfit.map_or_else(|error| error.into_bytes(), String::into_bytes);
            let mut id = String::with_capacity(ID_BYTES);
            push_digest(&mut id, &text);
            id
        }
    }
}

fn push_digest(to: &mut String, text: &[u8]) {
    for byte in digest(&SHA256, text).as_ref() {
        // Writing to a string does not fail.
        let _ = write!(to, "{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: KeyType = KeyType::Ip { ipv6_prefix: 64 };

    fn key(text: impl AsRef<[u8]>, key_type: KeyType) -> (String, bool) {
        let FittedKey { key, is_whole } = fitted(text.as_ref().to_vec(), key_type);
        assert_eq!(key::check(key_type, key.as_bytes()), Ok(()), "{key}");
        assert_eq!(fitted(key.clone().into_bytes(), key_type).key, key, "it fits");
        (key, is_whole)
    }

    // Shows: values-without-a-key.
    #[test]
    fn what_fits_is_as_it_is() {
        let longest = "k".repeat(1024);
        for text in ["alice", " ", "é", "~empty", &longest] {
            for key_type in [KeyType::String, KeyType::Digest] {
                assert_eq!(key(text, key_type), (text.to_owned(), true));
            }
        }
        assert_eq!(key("007", KeyType::Integer), ("007".to_owned(), true));
        assert_eq!(key("2001:db8::1", IP), ("2001:db8::1".to_owned(), true));
    }

    // Shows: values-without-a-key.
    #[test]
    fn text_that_does_not_fit_is_told_apart_by_its_digest() {
        assert_eq!(key("", KeyType::String), ("~empty".to_owned(), false));
        // The example of FIPS 180-4.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(digested(b"abc").ends_with(abc));
        let long = "é".repeat(513);
        let (known, is_whole) = key(&long, KeyType::String);
        assert!(!is_whole && known.starts_with(&"é".repeat(256)) && known.len() == 512 + 8 + 64);
        assert_eq!(key(&long, KeyType::Digest).0, known);
        let unlike = [&b"\x01"[..], b"\x02", b"\xff", b"\xfe", "\u{fffe}".as_bytes(), b"a\0"];
        let mut keys: Vec<String> =
            unlike.iter().map(|text| key(text, KeyType::String).0).collect();
        keys.push(known);
        keys.push(key(long.clone() + "x", KeyType::String).0);
        assert!(keys.iter().all(|key| key.contains("~sha256:")), "{keys:?}");
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), unlike.len() + 2);
    }

    // Shows: values-without-a-key.
    #[test]
    fn what_is_no_number_or_address_is_one_key() {
        for text in ["", "alice", "-1", "18446744073709551616", "1\0"] {
            assert_eq!(key(text, KeyType::Integer), (NO_INTEGER.to_owned(), false));
        }
        for text in ["", "alice", "10.0.0.1:80", "10.0.0.256", "\u{ff}"] {
            assert_eq!(key(text, IP), (NO_ADDRESS.to_owned(), false));
        }
    }

    // Shows: envoy-ids.
    #[test]
    fn ids_that_do_not_fit_differ_if_their_values_differ() {
        let id = |text: &[u8]| fitted_id(text.to_vec());
        let longest = "i".repeat(64);
        for text in ["", "r-1", "é", &longest] {
            assert_eq!(id(text.as_bytes()), text);
        }
        let long = longest + "i";
        let unlike: [&[u8]; 5] = [long.as_bytes(), b"\x01", b"\x02", b"\xff", b"\xfe"];
        let mut ids: Vec<String> = unlike.map(id).into();
        assert!(ids.iter().all(|id| id.len() == 64), "{ids:?}");
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), unlike.len());
    }
}
