//! What the courier counts.
//!
//! Invariant: numbers only grow.

/// What a courier has counted since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Needs taken from rings.
    pub needs: u64,
    /// Answers that granted a need.
    pub grants: u64,
    /// Messages that returned uses.
    pub returns: u64,
    /// Recalls published.
    pub recalls: u64,
    /// Leases claimed from new masters.
    pub claims: u64,
    /// Answers that reported uses beyond a maximum.
    pub over: u64,
    /// Answers under another maximum than this host's.
    pub conflicts: u64,
    /// Answers that show the directory to be a copy.
    pub stale: u64,
}
