//! The figures that `watch` shows: what one look found, and what changed since the look before.
//!
//! Plain values, so that the screen can be drawn from any figures.

use frs_engine::inspect::RefusedNode;
use frs_store::Rank;

use super::health::Health;
use crate::counters::Items;

/// What one look found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    pub now_ms: u64,
    pub generation: u64,
    /// The time since the look before. None: there is none, so nothing has a rate yet.
    pub seconds: Option<f64>,
    pub health: Health,
    pub requests: Growth,
    /// Items of all businesses since the look before.
    pub items: Items,
    pub groups: Vec<GroupLine>,
    pub bizs: Vec<BizLine>,
    pub counted: Vec<Count>,
    /// The keys that were refused most in the last minute, of all businesses.
    pub refused: Vec<RefusedNode>,
}

/// A sum, and by how much it grew since the look before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Growth {
    pub all: u64,
    pub more: u64,
}

impl Growth {
    pub fn since(earlier: u64, all: u64) -> Growth {
        Growth { all, more: all.saturating_sub(earlier) }
    }
}

/// A counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub name: &'static str,
    pub growth: Growth,
}

/// How full a group is, and what it had to forget.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupLine {
    pub name: String,
    pub live: u64,
    pub limiting: u64,
    pub expired: u64,
    pub places: u64,
    /// Evictions of nodes that limited their key.
    pub evicted_limiting: Growth,
    /// Nodes move there from other files, and count.
    pub is_moving: bool,
}

/// A business.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BizLine {
    pub name: String,
    /// Items since the look before.
    pub items: Items,
    /// Keys with a node, and how many of them are limited now.
    pub keys: u64,
    pub limited: u64,
    /// Uses since the look before.
    pub uses: u64,
    pub hottest: Vec<Hot>,
}

/// One of the most used keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Hot {
    pub key: String,
    pub used: u64,
    /// Uses since the look before.
    pub more: u64,
    /// Requested since the look before, even if refused.
    pub is_fresh: bool,
    pub rank: Rank,
    pub last_use_ms: u64,
}
