//! Publishes the courier's figures for metrics, /health and the log, in the counters of its slot.
//!
//! Invariant: each event is added to the counters once, however often they are published.

use std::sync::Arc;

use frs_conf::ClusterNode;
use frs_store::counter::Counters;

use super::core::Figures;
use crate::connections::MessageCounts;
use crate::figures::{
    ClusterFunction, ClusterNodeState, ClusterResult, ClusterState, LeaseCounter, LeaseUses,
    SpillResult,
};
use crate::warm::SpillCounts;

/// The figures published so far.
#[derive(Debug, Default)]
pub struct Telemetry {
    published: Figures,
    nodes: Vec<ClusterNodeState>,
    /// The addresses of the masters with slots. None if they are not known yet.
    masters: Option<Vec<String>>,
    /// Uses in all leases, after the last pass over them.
    pub uses: LeaseUses,
    /// Where messages are counted.
    pub counts: Arc<MessageCounts>,
}

impl Telemetry {
    /// Notes whether a node of the cluster answers.
    pub fn note_node(&mut self, address: &str, is_up: bool) {
        match self.nodes.iter_mut().find(|node| node.address == address) {
            Some(node) => node.is_up = is_up,
            None => self.nodes.push(ClusterNodeState { address: address.to_owned(), is_up }),
        }
    }

    /// Sets the masters that have slots. Only these are published: replicas, nodes that gave their
    /// slots away, and dead nodes with a successor need not be reached.
    pub fn set_masters(&mut self, masters: &[ClusterNode]) {
        self.masters = Some(masters.iter().map(ToString::to_string).collect());
    }

    /// Counts a message that could not be sent because the cluster cannot be used.
    pub fn note_unsent(&self, function: ClusterFunction) {
        self.counts.count(function, ClusterResult::Unreachable);
    }

    /// Counts a stale answer. If the core ignored the answer, a later message of this host had
    /// overtaken it, and it counts as `Ok`.
    pub fn note_stale(&self, function: ClusterFunction, is_accepted: bool) {
        let result = if is_accepted { ClusterResult::Stale } else { ClusterResult::Ok };
        self.counts.count(function, result);
    }

    /// Forgets all nodes: the links are new.
    pub fn forget_nodes(&mut self) {
        self.nodes.clear();
        self.masters = None;
    }

    /// Publishes what was counted since the last call, and the present state.
    pub fn publish(
        &mut self,
        counters: Counters<'_>,
        figures: &Figures,
        spills: SpillCounts,
        kept_since_ms: Option<u64>,
    ) {
        let words = counters.extension();
        let counted = self.counts.take();
        for (function, counts) in ClusterFunction::ALL.into_iter().zip(counted.requests) {
            for (result, count) in ClusterResult::ALL.into_iter().zip(counts) {
                words.grow(function.place(result), count);
            }
        }
        words.grow_times(&counted.times);
        for counter in LeaseCounter::ALL {
            words.grow(counter.place(), figures.count(counter) - self.published.count(counter));
        }
        for (result, count) in SpillResult::ALL.into_iter().zip(spills) {
            words.grow(result.place(), count);
        }
        self.published = *figures;
        let has_slots = |node: &&ClusterNodeState| {
            self.masters.as_ref().is_none_or(|masters| masters.contains(&node.address))
        };
        let nodes = self.nodes.iter().filter(has_slots).cloned().collect();
        ClusterState { nodes, kept_since_ms, uses: self.uses }.store(words);
    }
}
