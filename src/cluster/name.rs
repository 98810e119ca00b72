//! Names in the cluster: the keys of ledgers and of their companions, the channels, the slots of
//! keys.
//!
//! Invariant: all machines of a cluster name a key alike. A name follows from the cluster's name
//! and secret, from the configuration and from the key as a node stores it, and from nothing else.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use frs_base::hash;
use frs_conf::ClusterSecret;
use frs_conf::key::{KeyForm, KeyRef};

use crate::lease::Incarnation;

/// Slots of a cluster.
const SLOTS: u16 = 1 << 14;

/// Channels of a cluster's hosts.
pub const CHANNELS: u16 = 64;

/// A check that two machines have the same secret: 16 hex digits that reveal nothing else about it.
pub fn secret_check(secret: &ClusterSecret) -> String {
    format!("{:016x}", secret.keys().check.swap_bytes())
}

/// A key in the name of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyDigest {
    /// A limit of the whole biz.
    Biz,
    /// The digest of a key.
    Key([u64; 2]),
}

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyDigest::Biz => f.write_str("-"),
            KeyDigest::Key([first, second]) => {
                write!(f, "{:016x}{:016x}", first.swap_bytes(), second.swap_bytes())
            }
        }
    }
}

/// The ledger of one limit for one key. All hosts order ledgers alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LedgerId {
    /// The id of the biz.
    pub biz: u32,
    /// The key.
    pub key: KeyDigest,
    /// The number of the limit in its biz, from 1.
    pub limit: u32,
    /// The shape of the limit.
    pub shape: u16,
    /// The reset epoch of the biz.
    pub epoch: u64,
}

impl LedgerId {
    /// Its name in a cluster.
    pub fn name(&self, cluster: &str) -> String {
        let LedgerId { biz, key, limit, shape, epoch } = self;
        format!("frs:{{{cluster}:{biz}:{key}}}:{limit}:{shape:04x}:{epoch}")
    }

    /// Its slot in a cluster of this name.
    pub fn slot(&self, cluster: &str) -> u16 {
        slot(self.name(cluster).as_bytes())
    }

    /// Parses a name. `None` if it is not a ledger of this cluster.
    pub fn parse(cluster: &str, name: &str) -> Option<LedgerId> {
        let rest = name.strip_prefix("frs:{")?.strip_prefix(cluster)?.strip_prefix(':')?;
        let (tag, rest) = rest.split_once("}:")?;
        let (biz, key) = tag.split_once(':')?;
        let mut numbers = rest.split(':');
        let limit = numbers.next()?.parse().ok()?;
        let shape = u16::from_str_radix(numbers.next()?, 16).ok()?;
        let epoch = numbers.next()?.parse().ok()?;
        let key = KeyDigest::parse(key)?;
        let parsed = LedgerId { biz: biz.parse().ok()?, key, limit, shape, epoch };
        // Rejects signs, leading zeros and further fields: no host writes them.
        (parsed.name(cluster) == name).then_some(parsed)
    }
}

impl KeyDigest {
    /// Names a key by the SipHash-2-4 digest, 128 bits, of the form's number and the key's bytes,
    /// under the first half of the secret.
    pub fn of(key: &KeyRef<'_>, secret: &ClusterSecret) -> KeyDigest {
        if key.form() == KeyForm::Biz {
            return KeyDigest::Biz;
        }
        let form = [key.form() as u8];
        let bytes = key.words().iter().flat_map(|word| word.to_le_bytes());
        let named: Vec<u8> = form.into_iter().chain(bytes.take(key.bytes().into())).collect();
        KeyDigest::Key(hash::siphash_digest(&named, secret.halves()[0]))
    }

    fn parse(text: &str) -> Option<KeyDigest> {
        if text == "-" {
            return Some(KeyDigest::Biz);
        }
        let (first, second) = text.split_at_checked(16)?;
        let word = |digits| u64::from_str_radix(digits, 16).ok().map(u64::swap_bytes);
        Some(KeyDigest::Key([word(first)?, word(second)?]))
    }
}

/// The key that holds the record of a key with limits of one machine alone.
pub fn record_key(cluster: &str, biz: u32, key: KeyDigest) -> String {
    format!("frs:{{{cluster}:{biz}:{key}}}:warm")
}

/// The key that holds the check of the cluster's secret.
pub fn secret_key(cluster: &str) -> String {
    format!("frs:{{{cluster}}}:secret")
}

/// The key that holds the reset epoch of a biz.
pub fn epoch_key(cluster: &str, biz: u64) -> String {
    format!("frs:{{{cluster}}}:epoch:{biz}")
}

/// The key that holds the last start of a host's server.
pub fn start_key(cluster: &str, host: Incarnation) -> String {
    format!("frs:{{{cluster}}}:start:{host:016x}")
}

/// One key in each slot of the cluster that records the slot's master. A master that has lost this
/// key has lost the slot's ledgers.
#[derive(Debug, Clone)]
pub struct SlotKeys {
    cluster: Arc<str>,
    /// The number in the braces, by slot.
    numbers: Arc<[u32]>,
}

impl SlotKeys {
    /// The slot keys of the cluster with this name.
    pub fn new(cluster: &str) -> SlotKeys {
        let begun = crc16(format!("{cluster}#").as_bytes());
        let mut numbers = vec![None; SLOTS.into()];
        let mut missing = numbers.len();
        let (mut number, mut digits) = (0_u32, String::new());
        while missing > 0 {
            digits.clear();
            let _ = write!(digits, "{number}");
            let slot = digits.bytes().fold(begun, add_to_crc16) % SLOTS;
            let place = &mut numbers[usize::from(slot)];
            missing -= usize::from(place.is_none());
            place.get_or_insert(number);
            number += 1;
        }
        SlotKeys { cluster: cluster.into(), numbers: numbers.into_iter().flatten().collect() }
    }

