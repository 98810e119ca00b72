//! Comparisons: which records a peer may lack, found by digests of their versions.
//!
//! Invariant: two machines put a key into the same part, whatever their geometries. Parts of equal
//! digests hold the same versions, but for a chance of 2^-64.

use frs_base::clock::Millis;
use frs_base::hash::crc32c_words;
use frs_engine::{Service, StoredKey};
use frs_store::layout::node;
use frs_store::{ChangedPlace, Looked, Version};

use super::copies::{self, Looks};
use super::frame::Digest;

/// Records of a part, about.
const PART_RECORDS: usize = 1024;
/// The largest number of parts is 2 to this.
pub const PART_BITS_MAX: u8 = 20;

/// The number by which a key is in a part: its upper bits say in which.
fn number_of(key: &StoredKey) -> u64 {
    let words = node::key_bytes(key.key_word).div_ceil(8) as usize;
    let field = &key.field[..words.min(key.field.len())];
    let half = |salt: u64| u64::from(crc32c_words([key.key_word, salt, salt], field));
    mixed(half(0x9e37_79b9) << 32 | half(0x85eb_ca6b))
}

/// The finalizer of SplitMix64: each bit of the result depends on all bits.
fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The digests of the parts of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// There are 2 to this.
    pub bits: u8,
    /// In order.
    pub digests: Vec<Digest>,
}

impl Parts {
    /// Parts without records.
    pub fn new(bits: u8) -> Parts {
        let bits = bits.min(PART_BITS_MAX);
        Parts { bits, digests: vec![Digest { sum: 0, count: 0 }; 1 << bits] }
    }

    /// As many parts as a group of this size needs.
    pub fn bits_for(nodes: usize) -> u8 {
        let parts = (nodes / 2 / PART_RECORDS).max(1).next_power_of_two();
        (parts.trailing_zeros() as u8).min(PART_BITS_MAX)
    }

    fn part_of(bits: u8, number: u64) -> usize {
        number.checked_shr(64 - u32::from(bits)).unwrap_or(0) as usize
    }

    fn add(&mut self, number: u64, version: Version) {
        let digest = &mut self.digests[Parts::part_of(self.bits, number)];
        let [counts, host] = version.words();
        let of_version = mixed(mixed(number ^ counts.rotate_left(17)) ^ host);
        digest.sum = digest.sum.wrapping_add(of_version);
        digest.count = digest.count.wrapping_add(1);
    }

    /// The parts in which these differ from those of a peer.
    pub fn different(&self, theirs: &[Digest]) -> Vec<u32> {
        let nothing = Digest { sum: 0, count: 0 };
        let theirs = theirs.iter().chain(std::iter::repeat(&nothing));
        let pairs = (0..).zip(self.digests.iter().zip(theirs));
        pairs.filter(|(_, (own, their))| own != their).map(|(part, _)| part).collect()
    }
}

/// What a walk is for.
#[derive(Debug)]
pub enum Purpose {
    /// Digests for a peer.
    Digest {
        /// The peer.
        peer: usize,
        /// The digests so far.
        parts: Parts,
    },
    /// A judgement on the digests of a peer.
    Judge {
        /// Its link.
        link: u64,
        /// The number of its comparison.
        compare: u32,
        /// Its digests.
        theirs: Vec<Digest>,
        /// Those of this machine so far.
        parts: Parts,
    },
    /// All records of some parts, for a peer.
    Send {
        /// The peer.
        peer: usize,
        /// There are 2 to this.
        bits: u8,
        /// Whether each part is to be sent.
        parts: Vec<bool>,
    },
}

/// A walk over the records of a group, in steps. A group that grows is walked in both geometries:
/// the former one first, because records move out of it.
#[derive(Debug)]
pub struct Walk {
    /// The index of the group among those that are mirrored.
    pub group: usize,
    /// What it is for.
    pub purpose: Purpose,
    former: bool,
    at: usize,
}

/// What a step has found.
#[derive(Debug, Default)]
pub struct Stepped {
    /// The walk is over.
    pub is_over: bool,
    /// Places to send.
    pub places: Vec<ChangedPlace>,
    /// Records that need another version, because they have none or a lifted ban.
    pub renewed: Vec<StoredKey>,
}

impl Walk {
    /// The beginning of a walk.
    pub fn new(group: usize, purpose: Purpose) -> Walk {
        Walk { group, purpose, former: true, at: 0 }
    }

