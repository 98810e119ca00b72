//! The demand of an item on its limits: a count, and the terms that it carries.
//!
//! Invariant: no item's member has hash 0, the hash that no state holds.

use frs_base::hash;

use super::pace::Pace;

/// The demand of an item on its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand<'a> {
    /// Uses to charge; negative: uses to return.
    pub count: i32,
    /// Whether an admitted item is charged: an Update.
    pub charges: bool,
    /// The terms of the item.
    pub terms: &'a Terms,
}

/// The terms that an item carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The shared uses that the item may spend.
    pub spending: Spending,
    /// The pace of a limit that takes one from the call, in place of the configured one.
    pub pace: Option<Pace>,
    /// The member that a `distinct` limit notes.
    pub member: Option<Member>,
}

impl Terms {
    /// The terms of an item without a pace and a member of its own.
    pub const fn of(spending: Spending) -> Terms {
        Terms { spending, pace: None, member: None }
    }
}

/// The shared uses that an item may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spending {
    /// A first attempt may spend only what is not reserved for waiting requests, and nothing with
    /// `share="exact"`.
    #[default]
    New,
    /// A request that has waited may spend everything that is unspent.
    Parked,
    /// As `Parked`, or the uses that the host admits by itself while it cannot reach the cluster.
    CutOff,
    /// As `Parked`, or the uses that the host admits by itself after a wait without an answer,
    /// unless the cluster has refused them. `on-miss` admits the request then.
    Admit,
    /// Spends nothing: asks whether all machines together would admit the item, by the last answer
    /// of the cluster.
    Ask,
}

/// A member that a `distinct` limit counts: the hash of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member(pub(super) u64);

impl Member {
    /// A member that no state holds.
    pub(crate) const STRANGER: Member = Member(0);

    /// The member of a text.
    pub fn of(text: &[u8], key: [u64; 2]) -> Member {
        Member(hash::siphash_text(text, key).max(1))
    }

    /// The hash. 0 only for `STRANGER`.
    #[inline]
    pub(super) const fn hash(self) -> u64 {
        self.0
    }
}
