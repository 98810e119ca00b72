//! `token`: a token bucket, exact, without drift.

use super::Figures;
use crate::conf::Token;

/// Settings made ready, in units of 1/86,400,000 token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    /// Tokens of a full one.
    burst: u64,
    /// Units that come back in a millisecond.
    drain: u64,
}

/// The state, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Level {
    /// Units taken out.
    pub level: u64,
    /// Milliseconds since the epoch when that was so.
    pub last: u64,
}

impl Bucket {
    pub fn new(limit: &Token) -> Bucket {
        todo!()
    }
}

pub(super) fn roll(limit: &Bucket, level: Level, now: u64) -> Level {
    todo!()
}

pub(super) fn admits(limit: &Bucket, level: Level, count: u32) -> bool {
    todo!()
}

pub(super) fn charge(limit: &Bucket, level: Level, now: u64, count: i32) -> Level {
    todo!()
}

pub(super) fn figures(limit: &Bucket, level: Level, now: u64) -> Figures {
    todo!()
}

pub(super) fn retry_ms(limit: &Bucket, level: Level, count: u32) -> Option<u64> {
    todo!()
}

pub(super) fn fill_ms(limit: &Bucket) -> u64 {
    todo!()
}

pub(super) fn life_ms(limit: &Bucket) -> Option<u64> {
    todo!()
}
