//! The leases in the nodes of a biz, for the courier, which binds them and applies answers.

use frs_conf::Scope;

use super::former::ledger_digest;
use super::{Rule, Rules, States};
use crate::lease::{Holding, Settings};
use crate::leased::{Leased, Passed};
use crate::policy::Policy;
use crate::{Demand, Verdict};

/// One shared limit of a biz, and the host's holding of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasedState {
    /// Position of the limit.
    pub position: usize,
    /// The scope of its uses: the key or the whole biz.
    pub scope: Scope,
    /// Its settings; the windows of a calendar follow the clock of the ledger.
    pub settings: Settings,
    /// The digest of its policy in the name of its ledger.
    pub shape: u16,
    /// The limit needs no lease: its uses are only reported.
    pub refuses_nothing: bool,
    /// The host's holding.
    pub holding: Holding,
}

impl Rules {
    /// Whether machines share these limits.
    pub fn are_shared(&self) -> bool {
        self.clock.is_some()
    }

    /// Whether one of these limits needs a lease: it is shared and refuses.
    pub fn need_leases(&self) -> bool {
        let needs = |limit: &Leased| !limit.refuses_nothing();
        self.rules.iter().any(|rule| rule.policy.leased().is_some_and(needs))
    }

    /// The leases in rolled states.
    pub fn leases(&self, states: &States<'_>, ledger_now_ms: u64) -> Vec<LeasedState> {
        let leased = |(position, rule): (usize, &Rule)| {
            let limit = rule.policy.leased()?;
            Some(LeasedState {
                position,
                scope: rule.scope,
                settings: limit.settings_at(ledger_now_ms),
                shape: ledger_digest(rule.scope, limit),
                refuses_nothing: limit.refuses_nothing(),
                holding: limit.holding(states.of(rule)),
            })
        };
        self.rules.iter().enumerate().filter_map(leased).collect()
    }

    /// Stores the host's new holding of a limit; `was` is the one before.
    pub fn set_lease(
        &self,
        states: &mut States<'_>,
        position: usize,
        [was, holding]: [&Holding; 2],
    ) {
        let Some(rule) = self.rules.get(position) else { return };
        if let Some(limit) = rule.policy.leased() {
            let state = states.of_mut(rule);
            // Other limits may share the log, and may have uses in it that are unknown to this one.
            if holding.used < was.used {
                limit.shorten_log(state, holding.used);
            }
            limit.store(state, holding);
        }
    }

    /// Whether the words of a node of the scope hold a lease.
    pub fn has_lease(&self, scope: Scope, words: &[u64]) -> bool {
        let of_scope = self.rules.iter().filter(|rule| rule.scope == scope);
        let holds = |rule: &super::Rule| {
            let leased = rule.policy.leased();
            leased.zip(words.get(rule.state())).is_some_and(|(limit, state)| !limit.is_fresh(state))
        };
        of_scope.into_iter().any(holds)
    }

    /// Whether a refused item lacks only uses of leases that the ledger may grant, and all else
    /// admits it.
    #[cold]
    pub fn may_wait(&self, states: &States<'_>, now: u64, count: i32) -> bool {
        let Ok(count) = u32::try_from(count) else { return false };
        let admits = |rule: &Rule| !rule.refuses(states.of(rule), now, count, states.terms);
        let may_come = |rule: &Rule| {
            rule.policy.leased().is_some_and(|limit| limit.may_come(states.of(rule), count))
        };
        self.ban_left_ms(self.ban_until(states), now) == 0
            && self.rules.iter().all(|rule| admits(rule) || may_come(rule))
    }

    /// Whether all limits can take back the uses of a negative `count`. If not, the ledgers of the
    /// limits that cannot must be asked first.
    #[cold]
    pub fn takes_back(&self, states: &States<'_>, count: i32) -> bool {
        self.rules.iter().all(|rule| match rule.policy.leased() {
            Some(limit) => limit.takes_back(states.of(rule), count),
            None => true,
        })
    }

    /// As [`Rules::pass`], for limits that machines share. It stands apart, so that local limits do
    /// not carry its code.
    #[inline(always)]
    pub fn pass_shared(
        &self,
        words: &mut [u64],
        now: u64,
        demand: Demand<'_>,
        tell: impl FnOnce(Verdict),
    ) -> bool {
        let Some(rule) = self.lone_rule() else { return false };
        let Some(limit) = rule.policy.leased() else { return false };
        let Some(passed) = limit.pass(&mut words[rule.state()], now, demand) else { return false };
        let Passed { figures, window_ms, heard } = passed;
        tell(Verdict { limit: 1, figures, window_ms, shared: Some(heard), ..Verdict::UNJUDGED });
        true
    }
}
