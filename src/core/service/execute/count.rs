//! Counting what became of items, in the slot's own lines.

use crate::limit::Verdict;
use crate::service::{Answer, Answers, Command, Request, Service};
use crate::store::{BizRow, Outcome};

impl Service {
    /// Counts answers by business and outcome: a load and a store each, in the slot's own lines.
    /// Their indices are those of the configuration in force now.
    #[inline]
    pub(super) fn count(&self, request: &Request, answers: &Answers) {
        let Some(counters) = self.handle.counters() else { return };
        let is_update = request.command == Command::Update;
        for Answer { biz, result, .. } in &answers.items {
            let entry = biz.and_then(|biz| self.table.get(biz));
            let row = entry.map_or(BizRow::UNKNOWN, |entry| entry.row);
            let outcome = match result {
                Ok(verdict) => outcome_of(verdict),
                Err(error) => {
                    counters.count_item_error(*error as usize);
                    Outcome::Error
                }
            };
            counters.count_item(row, is_update, outcome);
        }
    }
}

/// What a verdict is counted as: what decided, before what came of it.
#[inline]
fn outcome_of(verdict: &Verdict) -> Outcome {
    match verdict {
        Verdict { degraded: true, .. } => Outcome::Degraded,
        Verdict { list: Some(_), .. } => Outcome::Listed,
        Verdict { shadow: true, .. } => Outcome::Shadowed,
        Verdict { banned: true, .. } => Outcome::Banned,
        Verdict { limited: true, .. } => Outcome::Limited,
        _ => Outcome::Allowed,
    }
}
