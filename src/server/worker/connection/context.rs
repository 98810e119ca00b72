//! The context of a connection: the buffers that the worker lends, and the code that runs requests
//! and writes answers.
//!
//! Invariant: each request is answered completely, once and in order. An answer that bypasses the
//! queue is written after the answers of the queue.

use super::gate::Gate;
use super::head_cache::HeadCache;
use super::parked_items::{ParkedItem, Parking};
use super::queued_reply::{QUEUE, QueuedReply, ReplyForm};
use super::ready_answers::ReadyAnswers;
use super::serve::{ConnectionRules, Serve};
use super::{MAX_REQUESTS_PER_TICK, TICK_ANSWER_BYTES};
use crate::protocol::call::Call;
use crate::protocol::response_head::{
    self, Asker, BodyKind, Common, Content, ResponseOptions, Single,
};
use crate::protocol::{Decoded, Error, Line, codec, form, resp};
use crate::worker::buffer_pool::BufferPool;
use frs_base::clock::Millis;
use frs_engine::access::{Caller, LastBiz};
use frs_engine::{Answer, Exchange, ItemError, Quota, Request, Stage};

/// Working memory for requests, shared by all connections of a worker.
#[derive(Debug, Default)]
pub struct ConnectionBuffers {
    pub(super) heads: HeadCache,
    pub(super) common: Common,
    pub(in crate::worker) queue: Queue,
    pub(super) decoded: Decoded,
    pub(super) form: form::Decoded,
    pub(super) key: String,
    pub(super) chunks: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) line: Line,
    pub(super) quotas: Vec<Quota>,
    pub(in crate::worker) last_biz: LastBiz,
    /// The configuration that the heads and `last_biz` belong to.
    generation: u64,
    pub(in crate::worker) resp: RespBuffers,
    /// Buffers for kept input and unsent answers.
    pub(in crate::worker) pool: BufferPool,
}

/// Working memory for commands of RESP.
#[derive(Debug, Default)]
pub(in crate::worker) struct RespBuffers {
    /// The words of an inline command, as bulk strings.
    pub words: Vec<u8>,
    /// The reply of a command over registers, until its transaction is committed.
    pub reply: Vec<u8>,
    /// The number of connections that have asked for an id.
    pub numbered: u32,
}

impl ConnectionBuffers {
    /// Starts a tick and sets the date of its answers.
    pub fn set_now(&mut self, now: Millis) {
        self.common.set_now(now);
    }

    /// Appends the answer of an error.
    pub(in crate::worker) fn refuse(&mut self, asker: Asker<'_>, error: &Error, out: &mut Vec<u8>) {
        let ConnectionBuffers { line, common, body, .. } = self;
        response_head::write_error(out, line, common, asker, error, body);
    }

    /// Forgets what belongs to another configuration.
    #[inline]
    pub(in crate::worker) fn follow(&mut self, rules: &ConnectionRules<'_>) {
        let generation = rules.generation();
        if self.generation != generation {
            self.generation = generation;
            self.heads.follow(generation);
            self.last_biz.clear();
        }
    }

    /// Begins a batch of connections. The output must be empty.
    pub fn begin_batch(&mut self) {
        self.queue.batch_ends.clear();
    }

    /// Begins the next connection of the batch.
    pub fn begin_connection(&mut self) {
        let from = self.queue.batch_ends.last().copied().unwrap_or(0);
        self.queue.batch_ends.push(from);
    }

    /// The end of the answers to the batch's connection `batch_index` in the output, after a flush.
    pub fn batch_end(&self, batch_index: usize) -> usize {
        self.queue.batch_ends.get(batch_index).copied().unwrap_or(0)
    }

    /// Runs and answers the queued requests of the batch.
    pub fn flush<S: Serve>(
        &mut self,
        rules: ConnectionRules<'_>,
        serve: &mut S,
        out: &mut Vec<u8>,
    ) {
        RequestContext { rules, serve, scratch: self, out }.flush();
    }

    /// Whether the batch has parked requests, or requests and answers behind them.
    #[inline]
    pub fn has_parked(&self) -> bool {
        !self.queue.parking.is_empty()
    }

    /// Takes everything that the batch has parked, in order, each with the index of its connection
    /// in the batch.
    pub fn take_parked(&mut self) -> impl Iterator<Item = (usize, ParkedItem)> {
        self.queue.parking.drain()
    }
}

/// Whether nothing of a request is served, since its caller lacks a right: no item, or one of an
/// atomic request.
#[cold]
fn is_all_forbidden(Exchange { request, answers, .. }: &Exchange) -> bool {
    let is_forbidden = |answer: &Answer| answer.result == Err(ItemError::Forbidden);
    match request.atomic {
        true => answers.refused && answers.items.iter().any(is_forbidden),
        false => !answers.items.is_empty() && answers.items.iter().all(is_forbidden),
    }
}

