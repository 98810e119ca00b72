//! What hosts publish to each other about a ledger.
//!
//! Invariant: news may be lost, late or doubled. It never changes what a host may spend. It only
//! makes a host ask, or return uses, sooner.

use super::nodes::LedgerId;
use crate::lease::Incarnation;

/// One publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News<K> {
    /// The ledger.
    pub ledger: LedgerId,
    /// A biz and key with this ledger, as all hosts store them. A host that has lost its node makes
    /// it again from them.
    pub key: K,
    /// The content.
    pub kind: NewsKind,
}

/// The content of a publication about a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewsKind {
    /// These hosts are to return their unspent uses.
    Recall {
        /// The window's start by the ledger's clock.
        window: u64,
        /// The hosts.
        holders: Vec<Incarnation>,
    },
    /// The ledger has uses again.
    Again,
}
