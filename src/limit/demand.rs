//! What an item asks of its limits: a count, and what it brings along.
//!
//! Invariant: no item's member is the one that no state holds.

use frs_base::hash;

use super::pace::Pace;

/// What an item asks of its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand<'a> {
    /// Uses; negative: uses given back.
    pub count: i32,
    /// Whether an admitted item is charged: an Update.
    pub charges: bool,
    /// What it brings along.
    pub terms: &'a Terms,
}

/// What an item brings along to its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// What it may spend of leases.
    pub spending: Spending,
    /// The pace of a limit that takes one from the call, in place of the configured one.
    pub pace: Option<Pace>,
    /// The member that a `distinct` limit notes.
    pub member: Option<Member>,
}

impl Terms {
    /// The configured limits.
    pub const fn of(spending: Spending) -> Terms {
        Terms { spending, pace: None, member: None }
    }
}

/// What an item may spend of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spending {
    /// A first attempt: only uses that are not reserved for waiting requests, and none where every
    /// use asks the ledger.
    #[default]
    New,
    /// A request that has waited: all unspent uses.
    Parked,
    /// The same while the host cannot reach the cluster: also what the host then allows itself.
    CutOff,
    /// A request that has waited in vain, of a biz that then admits it: anything that the ledger
    /// has not refused.
    Admit,
    /// A Query: whether all machines together would admit it, as last reported.
    Ask,
}

/// A member of what a `distinct` limit counts, by the hash of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member(pub(super) u64);

impl Member {
    /// One that no state holds.
    pub(crate) const STRANGER: Member = Member(0);

    /// The member of a text.
    pub fn of(text: &[u8], key: [u64; 2]) -> Member {
        Member(hash::siphash_text(text, key).max(1))
    }

    /// Never 0, except for a stranger's.
    #[inline]
    pub(super) const fn hash(self) -> u64 {
        self.0
    }
}
