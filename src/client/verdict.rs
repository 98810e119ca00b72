//! The answer on an item, as a program sees it.

use std::sync::Arc;

use frs_engine::ItemError;
use frs_limit as limit;
use frs_limit::{Details, LimitFigures, List};

use super::error::Error;

/// The answer on one item. A value that the server would leave out of its answer is `None` here.
///
/// Durations are in milliseconds. The figures are those of the deciding limit, after the command:
/// the first limit that refuses, or the one with the least remaining. The figures are `None` if no
/// limit judged, because a list decided, the business is off, or the server is degraded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a verdict says whether the item is limited"]
pub struct Verdict {
    verdict: limit::Verdict,
    action: Option<Arc<str>>,
    /// Boxed, because few items ask for it and every verdict is moved.
    details: Option<Box<Details>>,
}

/// The answers to a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answers {
    /// An atomic batch was refused: nothing was charged.
    pub refused: bool,
    /// One answer for each item, in order. The failure of an item does not affect its neighbours.
    pub items: Vec<Result<Verdict, ItemError>>,
}

/// The answers to a batch that does not wait.
#[derive(Debug)]
#[non_exhaustive]
pub struct TriedAnswers {
    /// An atomic batch was refused: nothing was charged.
    pub refused: bool,
    /// One answer for each item, in order. An item with [`Error::WouldWait`] has charged nothing.
    /// Any other error is an [`Error::Item`].
    pub items: Vec<Result<Verdict, Error>>,
}

/// A borrowed verdict, for libraries of other languages, because a verdict is large to move.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Told<'v> {
    /// The verdict of the layer below.
    pub verdict: &'v limit::Verdict,
    /// The word of advice.
    pub action: Option<&'v str>,
    /// The figures of each limit.
    pub limits: &'v [LimitFigures],
    /// The totals of their histories, and of others.
    pub windows: &'v [u32],
}

/// A reader of a borrowed verdict.
#[doc(hidden)]
pub trait Tell {
    /// Reads the verdict. Called once.
    fn tell(&mut self, told: Told<'_>);
}

impl<'v> Told<'v> {
    #[inline(always)]
    pub(super) fn of(
        answers: &'v frs_engine::Answers,
        answer: &frs_engine::Answer,
        verdict: &'v limit::Verdict,
    ) -> Told<'v> {
        let limits = answers.details.get(answer.details.clone()).unwrap_or_default();
        let windows = &answers.details.windows;
        Told { verdict, action: answers.action(answer), limits, windows }
    }
}

impl Verdict {
    #[inline(always)]
    pub(super) fn of(
        answers: &frs_engine::Answers,
        answer: &frs_engine::Answer,
    ) -> Result<Verdict, ItemError> {
        let verdict = answer.result?;
        if answer.action == 0 && answer.details.is_empty() {
            return Ok(Verdict { verdict, action: None, details: None });
        }
        let number = answer.action.checked_sub(1);
        let action = number.and_then(|at| answers.actions.get(at)).cloned();
        let part = answers.details.part(answer.details.clone());
        let details = (!part.is_empty()).then(|| Box::new(part));
        Ok(Verdict { verdict, action, details })
    }

    /// Whether the item is refused. A refused Update has charged nothing; a refused Query means
    /// that an Update would charge nothing. With [`Item::force`](crate::Item::force) it means that
    /// a limit is exceeded, and the item is charged all the same.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.verdict.limited
    }

    /// Whether the item passes.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        !self.verdict.limited
    }

    /// The number of the deciding limit, from 1.
    #[inline]
    pub fn limit(&self) -> Option<u16> {
        Some(self.verdict.limit).filter(|&limit| limit != 0)
    }

    /// Uses charged in the current window.
    #[inline]
    pub fn used(&self) -> Option<u64> {
        self.limit().map(|_| self.verdict.figures.used)
    }

    /// Uses that the limit admits in a window. 0 for the policy `count`, which admits all.
    #[inline]
    pub fn max(&self) -> Option<u64> {
        self.limit().map(|_| self.verdict.figures.max)
    }

    /// Uses that are left.
    #[inline]
    pub fn remaining(&self) -> Option<u64> {
        self.limit().map(|_| self.verdict.figures.remaining)
    }

    /// Milliseconds until the window turns or the limit is fresh. 0 if nothing is used, `None` if
    /// that never happens.
    #[inline]
    pub fn reset_ms(&self) -> Option<u64> {
        self.limit().and(self.verdict.figures.reset_ms)
    }

    /// Milliseconds until the same item could pass. `None` if it passes, or if waiting never helps.
    #[inline]
    pub fn retry_ms(&self) -> Option<u64> {
        self.verdict.retry_ms.filter(|_| self.is_limited())
    }

    /// Whether a ban refuses the item. This includes the Update that starts the ban.
    #[inline]
    pub fn is_banned(&self) -> bool {
        self.verdict.banned
    }

    /// The word of advice that `on-exceed` in map.xml sets, for example `captcha`.
    #[inline]
    pub fn action(&self) -> Option<&str> {
        self.action.as_deref()
    }

    /// The weight of the item in thousandths, if its business has weights in map.xml.
    #[inline]
    pub fn weight_thousandths(&self) -> Option<u32> {
        self.verdict.weight
    }

    /// The list of map.xml that decided instead of the limits.
    #[inline]
    pub fn list(&self) -> Option<List> {
        self.verdict.list
    }

    /// Whether several machines share the limit. Then its figures are the sums of all machines, as
    /// last reported to this machine.
    pub fn is_shared(&self) -> bool {
        self.verdict.shared.is_some()
    }

    /// Milliseconds since the last report of the shared figures. `None` before the first report.
    pub fn age_ms(&self) -> Option<u64> {
        self.verdict.shared.and_then(limit::Heard::age_ms)
    }

    /// Whether the business is in shadow mode and the item would otherwise be refused.
    #[inline]
    pub fn is_shadow(&self) -> bool {
        self.verdict.shadow
    }

    /// Whether the server limits nothing at the moment, and has judged nothing.
    #[inline]
    pub fn is_degraded(&self) -> bool {
        self.verdict.degraded
    }

    /// The verdict as libraries of other languages read it.
    #[doc(hidden)]
    #[inline]
    pub fn told(&self) -> Told<'_> {
        let windows = self.details.as_ref().map_or(&[][..], |details| &details.windows);
        Told { verdict: &self.verdict, action: self.action(), limits: self.limits(), windows }
    }

    /// The verdict of the layer below.
    #[doc(hidden)]
    pub fn judged(&self) -> &limit::Verdict {
        &self.verdict
    }

    /// The figures of each limit, for an item with [`Item::detail`](crate::Item::detail); else
    /// empty.
    #[inline]
    pub fn limits(&self) -> &[LimitFigures] {
        self.details.as_ref().map_or(&[], |details| &details.limits)
    }

    /// The totals of earlier windows, newest first, of the limit with this number, from 1. Needs an
    /// item with [`Item::detail`](crate::Item::detail) and a limit with `history` in map.xml. Has
    /// as many totals as are known; a window without a use counts as 0.
    pub fn history(&self, limit: u16) -> Option<&[u32]> {
        let details = self.details.as_ref()?;
        let figures = details.limits.iter().find(|figures| figures.index == limit)?;
        details.totals(figures)
    }
}
