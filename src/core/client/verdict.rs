//! What a program is answered on an item.

use std::sync::Arc;

use crate::limit;
use crate::limit::{LimitFigures, List};
use crate::service;
use crate::service::ItemError;

/// The answer on one item. What is absent in an answer of the server is `None` here.
///
/// Durations are milliseconds. Figures are those of the limit that decides, after the command: the
/// first limit that refuses, or the one with the least remaining. No limit judges where a list
/// decides, the business is off, or the server is degraded; then the figures are `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a verdict says whether the item is limited"]
pub struct Verdict {
    verdict: limit::Verdict,
    action: Option<Arc<str>>,
    /// Boxed, for few items ask for it: a verdict is copied more often.
    limits: Option<Box<[LimitFigures]>>,
}

impl Verdict {
    #[inline]
    pub(super) fn of(
        answers: &service::Answers,
        answer: &service::Answer,
    ) -> Result<Verdict, ItemError> {
        let verdict = answer.result?;
        if answer.action == 0 && answer.details.is_empty() {
            return Ok(Verdict { verdict, action: None, limits: None });
        }
        let number = answer.action.checked_sub(1);
        let action = number.and_then(|at| answers.actions.get(at)).cloned();
        let limits = answers.details.get(answer.details.clone()).map(Box::from);
        Ok(Verdict { verdict, action, limits })
    }

    /// The item is refused: an Update has not charged it, one after a Query would not. With
    /// [`Item::force`](crate::Item::force): a limit is exceeded, and the item is charged.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.verdict.limited
    }

    /// The item is not refused.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        !self.verdict.limited
    }

    /// Number of the limit that decides, from 1.
    pub fn limit(&self) -> Option<u16> {
        Some(self.verdict.limit).filter(|&limit| limit != 0)
    }

    /// Uses charged in the current window.
    pub fn used(&self) -> Option<u64> {
        self.limit().map(|_| self.verdict.figures.used)
    }

    /// Uses that the limit admits in a window; 0 for the policy `count`, which admits all.
    pub fn max(&self) -> Option<u64> {
        self.limit().map(|_| self.verdict.figures.max)
    }

    /// Uses that are left.
    pub fn remaining(&self) -> Option<u64> {
        self.limit().map(|_| self.verdict.figures.remaining)
    }

    /// Milliseconds until the window turns, or the limit is fresh; 0 if nothing is used, `None` if
    /// that never comes.
    pub fn reset_ms(&self) -> Option<u64> {
        self.limit().and(self.verdict.figures.reset_ms)
    }

    /// Milliseconds until the same item could pass; `None` if it passes, or if waiting never helps.
    pub fn retry_ms(&self) -> Option<u64> {
        self.verdict.retry_ms.filter(|_| self.is_limited())
    }

    /// A ban refuses, from the Update that starts it.
    pub fn is_banned(&self) -> bool {
        self.verdict.banned
    }

    /// The word of advice of `on-exceed` in map.xml: `captcha`, say.
    pub fn action(&self) -> Option<&str> {
        self.action.as_deref()
    }

    /// The weight of the item in thousandths, where map.xml weighs its business.
    pub fn weight_thousandths(&self) -> Option<u32> {
        self.verdict.weight
    }

    /// The list of map.xml that decides in place of the limits.
    pub fn list(&self) -> Option<List> {
        self.verdict.list
    }

    /// The business is in shadow mode: the item would be refused otherwise.
    pub fn is_shadow(&self) -> bool {
        self.verdict.shadow
    }

    /// The server limits nothing at the moment, and has judged nothing.
    pub fn is_degraded(&self) -> bool {
        self.verdict.degraded
    }

    /// What each limit says, of an item with [`Item::detail`](crate::Item::detail); else empty.
    pub fn limits(&self) -> &[LimitFigures] {
        self.limits.as_deref().unwrap_or_default()
    }
}
