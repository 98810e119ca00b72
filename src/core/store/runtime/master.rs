//! What the master counts in the header page: it has no slot.
//!
//! Invariant: only the master writes these words.

use super::Runtime;
use crate::store::layout::runtime as at;

/// What a child of the master is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChildRole {
    /// The worker of this number, from 0.
    Worker(u16),
    /// The keeper.
    Keeper,
}

impl std::fmt::Display for ChildRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChildRole::Worker(number) => write!(f, "worker {number}"),
            ChildRole::Keeper => write!(f, "keeper"),
        }
    }
}

impl ChildRole {
    /// Where it stands; none: there are never so many.
    fn word(self) -> Option<usize> {
        let nth = match self {
            ChildRole::Keeper => 0,
            ChildRole::Worker(number) => 1 + usize::from(number),
        };
        (nth < at::PLACES_MAX).then_some(at::PLACES + nth)
    }
}

/// What the master counts, in words of its own: it has no slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MasterCounts {
    /// When this server, or the last one, was started; milliseconds.
    pub started_ms: u64,
    /// Workers and keepers that were replaced.
    pub restarts: [u64; 2],
    /// Reloads taken and refused.
    pub reloads: [u64; 2],
    /// When one was taken and refused last, milliseconds; 0: never.
    pub reloaded_ms: [u64; 2],
}

impl Runtime {
    /// What the master has counted.
    pub fn master_counts(&self) -> MasterCounts {
        let pair = |start| [self.region.load(start), self.region.load(start + 1)];
        MasterCounts {
            started_ms: self.region.load(at::STARTED),
            restarts: pair(at::RESTARTS),
            reloads: pair(at::RELOADS),
            reloaded_ms: pair(at::RELOADED),
        }
    }

    /// Notes the start of a server; the master alone does.
    pub fn set_started(&self, at_ms: u64) {
        self.region.store(at::STARTED, at_ms);
    }

    /// Counts a process that died in this place and is replaced; the master alone does.
    pub fn count_restart(&self, place: ChildRole) {
        self.grow(at::RESTARTS + usize::from(place == ChildRole::Keeper));
        if let Some(word) = place.word() {
            self.region.store(word, self.region.load(word).wrapping_add(1 << 32));
        }
    }

    /// Notes who has a place; the master alone does.
    pub fn set_place(&self, place: ChildRole, pid: u32) {
        if let Some(word) = place.word() {
            let restarts = self.region.load(word) >> 32;
            self.region.store(word, u64::from(pid) | restarts << 32);
        }
    }

    /// How often who had the place of this process before was replaced; none if the master has not
    /// given it one.
    pub fn restarts_of(&self, pid: u32) -> Option<u64> {
        let words = (at::PLACES..at::PLACES + at::PLACES_MAX).map(|word| self.region.load(word));
        words.filter(|&word| word as u32 == pid).map(|word| word >> 32).next()
    }

    /// Counts a reload that was taken; the master alone does.
    pub fn count_reload(&self, now_ms: u64) {
        self.grow(at::RELOADS);
        self.region.store(at::RELOADED, now_ms);
    }

    /// Counts a reload that was refused; the master alone does.
    pub fn count_refused_reload(&self, now_ms: u64) {
        self.grow(at::RELOADS + 1);
        self.region.store(at::RELOADED + 1, now_ms);
    }

    fn grow(&self, word: usize) {
        self.region.store(word, self.region.load(word).wrapping_add(1));
    }
}
