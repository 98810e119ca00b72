//! Short answers that are ready while the requests before them wait to run.
//!
//! Invariant: each answer is written after the requests that were in the queue before it, and
//! before those behind it. So an answer that needs no run does not split a batch.

use std::collections::VecDeque;

use super::parked_items::Parking;

/// The queue runs once the answers have this many bytes.
pub const READY_BYTES: usize = 2 << 10;
/// The longest answer that may be kept here.
const SHORT_BYTES: usize = 512;

/// A ready answer.
#[derive(Debug, Clone, Copy)]
struct ReadyAnswer {
    /// The number of queued requests before it.
    behind: usize,
    batch_index: usize,
    /// The end of its text.
    end: usize,
}

/// The answers that are ready, in order.
#[derive(Debug)]
pub(super) struct ReadyAnswers {
    text: Vec<u8>,
    answers: VecDeque<ReadyAnswer>,
    /// The number of bytes of the text that are written.
    written: usize,
}

impl Default for ReadyAnswers {
    fn default() -> ReadyAnswers {
        let text = Vec::with_capacity(READY_BYTES + SHORT_BYTES);
        ReadyAnswers { text, answers: VecDeque::new(), written: 0 }
    }
}

impl ReadyAnswers {
    /// Keeps an answer of connection `batch_index` behind the first `behind` requests. Returns true
    /// if the queue must run now.
    pub fn keep(
        &mut self,
        behind: usize,
        batch_index: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let from = self.text.len();
        write(&mut self.text);
        debug_assert!(self.text.len() - from <= SHORT_BYTES, "{}", self.text.len() - from);
        self.answers.push_back(ReadyAnswer { behind, batch_index, end: self.text.len() });
        self.text.len() >= READY_BYTES
    }

    /// Whether an answer is due once `answered` requests are answered.
    #[inline]
    pub fn is_due(&self, answered: usize) -> bool {
        self.answers.front().is_some_and(|ready| ready.behind <= answered)
    }

    /// Writes the answers that are due, or parks them behind the parked items of their connection.
    #[cold]
    pub fn write(
        &mut self,
        answered: usize,
        out: &mut Vec<u8>,
        batch_ends: &mut [usize],
        parking: &mut Parking,
    ) {
        while self.is_due(answered)
            && let Some(ReadyAnswer { batch_index, end, .. }) = self.answers.pop_front()
        {
            let text = &self.text[self.written..end];
            self.written = end;
            if parking.has_last(batch_index) {
                parking.park_answer(batch_index, text);
            } else {
                out.extend_from_slice(text);
                batch_ends[batch_index] = out.len();
            }
        }
        if self.answers.is_empty() {
            self.text.clear();
            self.written = 0;
        }
    }
}