    /// How far it is.
    pub fn place(&self) -> (bool, usize) {
        (self.former, self.at)
    }

    /// Visits the next key-nodes of the group of this name. A key-node that is held is waited for
    /// in the next step. A group that is not served is over.
    pub fn step(
        &mut self,
        service: &Service,
        name: &str,
        looks: &mut Looks,
        key_nodes: usize,
        now: Millis,
    ) -> Stepped {
        let mut stepped = Stepped::default();
        let handle = service.handle();
        let Some(named) = handle.index_of(name) else {
            stepped.is_over = true;
            return stepped;
        };
        for _ in 0..key_nodes {
            let index = if self.former { handle.former_of(named) } else { Some(named) };
            let all = index.map_or(0, |index| handle.groups()[index].geometry().all_key_nodes());
            let Some(index) = index.filter(|_| self.at < all) else {
                if !self.former {
                    stepped.is_over = true;
                    return stepped;
                }
                (self.former, self.at) = (false, 0);
                continue;
            };
            if handle.is_group_quarantined(index) {
                stepped.is_over = true;
                return stepped;
            }
            if !self.visit(service, index, looks, &mut stepped, now) {
                return stepped;
            }
            self.at += 1;
        }
        stepped
    }

    /// Visits a key-node. False if it is held.
    fn visit(
        &mut self,
        service: &Service,
        index: usize,
        looks: &mut Looks,
        stepped: &mut Stepped,
        now: Millis,
    ) -> bool {
        let group = &service.handle().groups()[index];
        let id = group.geometry().key_node_at(self.at);
        let mut found = Vec::new();
        for place in group.taken_places(id) {
            let at = ChangedPlace {
                file: group.register_index(id.file),
                key_node: id.key_node,
                place: place as u32,
            };
            match looks.look(service, index, at, id.file) {
                Looked::Held => return false,
                Looked::Nothing => continue,
                Looked::Node => {}
            }
            let words = looks.words();
            let Some(entry) = copies::counting(service.table(), index, words, now) else {
                continue;
            };
            let key = StoredKey::of_node(entry, words);
            if key.key().is_none() {
                continue;
            }
            let is_lifted = entry.has_lifted(|word| words.get(word).copied());
            match Version::of_node(words).filter(|_| !is_lifted) {
                Some(version) => found.push((key, version, at)),
                None => stepped.renewed.push(key),
            }
        }
        for (key, version, at) in found {
            let number = number_of(&key);
            match &mut self.purpose {
                Purpose::Digest { parts, .. } | Purpose::Judge { parts, .. } => {
                    parts.add(number, version);
                }
                Purpose::Send { bits, parts, .. } => {
                    if parts.get(Parts::part_of(*bits, number)).is_some_and(|&is_sent| is_sent) {
                        stepped.places.push(at);
                    }
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use frs_conf::KeyType;
    use frs_conf::key::{DigestKey, KeyField};

    use super::*;

    fn key(name: &str) -> StoredKey {
        let mut field = KeyField::default();
        field.encode(KeyType::String, name.as_bytes(), 32, DigestKey([0; 2])).expect("a key");
        StoredKey::of_key(7, field.key())
    }

    #[test]
    fn parts_differ_exactly_where_a_version_does() {
        let of = |changes| Version { takeovers: 1, changes, begun: 0, host: 9 };
        let mut one = Parts::new(6);
        (0..1000).for_each(|nth| one.add(number_of(&key(&format!("k{nth}"))), of(nth)));
        assert!(one.digests.iter().all(|part| (2..40).contains(&part.count)), "spread evenly");
        let mut other = Parts::new(6);
        (0..1000).rev().for_each(|nth| other.add(number_of(&key(&format!("k{nth}"))), of(nth)));
        assert_eq!(one.different(&other.digests), [], "the order does not matter");
        let changed = number_of(&key("k7"));
        other.add(changed, of(1));
        assert_eq!(one.different(&other.digests), [Parts::part_of(6, changed) as u32]);
        let all: Vec<u32> = (0..64).collect();
        assert_eq!(one.different(&[]), all, "a peer without records lacks all");
    }

    #[test]
    fn a_group_has_about_1024_records_in_a_part() {
        for (nodes, bits) in [(0, 0), (2048, 0), (4096, 1), (2_000_000, 10), (usize::MAX, 20)] {
            assert_eq!(Parts::bits_for(nodes), bits, "{nodes}");
        }
        assert_eq!(Parts::part_of(0, u64::MAX), 0);
    }
}
