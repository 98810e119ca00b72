//! Edits of records by hand: sets the uses of a limit, and ends a ban.
//!
//! Invariant: callers pass rolled states. The caller decides what is written.

use frs_conf::Scope;

use super::worth::STRANGERS;
use super::{Rule, Rules, States};
use crate::ring;

impl Rules {
    /// Sets the uses of one limit, by its position, in its current window. The states are rolled.
    /// Returns false if the limit cannot have this many uses; then the states are no longer valid.
    pub fn set_used(&self, states: &mut States<'_>, now: u64, position: usize, used: u32) -> bool {
        let Some(rule) = self.rules.get(position) else { return false };
        let shown = |states: &States<'_>| self.figures_of(rule, states, now).used;
        let differing = i128::from(used) - i128::from(shown(states));
        let count = differing.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        self.charge_one(rule, states, now, count);
        // Uses left over from earlier windows cannot be given back one by one.
        if shown(states) != u64::from(used) && rule.policy.clear(states.of_mut(rule)) {
            let terms = states.terms;
            rule.policy.roll(states.of_mut(rule), now, terms);
            self.charge_one(rule, states, now, used.min(i32::MAX as u32) as i32);
        }
        shown(states) == u64::from(used)
    }

    /// Ends the key's ban if no limit refuses one more use any longer.
    pub fn forgive(&self, states: &mut States<'_>, now: u64) {
        let may_come = |rule: &Rule| {
            rule.policy.shared().is_some_and(|limit| limit.may_come(states.of(rule), 1))
        };
        let refuses =
            |rule: &Rule| rule.refuses(states.of(rule), now, 1, &STRANGERS) && !may_come(rule);
        if !self.rules.iter().any(refuses) {
            self.set_ban_word(states, 0);
        }
    }

    /// The uses of each limit of the scope, by its index from 1.
    pub fn used_by_limit(
        &self,
        states: &States<'_>,
        scope: Scope,
        now: u64,
    ) -> impl Iterator<Item = (u16, u64)> {
        let own = self.rules.iter().zip(1..).filter(move |(rule, _)| rule.scope == scope);
        own.map(move |(rule, index)| (index, self.figures_of(rule, states, now).used))
    }

    fn charge_one(&self, rule: &Rule, states: &mut States<'_>, now: u64, count: i32) {
        let terms = states.terms;
        rule.policy.charge(states.of_mut(rule), now, count, terms);
        let node = self.node(rule.scope);
        if let Some(ring) = node.ring.filter(|_| rule.policy.properties().is_logged) {
            let logged = self.log_now(now);
            ring::charge(ring, &mut states.node_mut(rule.scope)[node.ring_at()..], logged, count);
        }
    }
}
