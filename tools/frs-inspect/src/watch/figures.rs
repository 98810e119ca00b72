//! The figures that `watch` shows: the result of one look, and the changes since the previous look.
//!
//! Plain values, so that the screen can be drawn from any figures.

use frs_engine::inspect::RefusedNode;
use frs_store::Rank;

use super::health::ServerHealth;
use crate::counters::ItemCounts;

/// The result of one look.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchFigures {
    pub now_ms: u64,
    pub generation: u64,
    /// The time since the previous look. `None` on the first look: nothing has a rate yet.
    pub seconds: Option<f64>,
    pub health: ServerHealth,
    pub requests: CounterGrowth,
    /// Items of all businesses since the previous look.
    pub items: ItemCounts,
    pub groups: Vec<GroupLine>,
    pub bizs: Vec<BizLine>,
    pub counted: Vec<CounterLine>,
    /// The most refused keys of all businesses in the last minute.
    pub refused: Vec<RefusedNode>,
}

/// A sum, and its growth since the previous look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterGrowth {
    pub all: u64,
    pub more: u64,
}

impl CounterGrowth {
    pub fn since(earlier: u64, all: u64) -> CounterGrowth {
        CounterGrowth { all, more: all.saturating_sub(earlier) }
    }
}

/// A counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterLine {
    pub name: &'static str,
    pub growth: CounterGrowth,
}

/// The occupancy of a group, and its evictions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupLine {
    pub name: String,
    pub live: u64,
    pub limiting: u64,
    pub expired: u64,
    pub places: u64,
    /// Evictions of nodes that limited their key.
    pub evicted_limiting: CounterGrowth,
    /// Whether nodes move into the group from other files. They count in its figures.
    pub is_moving: bool,
}

/// A business.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BizLine {
    pub name: String,
    /// Items since the previous look.
    pub items: ItemCounts,
    /// Number of keys with a node, and of those that are limited now.
    pub keys: u64,
    pub limited: u64,
    /// Uses since the previous look.
    pub uses: u64,
    pub hottest: Vec<HotLine>,
}

/// One of the most used keys.
#[derive(Debug, Clone, PartialEq)]
pub struct HotLine {
    pub key: String,
    pub used: u64,
    /// Uses since the previous look.
    pub more: u64,
    /// Whether the key was requested since the previous look, even if it was refused.
    pub is_fresh: bool,
    pub rank: Rank,
    pub last_use_ms: u64,
}
