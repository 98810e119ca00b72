//! Publishes the courier's figures for metrics, /health and the log, in the counters of its slot.
//!
//! Invariant: each event is added to the counters once, however often they are published.

use std::sync::Arc;

use frs_store::counter::Counters;

use crate::connections::MessageCounts;
use crate::figures::{
    ClusterFunction, ClusterNodeState, ClusterResult, ClusterState, CourierFigures, LeaseCounter,
    LeaseUses, SpillResult,
};
use crate::warm::SpillCounts;

/// The figures published so far.
#[derive(Debug, Default)]
pub struct Telemetry {
    published: CourierFigures,
    /// The nodes of the present links.
    pub nodes: Vec<ClusterNodeState>,
    /// The addresses of the masters with slots. None if they are not known yet. Only these are
    /// published: replicas, nodes that gave their slots away, and dead nodes with a successor need
    /// not be reached.
    pub masters: Option<Vec<String>>,
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

    /// Counts a message that could not be sent because the cluster cannot be used.
    pub fn note_unsent(&self, function: ClusterFunction) {
        self.counts.count(function, ClusterResult::Unreachable);
    }

    /// The next figures are those of a courier that begins anew.
    pub fn begin_anew(&mut self) {
        self.published = CourierFigures::default();
        self.nodes.clear();
        self.masters = None;
    }

    /// Publishes what was counted since the last call, and the present state.
    pub fn publish(
        &mut self,
        counters: Counters<'_>,
        figures: &CourierFigures,
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

#[cfg(all(test, not(miri)))]
mod tests {
    use frs_store::testing::World;

    use super::*;
    use crate::figures::ClusterSums;

    #[test]
    fn counters_never_fall_though_the_courier_begins_anew() {
        let map = "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='64'/></map>";
        let world = World::new(map);
        let handle = world.handle(5);
        let mut telemetry = Telemetry::default();
        let needs = |telemetry: &mut Telemetry, count: u64| {
            let mut figures = CourierFigures::default();
            figures.add(LeaseCounter::Needs, count);
            let counters = handle.counters().expect("a slot");
            telemetry.publish(counters, &figures, SpillCounts::default(), None);
            ClusterSums::of(&handle.runtime().sums().extension).count(LeaseCounter::Needs)
        };
        assert_eq!(needs(&mut telemetry, 3), 3);
        assert_eq!(needs(&mut telemetry, 7), 7, "what was published is not added again");
        telemetry.begin_anew();
        assert_eq!(needs(&mut telemetry, 2), 9);
    }
}