/// The queue runs once its requests have this many bytes of input.
pub const QUEUE_BYTES: usize = 2 << 10;
/// Buffers that grow with the longest answer: one exchange for each place in the queue, a request
/// that is being decoded, the current document, and the output of a batch. A buffer doubles as it
/// grows, so each counts twice.
pub const BUFFERS_IN_HAND: usize = 2 * (QUEUE + 3);
/// Buffers that grow with the longest reply of registers: the reply until its transaction is
/// committed, and the output of a batch. Each counts twice, as above.
pub const REGISTER_BUFFERS: usize = 2 * 2;
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The worker's context of a connection.
pub(in crate::worker) struct RequestContext<'a, S> {
    pub rules: ConnectionRules<'a>,
    pub serve: &'a mut S,
    pub scratch: &'a mut ConnectionBuffers,
    pub out: &'a mut Vec<u8>,
}

/// Requests that are read and not yet run. They run together, so that the memory of one is fetched
/// while another is processed.
#[derive(Debug)]
pub(in crate::worker) struct Queue {
    /// The first `waiting` exchanges are complete. The next one is being read.
    exchanges: Vec<Exchange>,
    replies: Vec<QueuedReply>,
    waiting: usize,
    /// Short answers behind some of the waiting requests. Empty if no request waits.
    ready: ReadyAnswers,
    /// The input bytes of the waiting requests.
    bytes: usize,
    /// The end of each connection's answers in the output of the batch.
    batch_ends: Vec<usize>,
    parking: Parking,
}

impl Default for Queue {
    fn default() -> Queue {
        let exchanges = std::iter::repeat_with(Exchange::default).take(QUEUE).collect();
        let replies = Vec::with_capacity(QUEUE);
        let (batch_ends, parking, ready) = (vec![0], Parking::default(), ReadyAnswers::default());
        Queue { exchanges, replies, waiting: 0, ready, bytes: 0, batch_ends, parking }
    }
}

impl Queue {
    /// The request that is being read.
    pub fn request(&mut self) -> &mut Request {
        &mut self.exchanges[self.waiting].request
    }

    /// The index of the connection that is being read.
    fn batch_index(&self) -> usize {
        self.batch_ends.len() - 1
    }
}

