//! The worth of a node: whether it may be evicted for another one.
//!
//! Invariant: the state is rolled.

use frs_conf::Scope;

use super::{Rule, Rules, States};
use crate::{Brought, HoldState, Member, Terms};

/// The cost of losing a node. Nodes that cost less are evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Worth {
    /// Nothing: each limit would roll to fresh, and no ban runs.
    Expired,
    /// In use, but no limit of the key refuses.
    Idle,
    /// A limit of the key refuses a count of 1, or other machines do not know some uses yet.
    Limiting,
    /// A ban runs.
    Banned,
    /// A total in use, or the whole biz's node in use: the loss cannot be repaired.
    Kept,
}

/// Terms of one more use, to test whether a limit refuses it. A `distinct` limit is tested with an
/// unknown member.
pub(super) const STRANGERS: Terms<'static> = Terms {
    brought: Some(&Brought { member: Some(Member::STRANGER), ..Brought::NOTHING }),
    ..Terms::ASKING
};

impl Rule {
    /// The worth that the rolled state alone gives its node.
    pub(super) fn worth(&self, state: &[u64], now: u64) -> Worth {
        let is_over = || self.policy.shared().is_some_and(|limit| limit.is_over(state));
        let is_unreported = || self.policy.shared().is_some_and(|limit| limit.is_unreported(state));
        if self.policy.is_fresh(state) || is_over() {
            Worth::Expired
        } else if self.scope == Scope::Biz || self.policy.is_kept(state) {
            Worth::Kept
        } else if is_unreported() || self.refuses(state, now, 1, &STRANGERS) {
            Worth::Limiting
        } else {
            Worth::Idle
        }
    }
}

impl Rules {
    /// The worth that the ids and the holds give their node. Live holds would be held once more.
    pub(super) fn worth_of_tables(&self, states: &States<'_>) -> Worth {
        if self.all_holds(states).any(|hold| hold.state == HoldState::Live) {
            Worth::Limiting
        } else if self.are_tables_empty(states.key) {
            Worth::Expired
        } else {
            Worth::Idle
        }
    }
}
