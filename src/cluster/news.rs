//! What hosts publish on the channels: recalls, and that a ledger has uses again.
//!
//! `1 KIND WINDOW LEDGER KEY FIELD HOST…`, words with one space between them: the version of the
//! format; `recall` or `has-again`; the window's start by the ledger's clock; the ledger's key; a
//! key with this ledger as nodes store it, in 16 hexadecimal digits; the words of its field, 16
//! digits each, or `-`; the hosts, 16 hexadecimal digits each. The key lets a host answer that has
//! lost the node.
//!
//! Invariant: a record of another version of the format is ignored.

use std::fmt::Write as _;

use frs_engine::StoredKey;

use super::ledger;
use crate::lease::Incarnation;

/// The version of the format.
const VERSION: &str = "1";
const RECALL: &str = "recall";
const HAS_AGAIN: &str = "has-again";

/// The longest record, in bytes.
pub const MAX_BYTES: usize = 8192;
/// Most hosts in one record. A recall of more holders names the first of them, and the next recall
/// the others.
pub const MAX_HOLDERS: usize = 256;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewsKind {
    /// A host needs uses, and asks the holders to return theirs.
    Recall,
    /// The ledger has uses again.
    HasAgain,
}

/// A record that a host publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Its kind.
    pub kind: NewsKind,
    /// The start of the window by the ledger's clock; 0 if it is unknown.
    pub window: u64,
    /// The key of the ledger.
    pub ledger: String,
    /// An item that has this ledger.
    pub key: StoredKey,
    /// The hosts that a recall names.
    pub holders: Vec<Incarnation>,
}

impl News {
    /// Encodes the payload, with at most [`MAX_HOLDERS`] hosts.
    pub fn encode(&self) -> Vec<u8> {
        let kind = match self.kind {
            NewsKind::Recall => RECALL,
            NewsKind::HasAgain => HAS_AGAIN,
        };
        let mut text = format!("{VERSION} {kind} {} {}", self.window, self.ledger);
        let _ = write!(text, " {:016x} ", self.key.key_word);
        let words = self.key.key().map_or(0, |key| key.words().len());
        if words == 0 {
            text.push('-');
        }
        for word in &self.key.field[..words] {
            let _ = write!(text, "{word:016x}");
        }
        for &holder in self.holders.iter().take(MAX_HOLDERS) {
            let _ = write!(text, " {}", ledger::host_name(holder));
        }
        text.into_bytes()
    }

    /// Decodes a payload. `None` if it is not a record of this version.
    pub fn decode(payload: &[u8]) -> Option<News> {
        let text = std::str::from_utf8(payload).ok().filter(|text| text.len() <= MAX_BYTES)?;
        let mut words = text.split(' ');
        let kind = match (words.next()?, words.next()?) {
            (VERSION, RECALL) => NewsKind::Recall,
            (VERSION, HAS_AGAIN) => NewsKind::HasAgain,
            _ => return None,
        };
        let window = words.next()?.parse().ok()?;
        let ledger = words.next().filter(|ledger| !ledger.is_empty())?.to_owned();
        let key = decode_key(words.next()?, words.next()?)?;
        let holders: Vec<_> = words.map(ledger::decode_holder).collect::<Result<_, _>>().ok()?;
        (holders.len() <= MAX_HOLDERS).then_some(News { kind, window, ledger, key, holders })
    }
}

fn decode_key(key_word: &str, field: &str) -> Option<StoredKey> {
    let word = |digits: &str| {
        let is_word = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_word.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    let mut key = StoredKey { key_word: word(key_word)?, field: Default::default() };
    if field != "-" {
        let words = field.len().div_ceil(16);
        for (nth, to) in key.field.get_mut(..words)?.iter_mut().enumerate() {
            *to = word(field.get(nth * 16..nth * 16 + 16)?)?;
        }
    }
    // Accepts only keys that an encoder writes.
    key.key().is_some().then_some(key)
}

#[cfg(test)]
mod tests {
    use frs_conf::key::{KeyForm, KeyRef};
    use frs_engine::{Need, NeedKind};

    use super::*;

    fn recall(holders: Vec<Incarnation>) -> News {
        let ledger = "frs:{prod:2001:00ff}:1:00a7:0".to_owned();
        let key = key(KeyRef::from_stored(&[0x61], 1, KeyForm::Text as u8).unwrap());
        News { kind: NewsKind::Recall, window: 1_700_000_000_123, ledger, key, holders }
    }

    fn key(key: KeyRef<'_>) -> StoredKey {
        StoredKey::of_need(&Need::of_key(NeedKind::Update, 2001, key))
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let news = recall(vec![0, 1, u64::MAX]);
        let payload = news.encode();
        let text = format!(
            "1 recall 1700000000123 frs:{{prod:2001:00ff}}:1:00a7:0 {:016x} 0000000000000061 \
             0000000000000000 0000000000000001 ffffffffffffffff",
            news.key.key_word
        );
        assert_eq!(String::from_utf8(payload.clone()).unwrap(), text);
        assert_eq!(News::decode(&payload), Some(news));
        let key = key(KeyRef::BIZ);
        let again = News { kind: NewsKind::HasAgain, key, ..recall(vec![]) };
        assert_eq!(News::decode(&again.encode()), Some(again));
    }

    #[test]
    fn a_record_names_a_bounded_number_of_hosts() {
        let payload = recall((0..1000).collect()).encode();
        assert!(payload.len() <= MAX_BYTES);
        assert_eq!(News::decode(&payload).unwrap().holders.len(), MAX_HOLDERS);
    }

    #[test]
    fn other_payloads_are_no_records() {
        let strange: [&[u8]; 13] = [
            b"",
            b"\xff\xfe",
            b"2 recall 1 key",
            b"1 recalled 1 key",
            b"1 recall x key",
            b"1 recall -1 key",
            b"1 recall 1",
            b"1 recall 1 ",
            b"1 recall 1 key 12",
            b"1 recall 1 key 0000000000000001 -",
            b"1 recall 1 key 00050000000007d1 - 12",
            b"1 recall 1 key 00050000000007d1 00000000000000zz",
            b"1 recall 1 key 0000000000000001 0000000000000061 ",
        ];
        for payload in strange {
            assert_eq!(News::decode(payload), None, "{}", payload.escape_ascii());
        }
        let mut long = recall(vec![]).encode();
        long.resize(MAX_BYTES + 1, b'x');
        assert_eq!(News::decode(&long), None);
    }
}
