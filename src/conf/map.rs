//! map.xml: what is limited.
//!
//! The checked types, and what follows from their numbers alone. Every biz fits into the nodes of
//! its group.

use super::index::BizIndex;

/// Bytes of a node before its key field.
pub const NODE_HEADER_BYTES: u32 = 24;

/// Bytes that hold the end of a ban, in a key's node of a biz of which any limit bans.
pub const BAN_BYTES: u32 = 8;

/// Words that one transaction can log.
pub const UNDO_WORDS: u64 = 65_536;

/// Files of all groups together.
pub const MAX_FILES: u32 = 4096;

/// map.xml, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// File groups, at least one.
    pub groups: Vec<Group>,
    /// Businesses, in the order of the file.
    pub bizs: Vec<Biz>,
    index: BizIndex,
}

impl Map {
    /// A map of these groups and businesses, which must have been checked.
    pub fn new(groups: Vec<Group>, bizs: Vec<Biz>) -> Map {
        let index = BizIndex::new(&bizs);
        Map { groups, bizs, index }
    }

    /// Index of the biz that a client names: by its id in decimal digits, or by its name.
    /// Allocates nothing.
    pub fn find_biz(&self, text: &str) -> Option<usize> {
        self.index.find(text)
    }

    /// Words that one item of a transaction logs at most: those of the largest key's node and,
    /// where a biz has limits of scope biz, of that node too; and a word of tags for each.
    pub fn item_undo_words(&self) -> u64 {
        let words = self.bizs.iter().map(|biz| {
            let geometry = self.groups.get(biz.group).map(|group| &group.geometry);
            geometry.map_or(0, |geometry| biz.undo_words(geometry))
        });
        words.max().unwrap_or(0)
    }
}

/// An MMAP file group as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// `[a-z0-9-]{1,32}`, unique.
    pub name: String,
    /// What its files are laid out by; fixed for the life of the files.
    pub geometry: Geometry,
    /// What an Update does when a chain is full.
    pub on_full: OnFull,
}

/// Geometry of a group: every number that the place of a node depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Files, from 1.
    pub files: u32,
    /// Key-nodes of one file, from 1.
    pub key_nodes: u32,
    /// Nodes of one key-node, 1..=56.
    pub chain: u32,
    /// Bytes of a node, a multiple of 64, 64..=32768.
    pub node_bytes: u32,
    /// Bytes of a node's key field, a multiple of 8, 8..=256.
    pub key_bytes: u32,
    /// How string, ip and digest keys are hashed.
    pub hash: HashKind,
}

impl Geometry {
    /// Bytes of one file: a header page, then key-nodes of a 64-byte head and `chain` nodes.
    pub const fn file_bytes(&self) -> u64 {
        4096 + self.key_nodes as u64 * (64 + self.chain as u64 * self.node_bytes as u64)
    }

    /// Bytes of all files.
    pub const fn group_bytes(&self) -> u64 {
        self.files as u64 * self.file_bytes()
    }

    /// Nodes of all files.
    pub const fn nodes(&self) -> u64 {
        self.files as u64 * self.key_nodes as u64 * self.chain as u64
    }
}

/// Key hashing of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashKind {
    /// Bob Jenkins' lookup3, seeded.
    Bob,
    /// SipHash, seeded: for keys an attacker chooses.
    Siphash,
}

/// What happens to a new key when its chain is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// The least useful node makes room.
    Evict,
    /// Only expired nodes make room; else the item answers `full`.
    Refuse,
}

/// A business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Biz {
    /// 1..=4294967295, unique; what the files store.
    pub id: u32,
    /// `[A-Za-z0-9._-]{1,64}`, unique, not digits only.
    pub name: String,
    /// Index into [`Map::groups`].
    pub group: usize,
    /// Type of its keys.
    pub key: KeyType,
    /// Its limits, at least one; limit N of the protocol is `limits[N - 1]`.
    pub limits: Vec<Limit>,
}

impl Biz {
    /// Does any of its limits ban? Then each key's node holds the end of its ban.
    pub fn bans(&self) -> bool {
        self.limits.iter().any(|limit| limit.ban_ms.is_some())
    }

    /// Its limits of a scope, with their indices.
    pub fn limits_of(&self, scope: Scope) -> impl Iterator<Item = (usize, &Limit)> {
        self.limits.iter().enumerate().filter(move |(_, limit)| limit.scope == scope)
    }

    /// Bytes of a node that holds its state of a scope: header, key field, the states of its
    /// limits of that scope, and in a key's node the end of a ban.
    pub fn node_bytes(&self, scope: Scope, key_bytes: u32) -> u32 {
        let states: u32 = self.limits_of(scope).map(|(_, limit)| limit.state_bytes()).sum();
        let ban = if scope == Scope::Key && self.bans() { BAN_BYTES } else { 0 };
        NODE_HEADER_BYTES + key_bytes + states + ban
    }

    /// Words that one item of it logs at most.
    pub(super) fn undo_words(&self, geometry: &Geometry) -> u64 {
        let nodes = 1 + u64::from(self.limits_of(Scope::Biz).next().is_some());
        nodes * (u64::from(geometry.node_bytes) / 8 + 1)
    }
}

/// Key types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// Any UTF-8 of 1..=1024 bytes; longer than the key field: stored as a digest.
    String,
    /// A u64; index by modulo.
    Integer,
    /// An address; v6 is cut to this many leading bits.
    Ip {
        /// 1..=128.
        ipv6_prefix: u8,
    },
    /// Always the keyed 128-bit digest.
    Digest,
}

/// One `<limit>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Whose uses are counted.
    pub scope: Scope,
    /// How.
    pub policy: Policy,
    /// A refusal bans the key for this long.
    pub ban_ms: Option<u64>,
}

impl Limit {
    /// Bytes of its state in a node.
    pub const fn state_bytes(&self) -> u32 {
        self.policy.state_words() as u32 * 8
    }
}

/// Whose uses a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Each key's own.
    Key,
    /// Those of the whole biz, in a node of its own.
    Biz,
}

/// How a limit counts; what each computes stands in the limit layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// A window that opens at the first use.
    Interval(Interval),
    /// Never resets.
    Total(Total),
}

impl Policy {
    /// 64-bit words of state in a node.
    pub const fn state_words(&self) -> usize {
        match self {
            Policy::Interval(_) => 2,
            Policy::Total(_) => 1,
        }
    }

    /// The policy's name in map.xml and in answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Policy::Interval(_) => "interval",
            Policy::Total(_) => "total",
        }
    }
}

/// Settings of `interval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Length of the window, from 1.
    pub interval_ms: u64,
    /// Uses in a window, 0..2^53.
    pub max: u64,
    /// Uses that may be borrowed from later windows, 0..2^53; above 0 only with a max of 1 or more.
    pub debt: u64,
}

/// Settings of `total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// Uses ever, 0..2^53.
    pub max: u64,
}
