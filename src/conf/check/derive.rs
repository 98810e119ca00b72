//! Geometry that map.xml leaves to frs: `keys` instead of `files` and `key-nodes`, and a missing
//! `node-size`.
//!
//! Invariant: only the text of map.xml determines the derived numbers. Neither the processors nor
//! the memory of a machine matter, so every reader derives the same numbers.
//!
//! - The nodes of all key-nodes are at least twice as many as the keys: a group is planned for half
//!   load.
//! - A file has at most 1 GiB, as far as 61 files allow it. Large groups are flushed, checked and
//!   restored file by file, and a small group is one file.
//! - `key-nodes` and `files` are prime, and `files` is neither 2 nor 5. Integer keys are placed by
//!   modulo, and in many systems all ids are multiples of 10 or of 4096. Numbers that share a
//!   factor with such steps would leave most key-nodes empty and fill the others.
//! - `node-size` is the size that the largest business of the group needs, with the version of the
//!   record in a mirrored group, rounded up to a multiple of 64.
//!
//! Existing files stay if they are large enough and not much too large: see [`Group::keeps_files`].

use crate::schema::{Geometry, GeometrySettings, Group, NodeCount};

/// The size of a node is a multiple of this.
const NODE_STEP: u32 = 64;
/// Nodes for each key, for half load.
const NODES_A_KEY: u64 = 2;
/// The largest size of a file, as far as the numbers of files allow it.
const FILE_BYTES: u64 = 1 << 30;
/// The numbers of files to choose from.
const FILES: [u32; 17] = [1, 3, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61];

/// Files stay while their nodes are at most this many times as large as the derived nodes.
const MAX_NODE_BYTES_RATIO: u32 = 2;
/// Files stay while they have at most `MAX_NODES_RATIO.0 / MAX_NODES_RATIO.1` of the derived nodes.
const MAX_NODES_RATIO: (u64, u64) = (5, 4);

impl GeometrySettings {
    /// A geometry of which map.xml states every number.
    #[cfg(any(test, feature = "testing"))]
    pub const fn of(geometry: &Geometry) -> GeometrySettings {
        let Geometry { files, key_nodes, chain, node_bytes, key_bytes, hash } = *geometry;
        let room = NodeCount::Files { files, key_nodes };
        GeometrySettings { room, chain, node_bytes: Some(node_bytes), key_bytes, hash }
    }

    /// Whether frs derives any of the numbers.
    pub const fn is_derived(&self) -> bool {
        matches!(self.room, NodeCount::Keys(_)) || self.node_bytes.is_none()
    }

    /// The geometry if the nodes of the group need `needed_bytes`.
    pub(super) fn geometry(&self, needed_bytes: u32) -> Geometry {
        let GeometrySettings { room, chain, node_bytes, key_bytes, hash } = *self;
        let node_bytes = node_bytes.unwrap_or_else(|| needed_bytes.next_multiple_of(NODE_STEP));
        let (files, key_nodes) = match room {
            NodeCount::Files { files, key_nodes } => (files, key_nodes),
            NodeCount::Keys(keys) => {
                let key_nodes = (keys * NODES_A_KEY).div_ceil(chain.into());
                let bytes = key_nodes * (64 + u64::from(chain) * u64::from(node_bytes));
                let wanted = bytes.div_ceil(FILE_BYTES);
                let enough = FILES.into_iter().find(|&files| u64::from(files) >= wanted);
                let files = enough.unwrap_or(FILES[FILES.len() - 1]);
                // MAX_KEYS keeps it within 32 bits, as a test shows.
                (files, next_prime(key_nodes.div_ceil(files.into()) as u32))
            }
        };
        Geometry { files, key_nodes, chain, node_bytes, key_bytes, hash }
    }
}

impl Group {
    /// Whether files of this geometry stay under this configuration. They stay if they have the
    /// geometry that the configuration states. They also stay if only derived numbers differ, and
    /// the files are large enough but not much too large: nodes up to twice as large as derived,
    /// and up to a quarter more nodes. So removing a business moves nothing if its nodes were
    /// somewhat larger. A group whose `files` and `key-nodes` become `keys` of the same room stays
    /// where it is. A configuration with more keys, or with far fewer, gets other files.
    pub fn keeps_files(&self, live: &Geometry) -> bool {
        let GeometrySettings { room, chain, node_bytes, key_bytes, hash } = self.written;
        let derived = &self.derived;
        let is_long_enough = match node_bytes {
            Some(written) => live.node_bytes == written,
            None => {
                let most = derived.node_bytes.saturating_mul(MAX_NODE_BYTES_RATIO);
                (derived.node_bytes..=most).contains(&live.node_bytes)
            }
        };
        let has_room = match room {
            NodeCount::Files { files, key_nodes } => {
                live.files == files && live.key_nodes == key_nodes
            }
            NodeCount::Keys(keys) => {
                let (of, in_parts) = MAX_NODES_RATIO;
                let most = derived.nodes() / in_parts * of;
                *live == *derived || (keys * NODES_A_KEY..=most).contains(&live.nodes())
            }
        };
        let is_same = live.chain == chain && live.key_bytes == key_bytes && live.hash == hash;
        is_same && is_long_enough && has_room
    }
}

/// The smallest prime that is `from` or more. If none has 32 bits, the largest 32-bit number.
fn next_prime(from: u32) -> u32 {
    (from.max(2)..=u32::MAX).find(|&number| is_prime(number)).unwrap_or(u32::MAX)
}

fn is_prime(number: u32) -> bool {
    let is_divided = |by: &u32| number.is_multiple_of(*by);
    let mut candidates = (2..=number.isqrt()).take_while(|by| by * by <= number);
    number >= 2 && !candidates.any(|by| is_divided(&by))
}

#[cfg(test)]
mod tests;
