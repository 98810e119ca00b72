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
    /// How the item has waited for shared uses.
    pub waited: Waited,
    /// The item only asks: whether all machines together would admit it, by the last answer of the
    /// cluster. It spends nothing.
    pub asks: bool,
    /// The pace of a limit that takes one from the call, in place of the configured one.
    pub pace: Option<Pace>,
    /// The member that a `distinct` limit notes.
    pub member: Option<Member>,
}

impl Terms {
    /// The terms of an item that has not waited, without a pace and a member of its own.
    pub const NEW: Terms = Terms { waited: Waited::NotYet, asks: false, pace: None, member: None };

    /// The same of an item that only asks.
    pub const ASKING: Terms = Terms { asks: true, ..Terms::NEW };
}

/// How an item has waited for shared uses, or for a record that the cluster may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waited {
    /// It has not waited yet.
    #[default]
    NotYet,
    /// The cluster has answered.
    Answered,
    /// It has waited, and nothing has answered: it waited for a record, or must ask again.
    Unanswered,
    /// It has waited as long as it may.
    TooLong,
    /// The cluster cannot be reached.
    CutOff,
}

impl Waited {
    /// Whether it waits no longer.
    pub fn is_over(self) -> bool {
        matches!(self, Waited::TooLong | Waited::CutOff)
    }
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
