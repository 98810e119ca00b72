//! `sliding-counter`: approximate, two counters, any M.

use super::Figures;
use crate::conf::SlidingCounter;

/// The state, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counters {
    pub start: u64,
    pub cur: u64,
    pub prev: u64,
}

pub(super) fn roll(limit: &SlidingCounter, counters: Counters, now: u64) -> Counters {
    todo!()
}

pub(super) fn admits(limit: &SlidingCounter, counters: Counters, now: u64, count: u32) -> bool {
    todo!()
}

pub(super) fn charge(limit: &SlidingCounter, counters: Counters, now: u64, count: i32) -> Counters {
    todo!()
}

pub(super) fn figures(limit: &SlidingCounter, counters: Counters, now: u64) -> Figures {
    todo!()
}

pub(super) fn retry_ms(
    limit: &SlidingCounter,
    counters: Counters,
    now: u64,
    count: u32,
) -> Option<u64> {
    todo!()
}

pub(super) fn life_ms(limit: &SlidingCounter) -> u64 {
    todo!()
}
