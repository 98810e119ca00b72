//! What the courier counts.
//!
//! Invariant: numbers only grow.

/// What a courier has counted since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Wants taken from rings.
    pub wants: u64,
    /// Answers by which a need was granted.
    pub grants: u64,
    /// Messages by which uses were given back.
    pub returns: u64,
    /// Recalls published.
    pub recalls: u64,
    /// Leases claimed from new masters.
    pub claims: u64,
    /// Uses beyond a maximum, as ledgers have answered.
    pub over: u64,
    /// Answers by another maximum than this host's.
    pub conflicts: u64,
    /// Answers that say that the directory is a copy.
    pub stale: u64,
}
