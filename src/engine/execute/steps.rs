//! Runs items in steps: while one step runs, the memory for the next one arrives.
//!
//! A prefetch waits for the page tables, and the code after it waits too. Only prefetches that
//! follow each other directly wait together. So all items of a step are resolved before the first
//! of their heads is prefetched.

use std::ops::Range;

use frs_base::clock::Millis;
use frs_limit::Waited;
use frs_store::Wanted;

use super::waiting::Attempt;
use super::{ItemAt, RequestBuffers};
use crate::{Answers, Exchange, Item, Request, Service, Stage};

/// Items of a step: enough that the first head has arrived when the last one is prefetched.
const STEP: usize = 8;
/// Steps in hand: one runs, and the memory for another arrives.
const IN_HAND: usize = 2;

/// The items of a step, among `count` items in all.
#[inline]
fn items_of(step: usize, count: usize) -> Range<usize> {
    (step * STEP).min(count)..((step + 1) * STEP).min(count)
}

/// Where the first item of a step is resolved.
#[inline]
fn buffer_of(step: usize) -> usize {
    step % IN_HAND * STEP
}

impl Service {
    /// Runs the items of a request, each in its own transaction.
    #[inline]
    pub(super) fn run_each(
        &mut self,
        request: &Request,
        now: Millis,
        attempt: &Attempt<'_>,
        answers: &mut Answers,
    ) {
        self.scratch.make_room(IN_HAND * STEP);
        let items = request.items();
        if let [item] = items {
            self.fetch_head(request, item, 0, attempt.waited);
            return self.run_one(ItemAt { request, item, at: 0 }, now, attempt, answers);
        }
        let count = items.len();
        let of_step = |step| items[items_of(step, count)].iter().map(|item| (request, item));
        self.fetch_step(buffer_of(0), of_step(0), attempt.waited);
        for step in 0..count.div_ceil(STEP) {
            self.fetch_step(buffer_of(step + 1), of_step(step + 1), attempt.waited);
            let (first, range) = (buffer_of(step), items_of(step, count));
            self.fetch_nodes(first..first + range.len());
            for (at, buffer) in range.zip(first..) {
                let item = ItemAt { request, item: &items[at], at: buffer };
                self.run_one(item, now, attempt, answers);
            }
        }
    }

    /// Runs requests of one item each.
    pub(super) fn run_singles(&mut self, exchanges: &mut [Exchange], now: Millis) {
        self.scratch.make_room(IN_HAND * STEP);
        let count = exchanges.len();
        self.fetch_step(buffer_of(0), singles(&exchanges[items_of(0, count)]), Waited::NotYet);
        for step in 0..count.div_ceil(STEP) {
            let next = singles(&exchanges[items_of(step + 1, count)]);
            self.fetch_step(buffer_of(step + 1), next, Waited::NotYet);
            let (first, range) = (buffer_of(step), items_of(step, count));
            self.fetch_nodes(first..first + range.len());
            for (at, buffer) in range.zip(first..) {
                if self.is_behind_one(exchanges, at) {
                    exchanges[at].stage = Stage::Behind;
                    continue;
                }
                let Exchange { request, answers, .. } = &mut exchanges[at];
                answers.clear();
                let item = ItemAt { request, item: &request.items()[0], at: buffer };
                self.run_one(item, now, &Attempt::FIRST, answers);
                self.end_exchange(&mut exchanges[at]);
            }
        }
    }

    /// Resolves an item and prefetches the head that it leads to.
    #[inline]
    pub(super) fn fetch_head(
        &mut self,
        request: &Request,
        item: &Item,
        buffer: usize,
        waited: Waited,
    ) {
        self.resolve(request, item, buffer, waited);
        self.fetch_heads(buffer..buffer + 1);
    }

    /// Resolves items, from buffer `first` on, and prefetches their heads.
    #[inline(always)]
    pub(super) fn fetch_step<'r>(
        &mut self,
        first: usize,
        items: impl Iterator<Item = (&'r Request, &'r Item)>,
        waited: Waited,
    ) {
        let mut end = first;
        for (request, item) in items {
            self.resolve(request, item, end, waited);
            end += 1;
        }
        self.fetch_heads(first..end);
    }

    #[inline(never)]
    fn resolve(&mut self, request: &Request, item: &Item, buffer: usize, waited: Waited) {
        let RequestBuffers { resolved, last_biz, .. } = &mut self.scratch;
        let biz = last_biz.find(&self.conf, self.generation, request.bytes(item).biz);
        resolved[buffer].set_waited(waited, request.command);
        resolved[buffer].resolve(&self.table, self.generation, biz, request, item);
    }

    /// Prefetches the heads of resolved items.
    #[inline(always)]
    fn fetch_heads(&mut self, buffers: Range<usize>) {
        for resolved in &mut self.scratch.resolved[buffers] {
            let fetch = |wanted: &Wanted| self.handle.prefetch_head(wanted);
            resolved.guess = resolved.key_at.as_ref().map(fetch);
            resolved.whole_at.as_ref().map(fetch);
        }
    }

    /// Prefetches the nodes of items that were resolved together, and whose heads were prefetched
    /// before.
    #[inline]
    pub(super) fn fetch_nodes(&mut self, buffers: Range<usize>) {
        let resolved = &mut self.scratch.resolved[buffers];
        if resolved.first().is_some_and(|first| first.generation != self.generation) {
            // An item of the previous step has met a newer generation. The groups may be different
            // ones.
            return;
        }
        for resolved in resolved {
            let fetch = |wanted, guess| self.handle.prefetch_node(wanted, guess);
            let key_at = resolved.key_at.as_ref();
            resolved.guess = key_at.and_then(|wanted| fetch(wanted, resolved.guess));
            resolved.whole_at.as_ref().and_then(|wanted| fetch(wanted, None));
        }
    }
}

/// Exchanges with one item each.
#[inline]
fn singles(exchanges: &[Exchange]) -> impl Iterator<Item = (&Request, &Item)> {
    exchanges.iter().map(|exchange| (&exchange.request, &exchange.request.items()[0]))
}
