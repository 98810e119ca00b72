//! The common case: the key has one limit and nothing else.
//!
//! Invariant: the results equal those of judging, charging and answering step by step.

use frs_conf::{Mode, Scope};

use super::{Rule, Rules, States};
use crate::any_policy::LimitReport;
use crate::{Demand, Verdict};

impl Rules {
    /// The only limit, if there is nothing else: no ban, no ring, no weights.
    #[inline(always)]
    pub(super) fn lone_rule(&self) -> Option<&Rule> {
        self.rules.first().filter(|_| self.lone)
    }

    /// Handles the most common item: it passes, and the key has one limit and nothing else. Does
    /// the same as [`Rules::roll`], [`Rules::judge`], [`Rules::charge`] if the demand charges, and
    /// [`Rules::verdict`], and reports the verdict. Returns false if there is more to do; then it
    /// has only rolled. Limits that machines share use [`Rules::pass_shared`].
    #[inline(always)]
    pub fn pass(
        &self,
        words: &mut [u64],
        now: u64,
        demand: Demand<'_>,
        tell: impl FnOnce(Verdict),
    ) -> bool {
        let Some(rule) = self.lone_rule() else { return false };
        let state = &mut words[rule.state()];
        rule.policy.pass(state, now, demand, |LimitReport { figures, window_ms, level_ns }| {
            tell(Verdict { limit: 1, figures, window_ms, level_ns, ..Verdict::UNJUDGED });
        })
    }

    /// The verdict on an item that [`Rules::pass`] has only rolled, if the one limit refuses it and
    /// nothing else applies. It equals that of [`Rules::judge`] and [`Rules::verdict`]. `None` if
    /// there is more to do. Not for limits that machines share, whose uses may still come.
    #[inline]
    pub fn refuse(&self, words: &[u64], now: u64, demand: Demand<'_>) -> Option<Verdict> {
        let rule = self.lone_rule().filter(|rule| !rule.advises)?;
        let count = u32::try_from(demand.count).ok().filter(|_| self.mode == Mode::Enforce)?;
        let state = &words[rule.state()];
        let (report, retry_ms) = rule.policy.refused(state, now, count, demand.terms);
        let LimitReport { figures, window_ms, level_ns } = report;
        let limited = Verdict { limited: true, limit: 1, ..Verdict::UNJUDGED };
        let verdict = Verdict { figures, retry_ms, window_ms, level_ns, ..limited };
        debug_assert_eq!(verdict, self.judged(words, now, demand));
        Some(verdict)
    }

    /// The verdict of [`Rules::refuse`], step by step.
    fn judged(&self, words: &[u64], now: u64, demand: Demand<'_>) -> Verdict {
        let key = &mut words.to_vec()[..self.words(Scope::Key)];
        let states = States { key, biz: &mut [], terms: demand.terms };
        self.verdict(&states, now, &self.judge(&states, now, demand.count))
    }
}
