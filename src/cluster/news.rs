//! What hosts publish on the channels: recalls, and that a ledger has uses again.
//!
//! `1 KIND WINDOW LEDGER KEY FIELD HOST…`, words with one space between them: the version of the
//! format; `recall` or `has-again`; the window's start by the ledger's clock; the ledger's key; a
//! key with this ledger as nodes store it, in 16 hexadecimal digits; the words of its field, 16
//! digits each, or `-`; the hosts, 16 hexadecimal digits each. The key lets a host answer that has
//! lost the node.
//!
//! Invariant: news may be lost, late or doubled. It never changes what a host may spend. It only
//! makes a host ask, or return uses, sooner. A record of another version of the format is ignored.

use std::fmt::Write as _;

use frs_engine::StoredKey;

use crate::lease::Incarnation;
use crate::ledger;
use crate::name::LedgerId;

/// One publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News<K> {
    /// The ledger.
    pub ledger: LedgerId,
    /// A biz and key with this ledger, as all hosts store them. A host that has lost its node makes
    /// it again from them.
    pub key: K,
    /// The content.
    pub kind: NewsKind,
}

/// The content of a publication about a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewsKind {
    /// These hosts are to return their unspent uses.
    Recall {
        /// The window's start by the ledger's clock.
        window: u64,
        /// The hosts.
        holders: Vec<Incarnation>,
    },
    /// The ledger has uses again.
    Again,
}

/// The version of the format.
const VERSION: &str = "1";
const RECALL: &str = "recall";
const HAS_AGAIN: &str = "has-again";

/// The longest record, in bytes.
pub const MAX_BYTES: usize = 8192;
/// Most hosts in one record. A recall of more holders names the first of them, and the next recall
/// the others.
pub const MAX_HOLDERS: usize = 256;

/// Encodes the payload, with the name of the ledger and at most [`MAX_HOLDERS`] hosts.
pub fn encode(ledger: &str, News { key, kind, .. }: &News<StoredKey>) -> Vec<u8> {
    let (kind, window, holders) = match kind {
        NewsKind::Recall { window, holders } => (RECALL, *window, holders.as_slice()),
        NewsKind::Again => (HAS_AGAIN, 0, [].as_slice()),
    };
    let mut text = format!("{VERSION} {kind} {window} {ledger} {:016x} ", key.key_word);
    let words = key.key().map_or(0, |key| key.words().len());
    if words == 0 {
        text.push('-');
    }
    for word in &key.field[..words] {
        let _ = write!(text, "{word:016x}");
    }
    for &holder in holders.iter().take(MAX_HOLDERS) {
        let _ = write!(text, " {}", ledger::hex(holder));
    }
    text.into_bytes()
}

/// Decodes a payload. `None` if it is not a record of this version, or is of another cluster.
pub fn decode(cluster: &str, payload: &[u8]) -> Option<News<StoredKey>> {
    let text = std::str::from_utf8(payload).ok().filter(|text| text.len() <= MAX_BYTES)?;
    let mut words = text.split(' ');
    let (version, kind) = (words.next()?, words.next()?);
    let window = words.next()?.parse().ok()?;
    let ledger = LedgerId::parse(cluster, words.next()?)?;
    let key = decode_key(words.next()?, words.next()?)?;
    let holders: Vec<_> = words.map(ledger::decode_holder).collect::<Result<_, _>>().ok()?;
    let kind = match (version, kind) {
        _ if holders.len() > MAX_HOLDERS => return None,
        (VERSION, RECALL) => NewsKind::Recall { window, holders },
        (VERSION, HAS_AGAIN) => NewsKind::Again,
        _ => return None,
    };
    (ledger.biz == key.biz_id()).then_some(News { ledger, key, kind })
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
    use crate::lease::Incarnation;
    use crate::name::KeyDigest;

    const LEDGER: &str = "frs:{prod:2001:0100000000000000ff00000000000000}:1:00a7:0";

    fn recall(holders: Vec<Incarnation>) -> News<StoredKey> {
        let ledger =
            LedgerId { biz: 2001, key: KeyDigest::Key([1, 0xff]), limit: 1, shape: 0xa7, epoch: 0 };
        let key = key(KeyRef::from_stored(&[0x61], 1, KeyForm::Text as u8).unwrap());
        News { ledger, key, kind: NewsKind::Recall { window: 1_700_000_000_123, holders } }
    }

    fn key(key: KeyRef<'_>) -> StoredKey {
        Need::of_key(NeedKind::Update, 2001, key).stored_key()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let news = recall(vec![0, 1, u64::MAX]);
        let payload = encode(LEDGER, &news);
        let text = format!(
            "1 recall 1700000000123 {LEDGER} {:016x} 0000000000000061 \
             0000000000000000 0000000000000001 ffffffffffffffff",
            news.key.key_word
        );
        assert_eq!(String::from_utf8(payload.clone()).unwrap(), text);
        assert_eq!(decode("pro", &payload), None, "of another cluster");
        assert_eq!(decode("prod", &payload), Some(news));
        let again = News { key: key(KeyRef::BIZ), kind: NewsKind::Again, ..recall(vec![]) };
        assert_eq!(decode("prod", &encode(LEDGER, &again)), Some(again));
    }

    #[test]
    fn a_record_names_a_bounded_number_of_hosts() {
        let payload = encode(LEDGER, &recall((0..1000).collect()));
        assert!(payload.len() <= MAX_BYTES);
        let Some(News { kind: NewsKind::Recall { holders, .. }, .. }) = decode("prod", &payload)
        else {
            panic!("no recall");
        };
        assert_eq!(holders.len(), MAX_HOLDERS);
    }

    #[test]
    fn other_payloads_are_no_records() {
        let strange = [
            "",
            "2 recall 1 LEDGER KEY -",
            "1 recalled 1 LEDGER KEY -",
            "1 recall x LEDGER KEY -",
            "1 recall -1 LEDGER KEY -",
            "1 recall 1",
            "1 recall 1  KEY -",
            "1 recall 1 frs:{prod:2001:-}:1:a7:0 KEY -",
            "1 recall 1 frs:{prod:2002:-}:1:00a7:0 KEY -",
            "1 recall 1 LEDGER 12",
            "1 recall 1 LEDGER 0000000000000001 -",
            "1 recall 1 LEDGER KEY - 12",
            "1 recall 1 LEDGER KEY 00000000000000zz",
            "1 recall 1 LEDGER 0000000000000001 0000000000000061 ",
        ];
        let text = |form: &str| form.replace("LEDGER", LEDGER).replace("KEY", "00050000000007d1");
        for payload in strange.map(text) {
            assert_eq!(decode("prod", payload.as_bytes()), None, "{payload}");
        }
        let good = text("1 recall 1 LEDGER KEY -");
        assert!(decode("prod", good.as_bytes()).is_some());
        let many = good + &" 0000000000000001".repeat(MAX_HOLDERS + 1);
        assert!(many.len() <= MAX_BYTES && decode("prod", many.as_bytes()).is_none());
        assert_eq!(decode("prod", b"\xff\xfe"), None);
        let mut long = encode(LEDGER, &recall(vec![]));
        long.resize(MAX_BYTES + 1, b'x');
        assert_eq!(decode("prod", &long), None);
    }
}
