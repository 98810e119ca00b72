//! The answer on an item, as a program sees it.

use std::sync::Arc;

use frs_engine::ItemError;
use frs_engine::answer::{Judged, JudgedLimit};
use frs_limit::{Details, LimitFigures};

use super::error::Error;

/// The answer on one item. A value that the server would leave out of its answer is `None` here.
///
/// Durations are in milliseconds. The figures are those of the deciding limit, after the command:
/// the first limit that refuses, or the one with the least remaining. The figures are `None` if no
/// limit judged, because a list decided, the business is off, or the server is degraded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a verdict says whether the item is limited"]
pub struct Verdict {
    verdict: frs_engine::Verdict,
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

/// A reader of a verdict that stays where it is, because a verdict is large to move. For libraries
/// of other languages.
pub trait Tell {
    /// Reads the fields of an answer, and each limit if the item asked for detail. Called once.
    fn tell<'a>(
        &mut self,
        judged: &Judged<'_>,
        limits: impl ExactSizeIterator<Item = JudgedLimit<'a>>,
    );
}

/// The accessors of the fields of an answer.
macro_rules! accessors {
    ($(
        $(#[$doc:meta])*
        $field:ident $name:literal $get:ident -> $type:ty: $kind:ident, |$it:ident| $value:expr;
    )*) => {
        $(
            $(#[$doc])*
            #[inline]
            pub fn $get(&self) -> $type {
                let $it = self.judged();
                $value
            }
        )*
    };
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

    frs_engine::answer_fields!(accessors);

    /// Whether the item passes.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        !self.verdict.limited
    }

    /// The source of the fields, for code that walks over them: see
    /// [`Field`](crate::fields::Field).
    #[inline(always)]
    pub fn judged(&self) -> Judged<'_> {
        Judged::of(&self.verdict, self.action.as_deref())
    }

    /// The source of the fields of each limit, for an item with
    /// [`Item::detail`](crate::Item::detail): see [`LimitField`](crate::fields::LimitField).
    pub fn judged_limits(&self) -> impl ExactSizeIterator<Item = JudgedLimit<'_>> {
        let details = self.details.as_deref();
        let totals = move |limit| details.and_then(|details| details.totals(limit));
        self.limits().iter().map(move |limit| JudgedLimit { limit, totals: totals(limit) })
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
        self.judged_limits().find(|judged| judged.limit.index == limit)?.totals
    }
}
