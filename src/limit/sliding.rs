//! `sliding`: exact, at most M in any I.

use super::Figures;
use crate::conf::Sliding;

pub(super) fn admits(limit: &Sliding, ring: &[u64], now: u64, count: u32) -> bool {
    todo!()
}

pub(super) fn figures(limit: &Sliding, ring: &[u64], now: u64) -> Figures {
    todo!()
}

pub(super) fn retry_ms(limit: &Sliding, ring: &[u64], now: u64, count: u32) -> Option<u64> {
    todo!()
}

pub(super) fn life_ms(limit: &Sliding) -> u64 {
    todo!()
}
