//! What hosts publish to each other about a ledger.
//!
//! Invariant: news may be lost, come twice or late. None of it changes what a host may spend: it
//! only makes a host ask, or give back, sooner.

use frs_limit::lease::Incarnation;

use super::nodes::LedgerId;

/// One publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News<K> {
    /// The ledger.
    pub ledger: LedgerId,
    /// A biz and key with that ledger, as all hosts store it: a host that has lost its node makes
    /// it again.
    pub key: K,
    /// What there is to say.
    pub kind: NewsKind,
}

/// What there is to say of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewsKind {
    /// These hosts are to give back what they have not spent.
    Recall {
        /// The window's start by the ledger's clock.
        window: u64,
        /// The hosts.
        holders: Vec<Incarnation>,
    },
    /// There are uses to be had again.
    Again,
}
