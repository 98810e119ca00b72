//! The common cases: the key has one limit and nothing else, or one limit and tables.
//!
//! Invariant: the results equal those of judging, charging and answering step by step.

use frs_conf::{Interval, Mode, Scope};

use super::tables::HoldChange;
use super::{Rule, Rules, States};
use crate::any_policy::{LimitReport, pass_window, refused_window};
use crate::{Brought, Demand, Mark, Noted, Verdict};

/// Whether a key has one limit and nothing else: no ban, no ring, no weights.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lone {
    No,
    /// One `interval`. It is copied here because most items need nothing besides.
    Interval(Interval),
    /// One limit of another policy.
    Other,
    /// One limit that no machine shares, with ids or holds.
    WithTables,
}

/// The verdict of a lone limit on an item that passes.
#[inline(always)]
fn verdict_of(LimitReport { figures, window_ms, level_ns }: LimitReport) -> Verdict {
    Verdict { limit: 1, figures, window_ms, level_ns, ..Verdict::UNJUDGED }
}

impl Rule {
    /// The limit of a lone `interval`: it has the first words of its node.
    pub(super) fn interval(&self) -> Option<Interval> {
        debug_assert!(self.policy.as_interval().is_none() || self.state() == (0..2));
        self.policy.as_interval().copied()
    }
}

impl Rules {
    /// The only limit, if there is nothing else: no ban, no ring, no weights.
    #[inline(always)]
    pub(super) fn lone_rule(&self) -> Option<&Rule> {
        if matches!(self.lone, Lone::Interval(_) | Lone::Other) { self.rules.first() } else { None }
    }

    /// Handles the most common item: it passes, and the key has one `interval` and nothing else.
    /// Does the same as [`Rules::roll`], [`Rules::judge`], [`Rules::charge`] if the demand charges,
    /// and [`Rules::verdict`]. `None` if there is more to do; then it has only rolled.
    #[inline(always)]
    pub fn pass(&self, words: &mut [u64], now: u64, demand: Demand<'_>) -> Option<Verdict> {
        let Lone::Interval(limit) = &self.lone else { return None };
        let state: &mut [u64; 2] = words.first_chunk_mut()?;
        pass_window(limit, state, now, demand).map(verdict_of)
    }

    /// The same for a key with one limit of another policy, or with tables. Limits that machines
    /// share use [`Rules::pass_shared`].
    #[inline(never)]
    pub fn pass_apart(&self, words: &mut [u64], now: u64, demand: Demand<'_>) -> Option<Verdict> {
        match self.lone {
            Lone::WithTables => self.pass_with_tables(words, now, demand),
            _ => {
                let rule = self.lone_rule()?;
                rule.policy.pass(&mut words[rule.state()], now, demand).map(verdict_of)
            }
        }
    }

    /// Whether [`Rules::pass_apart`] is for these limits.
    #[inline]
    pub fn are_apart(&self) -> bool {
        matches!(self.lone, Lone::Other | Lone::WithTables)
    }

    /// The same for a key with one limit and tables: the item passes or settles its hold, and its
    /// id is new.
    fn pass_with_tables(&self, words: &mut [u64], now: u64, demand: Demand<'_>) -> Option<Verdict> {
        let (rule, tables) = self.rules.first().zip(self.tables.as_deref())?;
        let Demand { count, charges, terms } = demand;
        let Brought { once, hold, .. } = *terms.brought.unwrap_or(&Brought::NOTHING);
        let id = once.filter(|_| charges);
        if !tables.are_rolled(words, now) || id.is_some_and(|id| tables.knows(words, id, now)) {
            return None;
        }
        let change = match hold {
            Some(hold) if charges => tables.change_of(words, hold, count, now)?,
            Some(_) => return None,
            None => HoldChange::Nothing,
        };
        let state = &mut words[rule.state()];
        let report = if let HoldChange::Settle { was, .. } = change {
            rule.policy.roll(state, now, terms);
            rule.settle(state, now, (was, count), terms);
            rule.policy.report(state, now, terms)
        } else {
            rule.policy.pass(state, now, demand)?
        };
        if let Some(id) = id {
            tables.note(words, id, now);
        }
        let noted = match change {
            HoldChange::Nothing => Noted::NOTHING,
            HoldChange::Make { .. } => Noted::NOTHING.with(Mark::Made, true),
            HoldChange::Settle { .. } => Noted::NOTHING.with(Mark::Ended, true),
        };
        let noted = noted.holding(tables.apply(words, change));
        Some(Verdict { noted, ..verdict_of(report) })
    }

    /// The verdict on an item that [`Rules::pass`] has only rolled, if the one limit refuses it and
    /// nothing else applies. It equals that of [`Rules::judge`] and [`Rules::verdict`]. `None` if
    /// there is more to do. Not for limits that machines share, whose uses may still come.
    #[inline(always)]
    pub fn refuse(&self, words: &[u64], now: u64, demand: Demand<'_>) -> Option<Verdict> {
        let rule = self.lone_rule().filter(|rule| !rule.advises)?;
        let count = u32::try_from(demand.count).ok().filter(|_| self.mode == Mode::Enforce)?;
        let (report, retry_ms) = match &self.lone {
            Lone::Interval(limit) => refused_window(limit, words.first_chunk::<2>()?, now, count),
            _ => rule.policy.refused(&words[rule.state()], now, count, demand.terms),
        };
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
