//! Geometry that map.xml leaves to frs: `keys` instead of `files` and `key-nodes`, and a
//! `node-size` that is left out.
//!
//! Invariant: the text of map.xml alone determines what is derived. Neither the processors nor the
//! memory of a machine do, so every reader derives the same numbers.
//!
//! - `key-nodes × files` are twice as many nodes as keys: a group is planned for half load.
//! - A file is 1 GiB at most, as far as 61 files allow it: large groups are flushed, checked and
//!   restored file by file, and small ones are one file.
//! - `key-nodes` and `files` are prime, and `files` neither 2 nor 5. Integer keys are placed by
//!   modulo. Where all keys are multiples of 10 or of 4096, as the ids of many systems are, numbers
//!   that share a factor with them would leave most key-nodes empty and fill the others.
//! - `node-size` is what the largest business of the group needs, rounded up to 64.
//!
//! Files that exist stay if they are roomy enough and not much roomier: see [`Group::keeps_files`].

use crate::schema::{Geometry, Group, NODE_HEADER_BYTES, Room, Written};

/// A node is a multiple of this.
const NODE_STEP: u32 = 64;
/// Nodes for each key: half load.
const NODES_A_KEY: u64 = 2;
/// The size of a file from which a group has several.
const FILE_BYTES: u64 = 1 << 30;
/// The numbers of files to choose from.
const FILES: [u32; 17] = [1, 3, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61];

/// Files stay while their nodes are at most this many times as long as those derived.
const LONGER: u32 = 2;
/// Files stay while they have at most as many nodes as this share of those derived.
const ROOMIER: Share = Share { of: 5, in_parts: 4 };

struct Share {
    of: u64,
    in_parts: u64,
}

impl Written {
    /// The same numbers, all of them written.
    #[cfg(any(test, feature = "testing"))]
    pub const fn of(geometry: &Geometry) -> Written {
        let Geometry { files, key_nodes, chain, node_bytes, key_bytes, hash } = *geometry;
        let room = Room::Files { files, key_nodes };
        Written { room, chain, node_bytes: Some(node_bytes), key_bytes, hash }
    }

    /// Whether frs derives any of the numbers.
    pub const fn is_derived(&self) -> bool {
        matches!(self.room, Room::Keys(_)) || self.node_bytes.is_none()
    }

    /// The geometry, where the largest business needs nodes of this many bytes.
    pub(super) fn geometry(&self, needed_bytes: u32) -> Geometry {
        let Written { room, chain, node_bytes, key_bytes, hash } = *self;
        let least = needed_bytes.max(NODE_HEADER_BYTES + key_bytes);
        let node_bytes = node_bytes.unwrap_or_else(|| least.next_multiple_of(NODE_STEP));
        let (files, key_nodes) = match room {
            Room::Files { files, key_nodes } => (files, key_nodes),
            Room::Keys(keys) => {
                let key_nodes = (keys * NODES_A_KEY).div_ceil(chain.into());
                let bytes = key_nodes * (64 + u64::from(chain) * u64::from(node_bytes));
                let wanted = bytes.div_ceil(FILE_BYTES);
                let enough = FILES.into_iter().find(|&files| u64::from(files) >= wanted);
                let files = enough.unwrap_or(FILES[FILES.len() - 1]);
                // Within 32 bits, by MAX_KEYS: a test shows it.
                (files, next_prime(key_nodes.div_ceil(files.into()) as u32))
            }
        };
        Geometry { files, key_nodes, chain, node_bytes, key_bytes, hash }
    }
}

impl Group {
    /// Whether files of this geometry stay as they are under this configuration. They do if it is
    /// what the configuration says, or if it differs in derived numbers only, has what is needed,
    /// and is not much larger: nodes up to twice as long as those derived, and up to a quarter more
    /// of them. So to remove a business moves nothing if its nodes were somewhat longer, and a
    /// group whose `files` and `key-nodes` become `keys` of the same room stays where it is. Who
    /// asks for more keys, or for many fewer, gets other files.
    pub fn keeps_files(&self, live: &Geometry) -> bool {
        let Written { room, chain, node_bytes, key_bytes, hash } = self.written;
        let derived = &self.derived;
        let is_long_enough = match node_bytes {
            Some(written) => live.node_bytes == written,
            None => {
                let most = derived.node_bytes.saturating_mul(LONGER);
                (derived.node_bytes..=most).contains(&live.node_bytes)
            }
        };
        let has_room = match room {
            Room::Files { files, key_nodes } => live.files == files && live.key_nodes == key_nodes,
            Room::Keys(keys) => {
                let most = derived.nodes() / ROOMIER.in_parts * ROOMIER.of;
                *live == *derived || (keys * NODES_A_KEY..=most).contains(&live.nodes())
            }
        };
        let is_same = live.chain == chain && live.key_bytes == key_bytes && live.hash == hash;
        is_same && is_long_enough && has_room
    }
}

/// The smallest prime from `from` on, if it has 32 bits.
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