impl<S: Serve> RequestContext<'_, S> {
    /// Marks the request that was read as one of this caller.
    #[inline(always)]
    pub fn mark(&mut self, caller: Caller) {
        if let Some(gate) = self.rules.gate {
            self.mark_by(gate, caller);
        }
    }

    /// The same, where callers differ.
    #[inline(never)]
    fn mark_by(&mut self, Gate { access, map, .. }: Gate<'_>, caller: Caller) {
        let ConnectionBuffers { queue, last_biz, .. } = &mut *self.scratch;
        access.mark(caller, map, last_biz, queue.request());
    }

    /// Puts the complete request into the queue. The next [`RequestContext::flush`] runs and
    /// answers it.
    pub fn enqueue(&mut self, manner: ReplyForm) {
        let queue = &mut self.scratch.queue;
        let batch_index = queue.batch_index();
        queue.exchanges[queue.waiting].lane = batch_index;
        queue.replies.push(QueuedReply { manner, batch_index });
        queue.waiting += 1;
        if queue.waiting == QUEUE {
            self.flush();
        }
    }

    /// Runs the parked requests of the current connection, or parks them again. The outcome is
    /// known before more input is read.
    #[cold]
    pub fn resume(&mut self, parked: &mut Vec<ParkedItem>) {
        for parked in parked.drain(..) {
            match parked {
                ParkedItem::Request(exchange, reply) => {
                    let queue = &mut self.scratch.queue;
                    queue.parking.unpark(exchange, &mut queue.exchanges[queue.waiting]);
                    self.enqueue(reply.manner);
                }
                ParkedItem::Answer(answer) => {
                    self.flush();
                    let from = self.out.len();
                    self.out.extend_from_slice(&answer);
                    self.end_answer(from);
                }
            }
        }
        self.flush();
    }

    /// Whether the current connection has something parked. If so, no more of its input is read.
    #[inline]
    pub fn is_parked(&self) -> bool {
        let queue = &self.scratch.queue;
        queue.parking.has_last(queue.batch_index())
    }

    /// Counts the bytes of a request that was read. They bound the queue, and so the answers that
    /// are written together.
    pub fn weigh(&mut self, bytes: usize) {
        self.scratch.queue.bytes += bytes;
        if self.scratch.queue.bytes >= QUEUE_BYTES {
            self.flush();
        }
    }

    /// Whether the current connection has used its share of the tick: it has `answered` this many
    /// requests. The output had `from` bytes when it began.
    #[inline]
    pub fn is_full(&self, answered: usize, from: usize) -> bool {
        answered == MAX_REQUESTS_PER_TICK || self.answered_bytes(from) >= TICK_ANSWER_BYTES
    }

    fn answered_bytes(&self, from: usize) -> usize {
        let ends = &self.scratch.queue.batch_ends;
        let before = ends.len().checked_sub(2).map_or(0, |last| ends[last]);
        ends.last().map_or(0, |end| end.saturating_sub(before.max(from)))
    }

    /// Runs and answers the requests in the queue.
    pub fn flush(&mut self) {
        let ConnectionBuffers { queue, common, body, line, quotas, .. } = self.scratch;
        let waiting = std::mem::take(&mut queue.waiting);
        queue.bytes = 0;
        if waiting == 0 {
            return;
        }
        let Queue { exchanges, replies, ready, batch_ends, parking, .. } = queue;
        let exchanges = &mut exchanges[..waiting];
        self.serve.run_all(exchanges);
        for (answered, (exchange, reply)) in exchanges.iter_mut().zip(replies.drain(..)).enumerate()
        {
            if ready.is_due(answered) {
                ready.write(answered, self.out, batch_ends, parking);
            }
            if exchange.stage != Stage::Answered {
                parking.park(exchange, reply);
                continue;
            }
            let Exchange { request, answers, .. } = &*exchange;
            debug_assert_eq!(answers.items.len(), request.items().len());
            let (call, status) = match reply.manner {
                ReplyForm::Resp(form) => {
                    (form.call, resp::write_answers(self.out, line, form, request, answers))
                }
                ReplyForm::Http { call, refusal, options } => {
                    body.clear();
                    codec::write(options.format, body, line, request, answers);
                    let answer = match &answers.items[..] {
                        [answer] => Some(answer),
                        _ => None,
                    };
                    // A single item that did not fail has fields in the head.
                    let single = answer.and_then(|answer| {
                        self.serve.quotas(request, answer, quotas);
                        let verdict = answer.result.as_ref().ok()?;
                        let name = answer.biz.and_then(|index| self.serve.biz_name(index));
                        Some(Single { name, verdict, quotas, proxied: refusal.is_some() })
                    });
                    let status = match (refusal, answer) {
                        // What has a verdict was not forbidden.
                        _ if single.is_none() && is_all_forbidden(exchange) => {
                            response_head::lacking_status(request)
                        }
                        (None, _) => 200,
                        (Some(refusal), Some(answer)) => response_head::status_of(answer, refusal),
                        (Some(_), None) => 503,
                    };
                    let document = Content { status, kind: BodyKind::Document, body };
                    let asker = self.rules.asker(options);
                    response_head::write(self.out, line, common, asker, document, single);
                    (call, status)
                }
            };
            batch_ends[reply.batch_index] = self.out.len();
            self.serve.answered(call, status);
        }
        if ready.is_due(waiting) {
            ready.write(waiting, self.out, batch_ends, parking);
        }
    }

    /// Adds the output from `from` on to the answers of the current connection. Parks it if it
    /// follows a parked request.
    pub(super) fn end_answer(&mut self, from: usize) {
        let queue = &mut self.scratch.queue;
        let batch_index = queue.batch_index();
        if queue.parking.has_last(batch_index) {
            queue.parking.park_answer(batch_index, &self.out.split_off(from));
        }
        queue.batch_ends[batch_index] = self.out.len();
    }

    /// Tells the client to send the body that it holds back.
    pub fn write_continue(&mut self) {
        self.flush();
        let from = self.out.len();
        self.out.extend_from_slice(CONTINUE);
        self.end_answer(from);
    }

    /// Writes and counts an answer that bypasses the queue.
    fn answer(
        &mut self,
        call: Call,
        status: u16,
        write: impl FnOnce(&mut ConnectionBuffers, &mut Vec<u8>),
    ) {
        self.flush();
        let from = self.out.len();
        write(self.scratch, self.out);
        self.end_answer(from);
        self.serve.answered(call, status);
    }

    pub fn write(&mut self, call: Call, options: ResponseOptions, answer: Content<'_>) {
        let asker = self.rules.asker(options);
        self.answer(call, answer.status, |ConnectionBuffers { line, common, .. }, out| {
            response_head::write(out, line, common, asker, answer, None);
        });
    }

    /// Writes and counts an answer that needs no run, in any protocol.
    pub fn write_with(&mut self, call: Call, status: u16, write: impl FnOnce(&mut Vec<u8>)) {
        self.answer(call, status, |_, out| write(out));
    }

    /// Like [`RequestContext::write_with`], for an answer of at most 512 bytes. It does not flush
    /// the queue before more requests can join it.
    pub fn write_short(&mut self, call: Call, status: u16, write: impl FnOnce(&mut Vec<u8>)) {
        let queue = &mut self.scratch.queue;
        if queue.waiting == 0 {
            return self.write_with(call, status, write);
        }
        if queue.ready.keep(queue.waiting, queue.batch_index(), write) {
            self.flush();
        }
        self.serve.answered(call, status);
    }

    /// Tells a page which requests it may send.
    pub fn write_preflight(&mut self, options: ResponseOptions) {
        let (asker, status) = (self.rules.asker(options), response_head::PREFLIGHT);
        self.answer(Call::Other, status, |ConnectionBuffers { line, common, .. }, out| {
            response_head::write_preflight(out, line, common, asker);
        });
    }

    pub fn write_error(&mut self, call: Call, options: ResponseOptions, error: &Error) {
        let asker = self.rules.asker(options);
        self.answer(call, error.status(), |scratch, out| scratch.refuse(asker, error, out));
    }
}
