//! The limits of a biz that machines share.
//!
//! Invariant: a limit of this machine alone lets nothing wait.

use std::ops::Range;

use frs_conf::Scope;

use super::former::digest_of;
use super::{Rule, Rules, States};
use crate::shared_policy::{Passed, SharedPolicy};
use crate::{Demand, Verdict};

/// One shared limit of a biz.
#[derive(Debug, Clone)]
pub struct SharedRule<'a> {
    /// Position of the limit.
    pub position: usize,
    /// The scope of its uses: the key or the whole biz.
    pub scope: Scope,
    /// Its state, among the words of a node of the scope.
    pub state: Range<usize>,
    /// The limit itself.
    pub policy: &'a dyn SharedPolicy,
}

impl SharedRule<'_> {
    /// The digest by which all machines name it, with its number.
    pub fn digest(&self) -> u16 {
        digest_of(self.scope, self.policy)
    }

    /// Its state.
    pub fn of<'s>(&self, states: &'s States<'_>) -> &'s [u64] {
        &states.node(self.scope)[self.state.clone()]
    }

    /// The same, to be changed.
    pub fn of_mut<'s>(&self, states: &'s mut States<'_>) -> &'s mut [u64] {
        &mut states.node_mut(self.scope)[self.state.clone()]
    }
}

impl Rules {
    /// Whether machines share these limits.
    pub fn are_shared(&self) -> bool {
        self.clock.is_some()
    }

    /// Whether one of these limits is shared and refuses.
    pub fn any_shared_refuses(&self) -> bool {
        self.rules.iter().any(|rule| rule.policy.shared().is_some_and(SharedPolicy::refuses))
    }

    /// The shared limits, in their order.
    pub fn shared(&self) -> impl Iterator<Item = SharedRule<'_>> {
        self.rules.iter().enumerate().filter_map(|(position, rule)| {
            let policy = rule.policy.shared()?;
            Some(SharedRule { position, scope: rule.scope, state: rule.state(), policy })
        })
    }

    /// Whether a refused item lacks only shared uses that may still come, and all else admits it.
    #[cold]
    pub fn may_wait(&self, states: &States<'_>, now: u64, count: i32) -> bool {
        let Ok(count) = u32::try_from(count) else { return false };
        let admits = |rule: &Rule| !rule.refuses(states.of(rule), now, count, states.terms);
        let may_come = |rule: &Rule| {
            rule.policy.shared().is_some_and(|limit| limit.may_come(states.of(rule), count))
        };
        self.ban_left_ms(self.ban_until(states), now) == 0
            && self.rules.iter().all(|rule| admits(rule) || may_come(rule))
    }

    /// Whether all limits can take back the uses of a negative `count`. If not, the cluster must be
    /// asked first.
    #[cold]
    pub fn takes_back(&self, states: &States<'_>, count: i32) -> bool {
        self.rules.iter().all(|rule| match rule.policy.shared() {
            Some(limit) => limit.takes_back(states.of(rule), count),
            None => true,
        })
    }

    /// As [`Rules::pass`], for limits that machines share. It stands apart, so that local limits do
    /// not carry its code.
    #[inline]
    pub fn pass_shared(&self, words: &mut [u64], now: u64, demand: Demand<'_>) -> Option<Verdict> {
        let rule = self.lone_rule()?;
        let limit = rule.policy.shared()?;
        let Passed { figures, window_ms, answer_age } =
            limit.pass(&mut words[rule.state()], now, demand)?;
        Some(Verdict {
            limit: 1,
            figures,
            window_ms,
            shared: Some(answer_age),
            ..Verdict::UNJUDGED
        })
    }
}
