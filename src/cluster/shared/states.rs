//! The leases of a biz: made from its settings, read from its states and stored there.
//!
//! Invariant: a lease changes only through the limit that gives its words their meaning.

use std::sync::Arc;

use frs_conf::{Biz, Limit, Scope, Sharing};
use frs_limit::{BootClock, Log, Rules, SharedPolicies, SharedPolicy, States};

use super::{LeaseClock, Shared};
use crate::lease::{Holding, Settings};

/// Makes the limits of all businesses that spend leases by one clock.
#[derive(Debug, Clone, Default)]
pub struct LeasedLimits(pub Arc<LeaseClock>);

impl SharedPolicies for LeasedLimits {
    fn clock(&self) -> &Arc<BootClock> {
        &self.0.boot
    }

    fn policy(&self, biz: &Biz, limit: &Limit, log: Log) -> Option<Box<dyn SharedPolicy>> {
        let advises = limit.advice.is_some();
        let leased = Shared::new(&limit.policy, advises, biz.sharing?, log, &self.0)?;
        Some(Box::new(leased))
    }
}

/// One shared limit of a biz, and the host's holding of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasedLimit {
    /// Its number in its biz, from 1.
    pub number: u32,
    /// The scope of its uses: the key or the whole biz.
    pub scope: Scope,
    /// Its settings; the windows of a calendar follow the clock of the ledger.
    pub settings: Settings,
    /// How machines share it.
    pub sharing: Sharing,
    /// The digest of its policy in the name of its ledger.
    pub shape: u16,
    /// It needs no lease: its uses are only reported.
    pub refuses_nothing: bool,
    /// The reset epoch of its biz here.
    pub epoch: u64,
    /// The host's holding.
    pub holding: Holding,
}

/// The leases in the rolled states of a biz with this reset epoch.
pub fn leases(
    rules: &Rules,
    states: &States<'_>,
    epoch: u64,
    ledger_now_ms: u64,
) -> Vec<LeasedLimit> {
    let leased = rules.shared().filter_map(|rule| {
        let limit = Shared::behind(rule.policy)?;
        Some(LeasedLimit {
            number: rule.position as u32 + 1,
            scope: rule.scope,
            settings: limit.settings_at(ledger_now_ms),
            sharing: limit.sharing,
            shape: rule.digest(),
            refuses_nothing: limit.refuses_nothing(),
            epoch,
            holding: limit.holding(rule.of(states)),
        })
    });
    leased.collect()
}

/// Stores the host's new holding of a limit; `was` is the one before.
pub fn set_lease(
    rules: &Rules,
    states: &mut States<'_>,
    position: usize,
    [was, holding]: [&Holding; 2],
) {
    let Some(rule) = rules.shared().find(|rule| rule.position == position) else { return };
    let Some(limit) = Shared::behind(rule.policy) else { return };
    let state = rule.of_mut(states);
    // Other limits may share the log, and may have uses in it that are unknown to this one.
    if holding.used < was.used {
        limit.shorten_log(state, holding.used);
    }
    limit.store(state, holding);
}

/// Whether the words of a node of the scope hold a lease.
pub fn has_lease(rules: &Rules, scope: Scope, words: &[u64]) -> bool {
    let mut of_scope = rules.shared().filter(|rule| rule.scope == scope);
    of_scope
        .any(|rule| words.get(rule.state.clone()).is_some_and(|state| !rule.policy.is_fresh(state)))
}
