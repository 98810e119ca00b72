//! Runs a request against the store: each item in its own transaction, or all items in one.

mod atomic;
mod judge_call;
mod one;
mod refusals;
mod reports;
mod resolved;
mod steps;
mod tally;
mod waiting;

use frs_base::clock::Millis;
use frs_conf::Mode;
use frs_store::layout::slot::INTENTS_MAX;
use frs_store::{Lead, Moment, NodeOwner, Refused, Wanted};

use super::{Answer, Answers, Exchange, Item, ItemError, RETRIES, Request, Service, Stage};
use atomic::{AtomicBuffers, AtomicTransaction};
use one::{ItemTransaction, Judged, Lack, log_too_large};
use resolved::{EarlyAnswer, LastBiz, Resolved};
use waiting::{Attempt, Lacking};

pub(super) use refusals::Refusals;
pub use refusals::{RefusalSample, RefusedItem, Refuser};
pub(super) use reports::Reports;
pub(super) use waiting::Waits;

/// Buffers of a service, reused.
#[derive(Debug, Default)]
pub(super) struct RequestBuffers {
    resolved: Vec<Resolved>,
    /// The last biz name: most requests repeat it.
    last_biz: LastBiz,
    wanted: Vec<Wanted>,
    atomic: AtomicBuffers,
}

/// An item of a request, and where its resolved form is.
#[derive(Clone, Copy)]
struct ItemAt<'r> {
    request: &'r Request,
    item: &'r Item,
    at: usize,
}

impl RequestBuffers {
    #[inline]
    fn make_room(&mut self, items: usize) {
        if self.resolved.len() < items {
            self.resolved.resize_with(items, Resolved::default);
        }
    }
}

impl Service {
    /// Runs a request: one transaction for each item, or one for all of them if it is atomic. There
    /// is an answer for each item, in order.
    ///
    /// Nothing waits: the biz's `on-miss` answers an item that lacks shared uses, and an item whose
    /// record may have been moved to the cluster is `busy`.
    pub fn run(&mut self, request: &Request, now: Millis, answers: &mut Answers) {
        let generation = self.generation;
        self.set_now(now);
        self.run_uncounted(request, now, &Attempt::ONLY, answers);
        if self.generation != generation {
            self.name_again(request, answers);
        }
        self.count(request, answers, now, None);
    }

    fn run_uncounted(
        &mut self,
        request: &Request,
        now: Millis,
        attempt: &Attempt<'_>,
        answers: &mut Answers,
    ) {
        answers.clear();
        if request.atomic {
            self.run_atomic(request, now, attempt, answers);
        } else {
            self.run_each(request, now, attempt, answers);
        }
    }

    /// Gives the answers the indices of the configuration that is now in force.
    #[cold]
    fn name_again(&self, request: &Request, answers: &mut Answers) {
        for (item, answer) in request.items().iter().zip(&mut answers.items) {
            answer.biz = self.conf.map.find_biz(request.biz(item));
        }
    }

    /// Runs several requests, in order, each as [`Service::run`] does. If each has one item and
    /// none is atomic, the memory of several is fetched together.
    ///
    /// An exchange with an item that lacks shared uses or its record is [`Stage::Waiting`]
    /// afterwards, and the exchanges behind it in its lane are [`Stage::Behind`]. Run it again when
    /// [`Service::may_go_on`] returns true, or when its `wait_ms` are over.
    pub fn run_all(&mut self, exchanges: &mut [Exchange], now: Millis) {
        let generation = self.generation;
        self.begin_waits();
        self.set_now(now);
        let is_simple =
            |exchange: &Exchange| exchange.request.is_single() && exchange.stage == Stage::Answered;
        if exchanges.len() > 1 && exchanges.iter().all(is_simple) {
            self.run_singles(exchanges, now);
        } else {
            for at in 0..exchanges.len() {
                if self.is_behind_one(exchanges, at) {
                    // A waiting exchange keeps its place and its needs.
                    if exchanges[at].stage != Stage::Waiting {
                        exchanges[at].stage = Stage::Behind;
                    }
                    continue;
                }
                let exchange = &mut exchanges[at];
                match exchange.stage {
                    Stage::Waiting => self.go_on(exchange, now),
                    _ => {
                        let Exchange { request, answers, .. } = exchange;
                        self.run_uncounted(request, now, &Attempt::FIRST, answers);
                    }
                }
                self.end_exchange(exchange);
            }
        }
        for Exchange { request, answers, stage, has_waited, lane, .. } in exchanges {
            if *stage != Stage::Answered {
                continue;
            }
            if std::mem::take(has_waited) || self.generation != generation {
                self.name_again(request, answers);
            }
            self.count(request, answers, now, Some(*lane));
        }
    }

