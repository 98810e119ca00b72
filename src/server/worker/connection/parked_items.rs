//! The parked items of a connection: a request that waits for a reply, and the requests and answers
//! behind it.
//!
//! Invariant: no item behind a parked request begins or is written before that request is answered,
//! so the connection keeps its order. A connection with a parked item reads nothing.

use super::queued_reply::{QUEUE, QueuedReply};
use frs_engine::{Exchange, Stage};

/// The most exchanges that are kept for later parking.
const SPARE: usize = 2 * QUEUE;

/// An item that a connection has parked.
#[derive(Debug)]
pub enum ParkedItem {
    /// A request that waits, or a request behind one.
    Request(Box<Exchange>, QueuedReply),
    /// A complete answer behind a request that waits.
    Answer(Vec<u8>),
}

/// The items that the current batch has parked, each with the index of its connection.
#[derive(Debug, Default)]
pub(super) struct Parking {
    parked: Vec<(usize, ParkedItem)>,
    #[expect(clippy::vec_box, reason = "a parked exchange moves as a pointer")]
    spare: Vec<Box<Exchange>>,
}

impl Parking {
    /// Parks a request of connection `batch_index`. The queue gets a spare exchange in its place.
    #[cold]
    pub fn park(&mut self, exchange: &mut Exchange, reply: QueuedReply) {
        let mut kept = self.spare.pop().unwrap_or_default();
        std::mem::swap(&mut *kept, exchange);
        exchange.stage = Stage::Answered;
        kept.trim();
        self.parked.push((reply.batch_index, ParkedItem::Request(kept, reply)));
    }

    /// Parks an answer of connection `batch_index`. It joins the item before it if that is an
    /// answer, too.
    #[cold]
    pub fn park_answer(&mut self, batch_index: usize, answer: &[u8]) {
        match self.parked.last_mut() {
            Some((index, ParkedItem::Answer(before))) if *index == batch_index => {
                before.extend_from_slice(answer);
            }
            _ => self.parked.push((batch_index, ParkedItem::Answer(answer.to_vec()))),
        }
    }

    /// Whether connection `batch_index`, the last one of the batch, has something parked.
    #[inline]
    pub fn has_last(&self, batch_index: usize) -> bool {
        self.parked.last().is_some_and(|(parked, _)| *parked == batch_index)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// Takes all parked items in order, each with the index of its connection in the batch.
    pub fn drain(&mut self) -> impl Iterator<Item = (usize, ParkedItem)> {
        self.parked.drain(..)
    }

    /// Moves a parked exchange into the queue, and keeps the exchange that it replaces as a spare.
    pub fn unpark(&mut self, mut exchange: Box<Exchange>, queued: &mut Exchange) {
        std::mem::swap(&mut *exchange, queued);
        if self.spare.len() < SPARE {
            self.spare.push(exchange);
        }
    }
}
