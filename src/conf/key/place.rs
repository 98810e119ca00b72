//! The place of a key's node: its file, its key-node and its tag.
//!
//! Invariant: the place depends only on what a node stores (biz id, form, length, words), on the
//! group's geometry and on its seed. Look-up, verify and migrate all call [`KeyRef::locate`].

use frs_base::hash;

use super::{KeyForm, KeyRef, Seed};
use crate::schema::{Geometry, HashKind};

/// A key-node of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyNodeId {
    /// Index of the file in the group.
    pub file: u32,
    /// Index of the key-node in the file.
    pub key_node: u32,
}

/// The place that a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Index of the file in the group.
    pub file: u32,
    /// Index of the key-node in the file.
    pub key_node: u32,
    /// The node's tag in the key-node's head, 1..=255.
    pub tag: u8,
}

impl Location {
    /// Its key-node.
    pub const fn key_node_id(&self) -> KeyNodeId {
        KeyNodeId { file: self.file, key_node: self.key_node }
    }
}

impl Geometry {
    /// Key-nodes of all files.
    pub const fn all_key_nodes(&self) -> usize {
        self.files as usize * self.key_nodes as usize
    }

    /// The key-node of a number. Numbers run over all files, from 0.
    pub const fn key_node_at(&self, number: usize) -> KeyNodeId {
        let in_file = self.key_nodes as usize;
        KeyNodeId { file: (number / in_file) as u32, key_node: (number % in_file) as u32 }
    }

    /// The number of a key-node.
    pub const fn number_of(&self, at: KeyNodeId) -> usize {
        at.file as usize * self.key_nodes as usize + at.key_node as usize
    }
}

impl KeyRef<'_> {
    /// The index estimation: 64 bits of the stored key together with its biz.
    ///
    /// For `bob` it is lookup3 of the key's bytes, with the biz id in the upper half of the seed.
    /// For the node of a whole biz it is lookup3 of the biz id and a flag. For `siphash` it is
    /// SipHash-1-3 of one word with biz id, length and form, then of the key's words.
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

    /// The place of this key's node in a biz.
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

/// The key-node of an integer key, by modulo, so that adjacent keys spread evenly.
#[inline(always)]
const fn route_integer(key: u64, geometry: &Geometry) -> KeyNodeId {
    let files = geometry.files as u64;
    KeyNodeId {
        file: (key % files) as u32,
        key_node: (key / files % geometry.key_nodes as u64) as u32,
    }
}

/// A tag, 1..=255, from all bits of `h` by multiplicative hashing (Knuth, TAOCP 3, 6.4). The low
/// bits alone already determine the key-node.
#[inline]
const fn tag(h: u64) -> u8 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let top = (h.wrapping_mul(K) >> 56) as u8;
    top % 255 + 1
}
