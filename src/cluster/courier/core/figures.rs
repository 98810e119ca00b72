//! What the courier counts.
//!
//! Invariant: numbers only grow.

use crate::figures::LeaseCounter;

/// What a courier has counted since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    events: [u64; LeaseCounter::ALL.len()],
    /// Answers that show the directory to be a copy.
    pub stale: u64,
}

impl Figures {
    /// How often this event happened.
    pub fn count(&self, counter: LeaseCounter) -> u64 {
        self.events[counter as usize]
    }

    /// Counts events.
    pub(super) fn add(&mut self, counter: LeaseCounter, by: u64) {
        self.events[counter as usize] += by;
    }
}
