//! Publishes the courier's figures for metrics, /health and the log, in the counters of its slot.
//!
//! Invariant: each event is added to the counters once, however often they are published.

use std::sync::Arc;

use frs_conf::ClusterNode;
use frs_store::counter::Counters;

use super::core::Figures;
use crate::connections::MessageCounts;
use crate::figures::{
    ClusterFunction, ClusterNodeState, ClusterResult, CourierCounters, LeaseCounter, LeaseState,
    SpillResult,
};
use crate::lease::Holding;
use crate::warm::SpillCounts;

/// The figures published so far.
#[derive(Debug, Default)]
pub struct Telemetry {
    published: Figures,
    nodes: Vec<ClusterNodeState>,
    /// The addresses of the masters with slots. None if they are not known yet.
    masters: Option<Vec<String>>,
    uses: LeaseUses,
    counts: Arc<MessageCounts>,
}

/// Uses in all leases of the host, by their state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseUses([u64; LeaseState::ALL.len()]);

impl LeaseUses {
    /// Adds the uses of a lease.
    pub fn add(&mut self, holding: &Holding, now_ms: u64) {
        let lease = &holding.lease;
        let beyond = lease.extra.max(0).saturating_add(lease.sent_extra.max(0));
        for (state, uses) in [
            (LeaseState::Unspent, holding.unspent(now_ms)),
            (LeaseState::Reserved, holding.reserved(now_ms)),
            (LeaseState::Unreported, beyond.unsigned_abs()),
        ] {
            let sum = &mut self.0[state as usize];
            *sum = sum.saturating_add(uses);
        }
    }
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

    /// Where messages are counted.
    pub fn counts(&self) -> Arc<MessageCounts> {
        Arc::clone(&self.counts)
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

    /// Sets the uses in all leases, after a pass over them.
    pub fn set_uses(&mut self, uses: LeaseUses) {
        self.uses = uses;
    }

    /// Forgets all nodes: the links are new.
    pub fn forget_nodes(&mut self) {
        self.nodes.clear();
        self.masters = None;
    }

    /// Publishes the results for records since the last call.
    pub fn publish_spills(counters: Counters<'_>, counts: SpillCounts) {
        let counters = CourierCounters::of(counters);
        for (result, count) in SpillResult::ALL.into_iter().zip(counts) {
            counters.add_spills(result, count);
        }
    }

    /// Publishes what was counted since the last call.
    pub fn publish(
        &mut self,
        counters: Counters<'_>,
        figures: &Figures,
        kept_since_ms: Option<u64>,
    ) {
        let counters = CourierCounters::of(counters);
        counters.set_kept_since(kept_since_ms);
        let counted = self.counts.take();
        for (function, counts) in ClusterFunction::ALL.into_iter().zip(counted.requests) {
            for (result, count) in ClusterResult::ALL.into_iter().zip(counts) {
                counters.add_requests(function, result, count);
            }
        }
        counters.add_times(&counted.times);
        for counter in LeaseCounter::ALL {
            counters.add(counter, figures.count(counter) - self.published.count(counter));
        }
        let has_slots = |node: &&ClusterNodeState| {
            self.masters.as_ref().is_none_or(|masters| masters.contains(&node.address))
        };
        let nodes: Vec<ClusterNodeState> = self.nodes.iter().filter(has_slots).cloned().collect();
        counters.set_nodes(&nodes);
        for (state, uses) in LeaseState::ALL.into_iter().zip(self.uses.0) {
            counters.set_uses(state, uses);
        }
        self.published = *figures;
    }
}
