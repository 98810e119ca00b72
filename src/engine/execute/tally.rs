//! Counts the outcomes of items, in the slot's own lines.

use frs_base::clock::Millis;
use frs_limit::{Mark, Verdict, Waited};
use frs_store::counter::Timed;
use frs_store::{BizRow, ClientRow, Counter};

use crate::{Answer, Answers, Command, Outcome, Request, Service};

/// Counts waits that ended like this.
pub(super) fn wait_counter(waited: Waited) -> Counter {
    match waited {
        Waited::NotYet | Waited::Answered | Waited::Unanswered => Counter::WaitsAnswered,
        Waited::TooLong => Counter::WaitsMissed,
        Waited::CutOff => Counter::WaitsUnreachable,
    }
}

impl Service {
    /// Counts an item, or an atomic request, that has waited.
    pub(super) fn count_wait(&self, counter: Counter) {
        if let Some(counters) = self.handle.counters() {
            counters.count(counter);
        }
    }

    /// Counts answers by business and outcome: a load and a store each, in the slot's own lines.
    /// The answers hold indices of the configuration in force now.
    #[inline]
    pub(super) fn count(
        &mut self,
        request: &Request,
        answers: &Answers,
        now: Millis,
        lane: Option<usize>,
    ) {
        let Some(counters) = self.handle.counters() else { return };
        let is_update = request.command == Command::Update;
        let (mut row, mut is_refused) = (self.last_row, false);
        for Answer { biz, result, .. } in &answers.items {
            let entry = biz.and_then(|biz| self.table.get(biz));
            row = entry.map_or(BizRow::UNKNOWN, |entry| entry.row);
            let outcome = match result {
                Ok(verdict) => Outcome::of(verdict),
                Err(error) => {
                    counters.count_item_error(*error as usize);
                    Outcome::Error
                }
            };
            is_refused |= outcome.is_refusal();
            counters.count_item(row, is_update, outcome as usize);
            if let Some(client) = request.client_row {
                counters.count_client_item(client, outcome as usize);
                if is_update && outcome.is_refusal() {
                    counters.count_client_refusal(client);
                }
            }
        }
        self.last_row = row;
        if is_update && self.table.has_holds() {
            self.count_holds(answers);
        }
        if is_update && is_refused {
            self.count_refusals(request, answers, now, lane);
        }
    }

    /// Counts the transaction of registers that was counted last for the client that asked.
    pub fn count_client_registers(&self, client: ClientRow) {
        if let Some(counters) = self.handle.counters() {
            counters.count_client_item(client, self.last_outcome as usize);
        }
    }

    /// The name of the client that this row counts.
    pub fn client_name(&self, client: ClientRow) -> Option<String> {
        self.handle.counters()?.name_of_client(client)
    }

    /// Counts what Updates have changed of holds.
    #[cold]
    #[inline(never)]
    fn count_holds(&self, answers: &Answers) {
        let Some(counters) = self.handle.counters() else { return };
        for Answer { result, .. } in &answers.items {
            let Ok(Verdict { noted, .. }) = result else { continue };
            if !noted.has_any() {
                continue;
            }
            for (counter, count) in [
                (Counter::HoldsMade, noted.has(Mark::Made).into()),
                (Counter::HoldsEnded, noted.has(Mark::Ended).into()),
                (Counter::HoldsLapsed, noted.lapsed().into()),
            ] {
                if count > 0 {
                    counters.add(counter, count);
                }
            }
        }
    }

    /// Counts the duration of requests for the business of the last item.
    #[inline]
    pub fn count_time(&self, us: u64, requests: u64) {
        if let Some(counters) = self.handle.counters() {
            counters.add_time(Timed::Request, us, requests);
            counters.add_biz_time(self.last_row, us, requests);
        }
    }
}
