//! map.xml: what is limited.

/// map.xml, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// File groups, at least one.
    pub groups: Vec<Group>,
    /// Businesses, in the order of the file.
    pub bizs: Vec<Biz>,
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
    /// Uses that may be borrowed from later windows, 0..2^53; above 0 only with a max of at least 1.
    pub debt: u64,
}

/// Settings of `total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// Uses ever, 0..2^53.
    pub max: u64,
}
