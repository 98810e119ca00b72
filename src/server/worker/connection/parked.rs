//! What a connection has parked: a request that waits for a lease, and what came behind it.
//!
//! Invariant: nothing behind a parked request is begun or written before that is answered, so the
//! order of the connection is kept. A connection with something parked reads nothing.

use super::reply::{QUEUE, Reply};
use frs_engine::{Exchange, Stage};

/// Exchanges that are kept for the next ones to be parked.
const SPARE: usize = 2 * QUEUE;

/// One thing that a connection has parked.
#[derive(Debug)]
pub enum Parked {
    /// A request that waits, or one behind it.
    Request(Box<Exchange>, Reply),
    /// An answer that was ready, behind a request that waits.
    Answer(Vec<u8>),
}

/// A connection that parks, whatever is spoken on it.
pub trait Parks {
    /// What waits, in order: nothing is read meanwhile, and the next batch goes on with it.
    fn parked(&self) -> &[Parked];

    /// The same, to be changed.
    fn parked_mut(&mut self) -> &mut Vec<Parked>;

    /// Parks what the connection's batch has left to it.
    fn park(&mut self, parked: Parked) {
        self.parked_mut().push(parked);
    }

    /// Takes what waits: the connection is closed.
    fn give_up(&mut self) -> Vec<Parked> {
        std::mem::take(self.parked_mut())
    }
}

/// What the batch in hand has parked, for its connections.
#[derive(Debug, Default)]
pub(super) struct Parking {
    parked: Vec<(usize, Parked)>,
    #[expect(clippy::vec_box, reason = "a parked exchange moves as a pointer")]
    spare: Vec<Box<Exchange>>,
}

impl Parking {
    /// Parks a request of connection `batch_index`; the queue gets a spare one in its place.
    #[cold]
    pub fn park(&mut self, exchange: &mut Exchange, reply: Reply) {
        let mut kept = self.spare.pop().unwrap_or_default();
        std::mem::swap(&mut *kept, exchange);
        exchange.stage = Stage::Answered;
        kept.trim();
        self.parked.push((reply.batch_index, Parked::Request(kept, reply)));
    }

    /// Parks an answer of connection `batch_index`, with the one before it if that is an answer.
    #[cold]
    pub fn park_answer(&mut self, batch_index: usize, answer: &[u8]) {
        match self.parked.last_mut() {
            Some((index, Parked::Answer(before))) if *index == batch_index => {
                before.extend_from_slice(answer);
            }
            _ => self.parked.push((batch_index, Parked::Answer(answer.to_vec()))),
        }
    }

    /// Has connection `batch_index`, the last one of the batch, something parked.
    #[inline]
    pub fn has_last(&self, batch_index: usize) -> bool {
        self.parked.last().is_some_and(|(parked, _)| *parked == batch_index)
    }

    /// Nothing is parked.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// Takes all that is parked, in order, each with the connection's number in the batch.
    pub fn drain(&mut self) -> impl Iterator<Item = (usize, Parked)> {
        self.parked.drain(..)
    }

    /// An exchange that was parked goes into the queue; what stood there is kept for another one.
    pub fn unpark(&mut self, mut exchange: Box<Exchange>, queued: &mut Exchange) {
        std::mem::swap(&mut *exchange, queued);
        if self.spare.len() < SPARE {
            self.spare.push(exchange);
        }
    }
}
