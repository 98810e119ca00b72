//! The demand of an item on its limits: a count, and the terms that it carries.
//!
//! Invariant: no item's member has hash 0, the hash that no state holds.

use std::fmt;
use std::num::NonZero;

use frs_base::hash;

use super::call_numbers::CallLimits;

/// The demand of an item on its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand<'a> {
    /// Uses to charge; negative: uses to return.
    pub count: i32,
    /// Whether an admitted item is charged: an Update.
    pub charges: bool,
    /// The terms of the item.
    pub terms: &'a Terms<'a>,
}

/// The terms of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms<'a> {
    /// How the item has waited for shared uses.
    pub waited: Waited,
    /// The item only asks: whether all machines together would admit it, by the last answer of the
    /// cluster. It spends nothing.
    pub asks: bool,
    /// For eviction, not for an item: limits with `per-call` use the numbers that keep a state
    /// alive longest.
    pub lasts: bool,
    /// For tools, not for an item: limits with `per-call` use the window that their state names.
    pub looks: bool,
    /// What the item brings, if it brings anything.
    pub brought: Option<&'a Brought>,
}

impl<'a> Terms<'a> {
    /// The terms of an item that has not waited and brings nothing.
    pub const NEW: Terms<'static> =
        Terms { waited: Waited::NotYet, asks: false, lasts: false, looks: false, brought: None };

    /// The same of an item that only asks.
    pub const ASKING: Terms<'static> = Terms { asks: true, ..Terms::NEW };

    /// The terms of a tool that looks at a record.
    pub const LOOKING: Terms<'static> = Terms { looks: true, ..Terms::ASKING };

    /// The terms under which a state counts longest, whatever calls bring.
    pub const LASTING: Terms<'static> = Terms { lasts: true, ..Terms::NEW };

    /// The member that a `distinct` limit notes.
    #[inline]
    pub(super) fn member(&self) -> Option<Member> {
        self.brought?.member
    }
}

/// What an item brings for its limits and for its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brought {
    /// The numbers of limits with `per-call`.
    pub limits: CallLimits,
    /// The member that a `distinct` limit notes.
    pub member: Option<Member>,
    /// The id under which it is charged once.
    pub once: Option<Id>,
    /// The hold that its count belongs to.
    pub hold: Option<HoldTerms>,
}

impl Brought {
    /// Nothing.
    pub const NOTHING: Brought =
        Brought { limits: CallLimits::NONE, member: None, once: None, hold: None };

    /// Forgets everything.
    #[inline]
    pub fn forget(&mut self) {
        self.limits.clear();
        (self.member, self.once, self.hold) = (None, None, None);
    }
}

/// The hold of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldTerms {
    /// Its id.
    pub id: Id,
    /// Its life from now on.
    pub ttl_ms: u64,
    /// The count is the true cost.
    pub settles: bool,
}

/// The id of a retry or of a hold: the hash of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id(NonZero<u64>);

impl Id {
    /// The id of a text.
    pub fn of(text: &[u8], key: [u64; 2]) -> Id {
        Id(NonZero::new(hash::siphash_short(text, key)).unwrap_or(NonZero::<u64>::MIN))
    }

    /// The id with this hash. `None` for 0, which marks a free place.
    #[inline]
    pub(super) fn of_word(word: u64) -> Option<Id> {
        NonZero::new(word).map(Id)
    }

    /// The hash, which is not 0.
    #[inline]
    pub(super) const fn word(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Id {
    /// The hash, in 16 hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
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
    /// Whether it has waited.
    pub fn has_waited(self) -> bool {
        self != Waited::NotYet
    }

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
