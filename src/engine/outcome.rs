//! The outcome of an item: its counter and its word.
//!
//! Invariant: the number of an outcome is its position in the store's counters, and never changes.

use frs_limit::Verdict;
use frs_store::counter::OUTCOMES;

/// The outcome of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Allowed = 0,
    /// A limit refused it, or would have.
    Limited = 1,
    /// A ban refused it, or would have.
    Banned = 2,
    /// It passed, but enforced limits would refuse it.
    Shadowed = 3,
    /// It passed, because nothing is limited at the moment.
    Degraded = 4,
    /// A list decided.
    Listed = 5,
    /// It failed.
    Error = 6,
}

impl Outcome {
    /// The outcome of a verdict. The part that decided takes precedence over the result.
    #[inline]
    pub fn of(verdict: &Verdict) -> Outcome {
        match verdict {
            Verdict { degraded: true, .. } => Outcome::Degraded,
            Verdict { list: Some(_), .. } => Outcome::Listed,
            Verdict { shadow: true, .. } => Outcome::Shadowed,
            Verdict { banned: true, .. } => Outcome::Banned,
            Verdict { limited: true, .. } => Outcome::Limited,
            _ => Outcome::Allowed,
        }
    }

    /// All outcomes, in the order of their numbers.
    pub const ALL: [Outcome; OUTCOMES] = [
        Outcome::Allowed,
        Outcome::Limited,
        Outcome::Banned,
        Outcome::Shadowed,
        Outcome::Degraded,
        Outcome::Listed,
        Outcome::Error,
    ];

    /// Whether an Update with this outcome was refused.
    #[inline]
    pub const fn is_refusal(self) -> bool {
        matches!(self, Outcome::Limited | Outcome::Banned)
    }

    /// The outcome's word.
    pub const fn word(self) -> &'static str {
        match self {
            Outcome::Allowed => "allowed",
            Outcome::Limited => "limited",
            Outcome::Banned => "banned",
            Outcome::Shadowed => "shadowed",
            Outcome::Degraded => "degraded",
            Outcome::Listed => "listed",
            Outcome::Error => "error",
        }
    }
}
