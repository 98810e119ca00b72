//! The geometry of a group, and its description in map.xml.
//!
//! Invariant: a geometry holds every number that determines the place of a node, and no other.

/// The most keys of a group. Every geometry derived for that many keys is within its bounds.
pub(crate) const MAX_KEYS: u64 = 10_000_000_000;

/// The most bytes of a node's key field.
pub const MAX_KEY_BYTES: u32 = 256;

/// Geometry of a group: every number that determines the place of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Files, at least 1.
    pub files: u32,
    /// Key-nodes of one file, at least 1.
    pub key_nodes: u32,
    /// Nodes of one key-node, 1..=56.
    pub chain: u32,
    /// Bytes of a node, a multiple of 64, 64..=32768.
    pub node_bytes: u32,
    /// Bytes of a node's key field, a multiple of 8, 8..=[`MAX_KEY_BYTES`].
    pub key_bytes: u32,
    /// How string, ip and digest keys are hashed.
    pub hash: HashKind,
}

/// A setting of a group whose value in the files differs from the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherSetting {
    /// Its name in map.xml.
    pub field: &'static str,
    /// The value in the files.
    pub found: String,
    /// The value in the configuration.
    pub expected: String,
}

impl Geometry {
    /// The settings that differ from the expected geometry.
    pub fn differences(&self, expected: &Geometry) -> impl Iterator<Item = OtherSetting> + use<> {
        let pairs = self.settings().into_iter().zip(expected.settings());
        pairs
            .filter(|(found, expected)| found != expected)
            .map(|((field, found), (_, expected))| OtherSetting { field, found, expected })
    }

    /// The settings of map.xml that make up the geometry, with their values.
    fn settings(&self) -> [(&'static str, String); 6] {
        [
            ("files", self.files.to_string()),
            ("key-nodes", self.key_nodes.to_string()),
            ("chain", self.chain.to_string()),
            ("node-size", self.node_bytes.to_string()),
            ("key-bytes", self.key_bytes.to_string()),
            ("hash", format!("{:?}", self.hash).to_lowercase()),
        ]
    }

    /// Bytes of one file: a header page, then key-nodes of a 64-byte head and `chain` nodes.
    pub const fn file_bytes(&self) -> u64 {
        4096 + self.key_nodes as u64 * (64 + self.chain as u64 * self.node_bytes as u64)
    }

    /// Bytes of all files.
    pub const fn group_bytes(&self) -> u64 {
        self.files as u64 * self.file_bytes()
    }

    /// Bytes of a checkpoint of one file: the bytes of the file, and from the next page on a
    /// checksum for each key-node.
    pub const fn checkpoint_file_bytes(&self) -> u64 {
        self.file_bytes().next_multiple_of(4096) + self.key_nodes as u64 * 8
    }

    /// Bytes of the two checkpoints of all files.
    pub const fn checkpoint_bytes(&self) -> u64 {
        2 * self.files as u64 * self.checkpoint_file_bytes()
    }

    /// Nodes of all files.
    pub const fn nodes(&self) -> u64 {
        self.files as u64 * self.key_nodes as u64 * self.chain as u64
    }
}

/// The hash function for keys of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashKind {
    /// Bob Jenkins' lookup3, seeded.
    Bob,
    /// SipHash, seeded: for keys that an attacker chooses.
    Siphash,
}

/// The geometry of a group, as map.xml states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeometrySettings {
    /// The number of nodes.
    pub room: NodeCount,
    /// Nodes of one key-node.
    pub chain: u32,
    /// Bytes of a node. `None` for the bytes that the group's businesses need.
    pub node_bytes: Option<u32>,
    /// Bytes of a node's key field.
    pub key_bytes: u32,
    /// How string, ip and digest keys are hashed.
    pub hash: HashKind,
}

/// How map.xml states the number of nodes of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeCount {
    /// By files and key-nodes.
    Files {
        /// Files.
        files: u32,
        /// Key-nodes of one file.
        key_nodes: u32,
    },
    /// By keys, 1..=10^10.
    Keys(u64),
}
