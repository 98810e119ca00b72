//! What the courier counts and sees, for metrics, /health and the log: in the counters of its slot.
//!
//! Invariant: what was counted is added once, however often it is told.

use frs::store::counter::{
    ClusterFunction, ClusterNodeState, ClusterResult, Counters, CourierCounters, LeaseCounter,
};

use super::core::{Figures, Function, RequestResult};

/// What was told so far.
#[derive(Debug, Default)]
pub struct Telemetry {
    told: Figures,
    nodes: Vec<ClusterNodeState>,
}

impl Telemetry {
    /// A courier begins in this slot.
    pub fn begin(&self, counters: Counters<'_>) {
        CourierCounters::of(counters).begin();
    }

    /// A node of the cluster answers, or does not any more.
    pub fn note_node(&mut self, address: &str, is_up: bool) {
        match self.nodes.iter_mut().find(|node| node.address == address) {
            Some(node) => node.is_up = is_up,
            None => self.nodes.push(ClusterNodeState { address: address.to_owned(), is_up }),
        }
    }

    /// The links are new: nothing is known of the nodes.
    pub fn forget_nodes(&mut self) {
        self.nodes.clear();
    }

    /// Tells what was counted since the last time.
    pub fn tell(&mut self, counters: Counters<'_>, figures: &Figures) {
        let counters = CourierCounters::of(counters);
        for function in Function::ALL {
            for result in RequestResult::ALL {
                let new = figures.requests(function, result) - self.told.requests(function, result);
                counters.add_requests(function_of(function), result_of(result), new);
            }
        }
        let Figures { wants, grants, returns, recalls, claims, over, conflicts, .. } = *figures;
        let told = self.told;
        for (counter, now, then) in [
            (LeaseCounter::Wants, wants, told.wants),
            (LeaseCounter::Grants, grants, told.grants),
            (LeaseCounter::Returns, returns, told.returns),
            (LeaseCounter::Recalls, recalls, told.recalls),
            (LeaseCounter::Claims, claims, told.claims),
            (LeaseCounter::Over, over, told.over),
            (LeaseCounter::Conflicts, conflicts, told.conflicts),
        ] {
            counters.add(counter, now - then);
        }
        counters.set_nodes(&self.nodes);
        self.told = *figures;
    }
}

fn function_of(function: Function) -> ClusterFunction {
    match function {
        Function::Holders => ClusterFunction::Holders,
        Function::Interval
        | Function::Calendar
        | Function::Total
        | Function::Sliding
        | Function::Token
        | Function::SlidingCounter => ClusterFunction::Take,
    }
}

fn result_of(result: RequestResult) -> ClusterResult {
    match result {
        RequestResult::Answered => ClusterResult::Ok,
        RequestResult::Stale => ClusterResult::Stale,
        RequestResult::Elsewhere => ClusterResult::Error,
        RequestResult::Lost => ClusterResult::Timeout,
        RequestResult::Down => ClusterResult::Unreachable,
    }
}
