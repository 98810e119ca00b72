//! The identities of shared limits, in nodes and in the cluster.
//!
//! Invariant: limits that are equal here have nodes of the same shapes, and ledgers of the same
//! names.

use super::scope::Scope;

/// The limits of a shared business, as far as its nodes and the names of its ledgers identify them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedLimits {
    /// The shapes of its nodes: that of a key's node, and that of the whole business.
    pub shapes: [u16; 2],
    /// Its limits in order. Their numbers begin with 1.
    pub limits: Vec<SharedLimit>,
}

/// A shared limit, without its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedLimit {
    /// Whose uses it counts.
    pub scope: Scope,
    /// The digest of its policy in the name of its ledger.
    pub digest: u16,
}

impl SharedLimits {
    /// The numbers and digests of the limits in a node of the scope, in their order there.
    pub fn of_node(&self, scope: Scope) -> impl Iterator<Item = (usize, u16)> {
        let numbered = (1..).zip(&self.limits);
        numbered
            .filter_map(move |(nth, limit)| (limit.scope == scope).then_some((nth, limit.digest)))
    }
}
