//! The members that items carry, for `distinct` limits.
//!
//! Invariant: the limits of an item get a member of 1 to 1024 bytes and a count that they all take,
//! or the item is answered `bad-member` or `bad-count`.

use frs_conf::key::DigestKey;
use frs_conf::{self as conf, DistinctCounting};
use frs_limit::Member;

/// The longest member.
pub(crate) const MAX_MEMBER_BYTES: usize = frs_conf::key::MAX_KEY_BYTES;

/// How the limits of a business note members.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Members {
    /// A limit is a sketch.
    sketches: bool,
    /// A limit keeps a set.
    keeps_sets: bool,
    /// The key of the hashes of members. All machines that may see a record use the same key.
    key: DigestKey,
}

impl Members {
    /// None: no limit of the business notes members.
    pub fn of(biz: &conf::Biz, key: DigestKey) -> Option<Members> {
        let any = |is: fn(DistinctCounting) -> bool| {
            biz.limits.iter().any(|limit| limit.policy.counting().is_some_and(is))
        };
        let sketches = any(|counting| matches!(counting, DistinctCounting::Sketch { .. }));
        let keeps_sets = any(|counting| matches!(counting, DistinctCounting::Exact { .. }));
        (sketches || keeps_sets).then_some(Members { sketches, keeps_sets, key })
    }

    /// Whether the limits take this count. A sketch can neither remove a member nor take a forced
    /// one. A set takes one member, or removes one.
    pub fn takes(&self, count: i32, forces: bool) -> bool {
        (!self.sketches || count >= 0 && !forces) && (!self.keeps_sets || matches!(count, 1 | -1))
    }

    /// The member of a text. None: the text is no member.
    pub fn member(&self, text: &str) -> Option<Member> {
        let fits = (1..=MAX_MEMBER_BYTES).contains(&text.len());
        fits.then(|| Member::of(text.as_bytes(), self.key.0))
    }
}
