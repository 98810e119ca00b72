//! The chains without room for the records that wait.
//!
//! Invariant: a chain is listed only while a record waits for room in it, or is on its way out of
//! it.

use std::collections::{HashMap, VecDeque};

use crate::nodes::ChainPlace;

/// All chains without room for the records that wait.
#[derive(Debug, Default)]
pub struct FullChains {
    pub by_chain: HashMap<ChainPlace, FullChain>,
    /// Records on their way out, of all chains.
    pub spills: usize,
}

/// The records that wait for room in one chain.
#[derive(Debug, Default)]
pub struct FullChain {
    /// The ids of their messages, oldest first.
    pub waiting: VecDeque<u64>,
    /// Records on their way out of the chain.
    pub under_way: usize,
}
