//! The timers of the core.
//!
//! Invariant: an entry is only a reason to look. An outdated entry does no harm.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::name::LedgerId;

/// The subject of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A ledger.
    Ledger(LedgerId),
    /// The deadline of a request.
    Request(u64),
    /// The deadline of an incomplete atomic request.
    Atomic {
        /// The slot.
        slot: u32,
        /// The number of the request.
        number: u64,
    },
}

/// Times, the earliest first.
#[derive(Debug, Default)]
pub struct Timers(BinaryHeap<Reverse<(u64, Due)>>);

impl Timers {
    /// Adds a timer.
    pub fn add(&mut self, at_ms: u64, due: Due) {
        self.0.push(Reverse((at_ms, due)));
    }

    /// The earliest time.
    pub fn next_ms(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at_ms, _))| *at_ms)
    }

    /// Takes a timer that is due.
    pub fn take(&mut self, now_ms: u64) -> Option<Due> {
        self.next_ms().filter(|at_ms| *at_ms <= now_ms)?;
        self.0.pop().map(|Reverse((_, due))| due)
    }
}
