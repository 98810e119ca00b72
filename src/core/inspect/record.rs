//! One node as people read it: business, key, last use, what each limit says now.

use crate::conf::Scope;
use crate::key::KeyForm;
use crate::limit::LimitFigures;
use crate::store::Rank;

/// Where a node stands in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePlace {
    /// File of the group.
    pub file: u32,
    /// Key-node of the file.
    pub key_node: u32,
    /// Place in the chain, from 0.
    pub place: usize,
}

/// A node, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its group.
    pub group: String,
    /// Where it stands.
    pub place: NodePlace,
    /// Id of its business.
    pub biz_id: u32,
    /// Name of its business; none: map.xml does not name it in this group.
    pub biz: Option<String>,
    /// Of a key, or of the whole business.
    pub scope: Scope,
    /// The key; `digest:` and 32 hex digits where the key itself is not kept, `*` for the whole
    /// business.
    pub key: String,
    /// How the key is stored.
    #[doc(hidden)]
    pub form: KeyForm,
    /// Milliseconds since the epoch.
    pub last_use_ms: u64,
    /// What would be lost with it now.
    #[doc(hidden)]
    pub rank: Rank,
    /// When the ban ends that runs now; milliseconds since the epoch.
    pub banned_until_ms: Option<u64>,
    /// Its limits were others when it was written: it starts fresh at its next use.
    pub outdated: bool,
    /// What each limit of its scope says now, of a count of 1.
    pub limits: Vec<LimitFigures>,
    /// Its words as stored.
    #[doc(hidden)]
    pub words: Vec<u64>,
    /// First state word.
    #[doc(hidden)]
    pub states_at: usize,
}

impl NodeRecord {
    /// The largest of what its limits have as used.
    pub fn used(&self) -> u64 {
        self.limits.iter().map(|limit| limit.figures.used).max().unwrap_or(0)
    }

    /// Would it be missed by nobody.
    pub fn is_expired(&self) -> bool {
        self.rank == Rank::Expired
    }

    /// Does it limit its key now.
    pub fn is_limiting(&self) -> bool {
        self.banned_until_ms.is_some() || self.limits.iter().any(|limit| limit.limited)
    }
}
