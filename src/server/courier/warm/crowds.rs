//! What waits for room, by its chain.
//!
//! Invariant: a chain is here only while something waits for room in it, or is on its way from it.

use std::collections::{HashMap, VecDeque};

use frs_engine::ChainPlace;

/// All chains without room for what is wanted.
#[derive(Debug, Default)]
pub struct Crowds {
    pub by_chain: HashMap<ChainPlace, Crowd>,
    /// Records on their way, of all chains.
    pub spills: usize,
}

/// What waits for room in one chain.
#[derive(Debug, Default)]
pub struct Crowd {
    /// The messages' names, oldest first.
    pub waiting: VecDeque<u64>,
    /// Records on their way.
    pub under_way: usize,
}