    /// Answers a resolved item.
    #[inline]
    fn run_one(
        &mut self,
        item: ItemAt<'_>,
        now: Millis,
        attempt: &Attempt<'_>,
        answers: &mut Answers,
    ) {
        if let Err(refused) = self.run_short::<false>(&item, now, answers) {
            self.run_whole(item, refused, now, attempt, answers);
        }
        self.report_uses(item.request, item.at..item.at + 1);
    }

    /// Answers an item on the only node that it needs, if that node is here. With `IS_NEW`, answers
    /// it on a new node, if a charge creates the node at once.
    ///
    /// # Errors
    /// The item needs a whole transaction. The error has the reason why this one did not begin, if
    /// there is one.
    #[inline(always)]
    fn run_short<const IS_NEW: bool>(
        &mut self,
        &ItemAt { request, item, at }: &ItemAt<'_>,
        now: Millis,
        answers: &mut Answers,
    ) -> Result<(), Option<Refused>> {
        let resolved = &self.scratch.resolved[at];
        let (None, Some(key_at), None) = (resolved.settled, &resolved.key_at, &resolved.whole_at)
        else {
            return Err(None);
        };
        if resolved.generation != self.generation || self.asks_first(request.command, at) {
            return Err(None);
        }
        let (answered, from) = (answers.items.len(), answers.details.len());
        let one = ItemTransaction::of(&self.table, resolved, request, item, now);
        if IS_NEW && !one.makes_node(request.command) || one.may_ask_first() {
            return Err(None);
        }
        let lead = Lead { wanted: key_at, guess: resolved.guess };
        let owner = NodeOwner { biz_id: one.entry.id, key: &resolved.key.key() };
        let moment = Moment { generation: self.generation, now_ms: now };
        let work = |words: &mut [u64]| one.run_found(request.command, words, answers);
        let done = if IS_NEW {
            self.handle.with_new(key_at, owner, moment, work)
        } else {
            self.handle.with_found(lead, owner, moment, work)
        };
        let refused = match done {
            Ok(Some(true)) => return Ok(()),
            Ok(_) => None,
            Err(refused) => Some(refused),
        };
        answers.items.truncate(answered);
        answers.details.truncate(from);
        Err(refused)
    }

    /// Answers an item with whole transactions. `refused` is the reason why a shorter one did not
    /// begin.
    #[inline(never)]
    fn run_whole(
        &mut self,
        own: ItemAt<'_>,
        mut refused: Option<Refused>,
        now: Millis,
        attempt: &Attempt<'_>,
        answers: &mut Answers,
    ) {
        if refused.is_none() {
            match self.run_short::<true>(&own, now, answers) {
                Ok(()) => return,
                Err(reason) => refused = reason,
            }
        }
        let ItemAt { request, item, at } = own;
        let mut error = ItemError::Busy;
        for _ in 0..RETRIES {
            if self.scratch.resolved[at].generation != self.generation {
                self.fetch_head(request, item, at, attempt.waited);
            }
            if self.scratch.resolved[at].settled.is_some() {
                return self.answer_settled(item, at, answers);
            }
            if self.asks_first(request.command, at) {
                return self.wait_alone(own, Lack::Figures, attempt, answers);
            }
            let tried = match refused.take() {
                Some(reason) => Err(reason),
                None => self.try_one(request, item, at, now, answers),
            };
            match tried {
                Ok(Ok(None)) => return,
                Ok(Ok(Some(lack))) => {
                    return self.wait_alone(own, lack, attempt, answers);
                }
                Err(Refused::Newer) if self.take_newer() => self.set_now(now),
                Err(Refused::Newer | Refused::Unavailable) => {
                    error = ItemError::Store;
                    break;
                }
                Err(Refused::Busy) => break,
                Ok(Err(failed)) => {
                    error = failed;
                    break;
                }
            }
        }
        self.scratch.resolved[at].settled = Some(EarlyAnswer::Failed(error));
        self.answer_settled(item, at, answers);
    }

    #[cold]
    fn answer_settled(&mut self, item: &Item, at: usize, answers: &mut Answers) {
        let Resolved { biz, settled, .. } = self.scratch.resolved[at];
        // After several reloads the index may belong to an older table.
        let entry = biz.and_then(|biz| self.table.get(biz));
        let mode = entry.map_or(Mode::Enforce, |entry| entry.mode);
        let mut result = settled.unwrap_or(EarlyAnswer::Off).result(mode);
        if let (Ok(verdict), true) = (&mut result, self.scratch.resolved[at].is_partial) {
            let granted = if verdict.limited { 0 } else { item.count.unwrap_or(0) };
            verdict.noted = verdict.noted.granting(granted.unsigned_abs());
        }
        answers.items.push(Answer { biz, result, details: 0..0, action: 0 });
    }

