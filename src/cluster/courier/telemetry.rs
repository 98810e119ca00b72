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
use crate::warm::SpillFigures;

/// The figures published so far.
#[derive(Debug, Default)]
pub struct Telemetry {
    told: Figures,
    nodes: Vec<ClusterNodeState>,
    /// The addresses of the masters with slots. None if they are not known yet.
    masters: Option<Vec<String>>,
    uses: LeaseUses,
    counts: Arc<MessageCounts>,
}

/// Uses in all leases of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseUses {
    unspent: u64,
    held: u64,
    unreported: u64,
}

impl LeaseUses {
    /// Adds the uses of a lease.
    pub fn add(&mut self, holding: &Holding, now_ms: u64) {
        let lease = &holding.lease;
        let beyond = lease.extra.max(0).saturating_add(lease.sent_extra.max(0));
        self.unspent = self.unspent.saturating_add(holding.unspent(now_ms));
        self.held = self.held.saturating_add(holding.held(now_ms));
        self.unreported = self.unreported.saturating_add(beyond.unsigned_abs());
    }
}

impl Telemetry {
    /// A courier begins in this slot.
    pub fn begin(&self, counters: Counters<'_>) {
        CourierCounters::of(counters).begin();
    }

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
    pub fn note_stale(&self, function: ClusterFunction, is_heard: bool) {
        let result = if is_heard { ClusterResult::Stale } else { ClusterResult::Ok };
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
    pub fn tell_spills(counters: Counters<'_>, figures: &SpillFigures) {
        let counters = CourierCounters::of(counters);
        let SpillFigures { spilled, stayed, lost, fetched, missed } = *figures;
        for (result, count) in [
            (SpillResult::Spilled, spilled),
            (SpillResult::Stayed, stayed),
            (SpillResult::Lost, lost),
            (SpillResult::Fetched, fetched),
            (SpillResult::Missed, missed),
        ] {
            counters.add_spills(result, count);
        }
    }

    /// Publishes what was counted since the last call.
    pub fn tell(&mut self, counters: Counters<'_>, figures: &Figures, kept_since_ms: Option<u64>) {
        let counters = CourierCounters::of(counters);
        counters.set_kept_since(kept_since_ms);
        let counted = self.counts.take();
        for (function, counts) in ClusterFunction::ALL.into_iter().zip(counted.requests) {
            for (result, count) in ClusterResult::ALL.into_iter().zip(counts) {
                counters.add_requests(function, result, count);
            }
        }
        counters.add_times(&counted.times);
        let Figures { needs, grants, returns, recalls, claims, over, conflicts, .. } = *figures;
        let told = self.told;
        for (counter, now, then) in [
            (LeaseCounter::Needs, needs, told.needs),
            (LeaseCounter::Grants, grants, told.grants),
            (LeaseCounter::Returns, returns, told.returns),
            (LeaseCounter::Recalls, recalls, told.recalls),
            (LeaseCounter::Claims, claims, told.claims),
            (LeaseCounter::Over, over, told.over),
            (LeaseCounter::Conflicts, conflicts, told.conflicts),
        ] {
            counters.add(counter, now - then);
        }
        let has_slots = |node: &&ClusterNodeState| {
            self.masters.as_ref().is_none_or(|masters| masters.contains(&node.address))
        };
        let nodes: Vec<ClusterNodeState> = self.nodes.iter().filter(has_slots).cloned().collect();
        counters.set_nodes(&nodes);
        for (state, uses) in [
            (LeaseState::Unspent, self.uses.unspent),
            (LeaseState::Held, self.uses.held),
            (LeaseState::Unreported, self.uses.unreported),
        ] {
            counters.set_uses(state, uses);
        }
        self.told = *figures;
    }
}