    /// The key of a slot, which is below 2^14.
    pub fn of(&self, slot: u16) -> String {
        format!("frs:{{{}#{}}}:slot", self.cluster, self.numbers[usize::from(slot)])
    }
}

/// The channel for recalls and news of a key.
pub fn channel(cluster: &str, key: &[u8]) -> String {
    format!("frs:{cluster}:{}", slot(key) % CHANNELS)
}

/// The slot of a key: the hash of the text in its first braces if they are not empty, else of the
/// whole key (Redis Cluster specification, "Hash tags").
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, nothing reflected (Redis Cluster
/// specification, appendix A).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().copied().fold(0, add_to_crc16)
}

fn add_to_crc16(crc: u16, byte: u8) -> u16 {
    crc << 8 ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)]
}

/// The CRC of each byte.
const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: ClusterSecret = ClusterSecret::new({
        let mut bytes = [0; 32];
        let mut at = 0;
        while at < 32 {
            bytes[at] = at as u8;
            at += 1;
        }
        bytes
    });

    #[test]
    fn crc16_is_the_published_one() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
    }

    /// As `CLUSTER KEYSLOT` answers.
    #[test]
    fn a_slot_is_of_the_first_braces_that_hold_anything() {
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"a{foo}b{bar}"), 12182);
        assert_eq!(slot(b"{}{foo}"), crc16(b"{}{foo}") % SLOTS);
        assert_eq!(slot(b"a{{foo}}"), crc16(b"{foo") % SLOTS);
        assert_eq!(slot(b"{foo"), crc16(b"{foo") % SLOTS);
    }

    /// The key and two messages of the reference's vectors (Aumasson and Bernstein, `vectors.h`):
    /// the empty message, and the bytes 0 to 14.
    #[test]
    fn the_digest_is_siphash_2_4_with_128_bits() {
        let shown = |bytes: &[u8]| {
            KeyDigest::Key(hash::siphash_digest(bytes, SECRET.halves()[0])).to_string()
        };
        assert_eq!(shown(&[]), "a3817f04ba25a8e66df67214c7550293");
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(shown(&message), "5493e99933b0a8117e08ec0f97cfc3d9");
    }

    #[test]
    fn a_key_is_named_by_its_form_and_bytes() {
        let text = |word: u64, bytes| KeyRef::from_stored(&[word], bytes, 0).map(|k| digest(&k));
        fn digest(key: &KeyRef<'_>) -> KeyDigest {
            KeyDigest::of(key, &SECRET)
        }
        assert_ne!(text(0x61, 1), text(0x6161, 2));
        let word = 0x6161_6161_6161_6161;
        let words = [word];
        let integer = KeyRef::from_stored(&words, 8, KeyForm::Integer as u8).expect("a key");
        assert_ne!(text(word, 8), Some(digest(&integer)));
        assert_eq!(digest(&KeyRef::BIZ), KeyDigest::Biz);
        let named = [0, 0x61];
        let expected = KeyDigest::Key(hash::siphash_digest(&named, SECRET.halves()[0]));
        assert_eq!(text(0x61, 1), Some(expected));
        let other = ClusterSecret::new([7; 32]);
        assert_ne!(KeyDigest::of(&integer, &other), digest(&integer));
    }

    #[test]
    fn a_ledger_has_its_name() {
        let ledger = LedgerId {
            biz: 2001,
            key: KeyDigest::Key([0x0102_0304_0506_0708, 0xff]),
            limit: 1,
            shape: 0x0a,
            epoch: 3,
        };
        let name = ledger.name("prod");
        assert_eq!(name, "frs:{prod:2001:0807060504030201ff00000000000000}:1:000a:3");
        assert_eq!(slot(name.as_bytes()), slot(b"prod:2001:0807060504030201ff00000000000000"));
        assert_eq!(LedgerId::parse("prod", &name), Some(ledger));
        for strange in ["", "frs:{prod:1:-}:1:000a", "frs:{prod:1:-}:+1:000a:3"] {
            assert_eq!(LedgerId::parse("prod", strange), None);
        }
        assert_eq!(LedgerId::parse("pro", &name), None);
        let whole = LedgerId { key: KeyDigest::Biz, ..ledger }.name("prod");
        assert!(LedgerId::parse("prod", &whole).is_some());
        assert_eq!(whole, "frs:{prod:2001:-}:1:000a:3");
        assert_eq!(channel("prod", b"foo"), format!("frs:prod:{}", 12182 % 64));
        assert_eq!(secret_key("prod"), "frs:{prod}:secret");
        assert_eq!(epoch_key("prod", 2001), "frs:{prod}:epoch:2001");
        assert_eq!(start_key("prod", 0xab), "frs:{prod}:start:00000000000000ab");
    }

    #[test]
    fn each_slot_has_a_key() {
        let keys = SlotKeys::new("prod");
        assert!((0..SLOTS).all(|slot| super::slot(keys.of(slot).as_bytes()) == slot));
        assert!(LedgerId::parse("prod", &keys.of(0)).is_none());
    }

    #[test]
    fn the_check_tells_secrets_apart_in_each_byte() {
        let check = secret_check(&SECRET);
        assert!(check.len() == 16 && check.bytes().all(|byte| byte.is_ascii_hexdigit()));
        for at in 0..SECRET.bytes().len() {
            let mut bytes = *SECRET.bytes();
            bytes[at] ^= 1;
            assert_ne!(secret_check(&ClusterSecret::new(bytes)), check, "byte {at}");
        }
    }
}