    /// Appends the answer for an item, unless the item fails or lacks something.
    fn try_one(
        &mut self,
        request: &Request,
        item: &Item,
        at: usize,
        now: Millis,
        answers: &mut Answers,
    ) -> Result<Result<Option<Lack>, ItemError>, Refused> {
        let resolved = &self.scratch.resolved[at];
        let one = ItemTransaction::of(&self.table, resolved, request, item, now);
        let mut wanted = resolved.wanted().copied();
        // One or two key-nodes: a biz needs at least one node. Twice as many if its group grows.
        let first = wanted.next().ok_or(Refused::Unavailable)?;
        let mut all = [first; 4];
        let mut count = 1;
        for wanted in wanted {
            all[count] = wanted;
            count += 1;
        }
        let wanted = &all[..count];
        let from = answers.details.len();
        let transaction = self.handle.begin(&mut self.buffers, wanted, self.generation)?;
        match one.run(request.command, transaction, &mut answers.details) {
            Ok(Judged::Verdict(verdict)) => {
                one.answer(verdict, from, answers);
                Ok(Ok(None))
            }
            Ok(Judged::Wait(lack)) => {
                answers.details.truncate(from);
                Ok(Ok(Some(lack)))
            }
            Err(failed) => {
                answers.details.truncate(from);
                Ok(Err(failed))
            }
        }
    }

    fn run_atomic(
        &mut self,
        request: &Request,
        now: Millis,
        attempt: &Attempt<'_>,
        answers: &mut Answers,
    ) {
        for _ in 0..RETRIES {
            self.resolve_all(request, attempt);
            if let Some(lacking) = self.asks_first_together(request) {
                return self.wait_together(request, lacking, attempt, answers);
            }
            let tried = self.try_atomic(request, now, answers);
            // The charges of a request that is not stored are undone.
            let is_stored = tried == Ok(None) && !answers.refused;
            let stored = if is_stored { request.items().len() } else { 0 };
            self.report_uses(request, 0..stored);
            match tried {
                Ok(None) => return,
                Ok(Some(lacking)) => {
                    return self.wait_together(request, lacking, attempt, answers);
                }
                Err(Refused::Newer) if self.take_newer() => self.set_now(now),
                Err(Refused::Newer | Refused::Unavailable) => {
                    return self.fail_all(request, ItemError::Store, answers);
                }
                Err(Refused::Busy) => return self.fail_all(request, ItemError::Busy, answers),
            }
        }
        self.fail_all(request, ItemError::Busy, answers);
    }

    fn resolve_all(&mut self, request: &Request, attempt: &Attempt<'_>) {
        self.scratch.make_room(request.items().len());
        self.fetch_step(0, request.items().iter().map(|item| (request, item)), attempt.waited);
        self.note_unmet(attempt);
        self.fetch_nodes(0..request.items().len());
        let RequestBuffers { resolved, wanted, .. } = &mut self.scratch;
        wanted.clear();
        for resolved in &mut resolved[..request.items().len()] {
            if resolved.wanted().any(|wanted| self.handle.is_quarantined(wanted)) {
                resolved.settled = Some(EarlyAnswer::Failed(ItemError::Store));
            } else {
                wanted.extend(resolved.wanted());
            }
        }
    }

    /// Answers an atomic request that could not begin: all items are busy, or those that need the
    /// store get the error.
    #[cold]
    fn fail_all(&mut self, request: &Request, error: ItemError, answers: &mut Answers) {
        answers.clear();
        answers.refused = true;
        for at in 0..request.items().len() {
            let settled = &mut self.scratch.resolved[at].settled;
            if error == ItemError::Busy || settled.is_none() {
                *settled = Some(EarlyAnswer::Failed(error));
            }
            self.answer_settled(&request.items()[at], at, answers);
        }
    }

    fn try_atomic(
        &mut self,
        request: &Request,
        now: Millis,
        answers: &mut Answers,
    ) -> Result<Option<Lacking>, Refused> {
        answers.clear();
        let RequestBuffers { resolved, wanted, atomic, .. } = &mut self.scratch;
        if wanted.len() > INTENTS_MAX {
            return Err(log_too_large());
        }
        let all = AtomicTransaction { table: &self.table, request, resolved, now };
        let transaction = self.handle.begin(&mut self.buffers, wanted, self.generation)?;
        match all.run(transaction, atomic, answers) {
            Ok(lacking) => Ok(lacking),
            Err(frs_store::TooLarge) => Err(log_too_large()),
        }
    }
}
