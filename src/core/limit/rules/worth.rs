//! What a node is worth: which one is evicted, and what a sweep shows of one.
//!
//! Invariant: the words are a copy that is never written back.

use super::{Rule, Rules, States};
use crate::conf::Scope;
use crate::limit::leased::Spending;
use crate::limit::{Worth, policy, ring};

impl Rules {
    /// What the loss of a node of the scope would cost. Its words are rolled in place: they are a
    /// copy that is never written back.
    pub fn worth(&self, scope: Scope, words: &mut [u64], now: u64) -> Worth {
        let (key, biz): (&mut [u64], &mut [u64]) = match scope {
            Scope::Key => (words, &mut []),
            Scope::Biz => (&mut [], words),
        };
        let states = &mut States { key, biz, spending: Spending::New };
        let banned = scope == Scope::Key && self.ban_left_ms(self.ban_until(states), now) > 0;
        let node = self.node(scope);
        if let Some(ring) = node.ring {
            let logged = self.log_now(now);
            ring::roll(ring, &mut states.node_mut(scope)[node.ring_at()..], logged);
        }
        let mut worth = if banned { Worth::Banned } else { Worth::Expired };
        for rule in self.rules.iter().filter(|rule| rule.scope == scope) {
            policy::roll(&rule.policy, states.of_mut(rule), now);
            worth = worth.max(rule.worth(states.of(rule), now));
        }
        worth
    }

    /// The largest `used` of the limits of a key. The words of its node are rolled, as
    /// [`Rules::worth`] leaves them.
    pub fn used(&self, words: &[u64], now: u64) -> u64 {
        let of_keys = self.rules.iter().filter(|rule| rule.scope == Scope::Key);
        let used =
            of_keys.map(|rule| policy::figures(&rule.policy, &words[rule.state()], now).used);
        used.max().unwrap_or(0)
    }
}

impl Rule {
    /// The worth that the rolled state alone gives its node.
    fn worth(&self, state: &[u64], now: u64) -> Worth {
        let is_over = || policy::leased(&self.policy).is_some_and(|limit| limit.is_over(state));
        if policy::is_fresh(&self.policy, state) || is_over() {
            Worth::Expired
        } else if self.scope == Scope::Biz || policy::is_kept(&self.policy, state) {
            Worth::Kept
        } else if self.refuses(state, now, 1, Spending::Ask) {
            Worth::Limiting
        } else {
            Worth::Idle
        }
    }
}
