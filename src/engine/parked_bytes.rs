//! The memory of an exchange while it waits.
//!
//! Invariant: a trimmed exchange holds at most twice the bytes that it uses, plus [`SPARE_BYTES`],
//! whatever its buffers held before. `frs check` counts with this bound.

use std::sync::Arc;

use frs_conf::{CallRate, MAX_PER_CALL};
use frs_limit::{Details, LimitFigures};

use super::exchange::ItemWait;
use super::request::{Brought, TextSpan};
use super::{Answer, Answers, Exchange, Extras, Item, Request};

/// Bytes of an item of a waiting exchange: the item and its parameters, its waits for the records
/// of its key and of its biz, and its answer.
pub const WAITING_ITEM_BYTES: usize = size_of::<Item>()
    + size_of::<Brought>()
    + size_of::<Extras<TextSpan>>()
    + MAX_PER_CALL * size_of::<CallRate>()
    + 2 * size_of::<ItemWait>()
    + size_of::<Answer>()
    + size_of::<Arc<str>>();
/// Bytes of each limit in the answer.
pub const WAITING_LIMIT_BYTES: usize = size_of::<LimitFigures>();
/// Bytes of each window in a history in the answer.
pub const WAITING_WINDOW_BYTES: usize = size_of::<u32>();
/// Bytes that an exchange may hold besides.
pub const SPARE_BYTES: usize = 2 << 10;

/// Bytes of buffers: their capacity, and the part in use.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    held: usize,
    used: usize,
}

impl Room {
    fn and<T>(self, buffer: &Vec<T>) -> Room {
        let Room { held, used } = self;
        let each = size_of::<T>();
        Room { held: held + buffer.capacity() * each, used: used + buffer.len() * each }
    }
}

impl Exchange {
    fn room(&self) -> Room {
        let Exchange { request, answers, waits, .. } = self;
        let Request { text, items, brought, others, rates, .. } = request;
        let Answers { items: answered, details, actions, .. } = answers;
        let room = Room { held: text.capacity(), used: text.len() };
        let Details { limits, windows } = details;
        let room = room.and(items).and(brought).and(others).and(rates);
        room.and(waits).and(answered).and(actions).and(limits).and(windows)
    }

    /// Bytes of its buffers.
    #[cfg(any(test, feature = "testing"))]
    pub fn held_bytes(&self) -> usize {
        self.room().held
    }

    /// Frees unused capacity if there is much of it: a larger request may have been in these
    /// buffers before.
    #[cold]
    pub fn trim(&mut self) {
        let Room { held, used } = self.room();
        if held <= 2 * used + SPARE_BYTES {
            return;
        }
        let Exchange { request, answers, waits, .. } = self;
        request.text.shrink_to_fit();
        request.items.shrink_to_fit();
        request.brought.shrink_to_fit();
        request.others.shrink_to_fit();
        request.rates.shrink_to_fit();
        waits.shrink_to_fit();
        answers.items.shrink_to_fit();
        answers.details.limits.shrink_to_fit();
        answers.details.windows.shrink_to_fit();
        answers.actions.shrink_to_fit();
    }
}
