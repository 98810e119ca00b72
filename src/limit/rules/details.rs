//! The figures of each limit, for items that ask for them.
//!
//! Invariant: a limit is judged when the item is, and its figures are read after the command.

use frs_conf::Mode;

use super::{Rules, States};
use crate::{Details, HistorySpan, LimitFigures};

impl Rules {
    /// Appends the judgement of each limit on the item. Must be called when the item is judged. A
    /// running ban belongs to no limit.
    pub fn details(&self, states: &States<'_>, now: u64, count: i32, details: &mut Details) {
        for (rule, index) in self.rules.iter().zip(1..) {
            let state = states.of(rule);
            let refused = u32::try_from(count)
                .ok()
                .filter(|&count| rule.refuses(state, now, count, states.terms));
            let figures = LimitFigures {
                index,
                policy: rule.name,
                figures: rule.policy.figures(state, now, states.terms),
                retry_ms: refused
                    .filter(|_| self.mode == Mode::Enforce)
                    .and_then(|count| rule.policy.retry_ms(state, now, count, states.terms)),
                limited: refused.is_some(),
                error_thousandths: rule.policy.properties().error_thousandths,
                history: HistorySpan::default(),
            };
            details.push(figures, rule.policy.totals(state));
        }
    }

    /// Reads the figures of one item's details again, after the command.
    pub fn refigure(&self, states: &States<'_>, now: u64, details: &mut [LimitFigures]) {
        for (rule, detail) in self.rules.iter().zip(details) {
            detail.figures = self.figures_of(rule, states, now);
            if detail.history.is_known() && rule.policy.is_fresh(states.of(rule)) {
                // The item returned the last known uses.
                detail.history = detail.history.forgotten();
            }
        }
    }
}
