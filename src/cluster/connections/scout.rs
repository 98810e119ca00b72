//! The thread that reads the nodes' views of the cluster.
//!
//! Invariant: nodes are asked in turn. So a node that is cut off from the others does not alone
//! decide the owner's view.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use frs_base::clock;
use frs_conf::ClusterNode;
use redis::{Value, cmd};

use super::fault::ClusterFault;
use super::functions;
use super::thread_reports::{Report, Reports};
use super::topology::View;
use super::wire::{Access, Broken, Wire, words};
use crate::figures::ClusterFunction;

/// The shortest time between two looks. It is needed as each MOVED orders a look.
const BETWEEN_ASKED: Duration = Duration::from_millis(20);

/// An order of the owner to the scout.
pub(super) enum Order {
    /// Look now.
    Look,
    /// Ask these nodes.
    Nodes(Vec<ClusterNode>),
}

/// Looks until the orders are closed. `between` is the time between two looks.
pub(super) fn run(
    access: Access,
    nodes: Vec<ClusterNode>,
    between: Duration,
    reports: &Reports,
    orders: &Receiver<Order>,
) {
    let mut scout = Scout { access, nodes, wires: Vec::new(), next: 0, fault: None };
    loop {
        match scout.look() {
            Ok(view) => reports.send(Report::View(view)),
            Err(Broken::Lost(why)) => reports.send(Report::NoView(why)),
            Err(Broken::Unfit(fault)) => {
                if scout.fault.as_ref() != Some(&fault) {
                    reports.send(Report::Fault(fault.clone()));
                }
                scout.fault = Some(fault);
            }
        }
        let looked = clock::instant();
        let mut wait = between;
        loop {
            match orders.recv_timeout(wait.saturating_sub(clock::since(looked))) {
                Ok(Order::Look) => wait = BETWEEN_ASKED.min(between),
                Ok(Order::Nodes(nodes)) => scout.ask_these(nodes),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

struct Scout {
    access: Access,
    nodes: Vec<ClusterNode>,
    wires: Vec<Wire>,
    next: usize,
    fault: Option<ClusterFault>,
}

impl Scout {
    fn ask_these(&mut self, nodes: Vec<ClusterNode>) {
        self.wires.retain(|wire| nodes.contains(&wire.node));
        self.nodes = nodes;
    }

    /// The view of the next node that answers.
    fn look(&mut self) -> Result<View, Broken> {
        let mut broken = Broken::Lost("it has no nodes".to_owned());
        for _ in 0..self.nodes.len() {
            let node = self.nodes[self.next % self.nodes.len()].clone();
            self.next = self.next.wrapping_add(1);
            match self.view_of(&node) {
                Ok(view) if view.shards.iter().any(|shard| !shard.slots.is_empty()) => {
                    self.fault = None;
                    return Ok(view);
                }
                Ok(_) => broken = Broken::Lost(format!("{node} knows no slots")),
                Err(Broken::Lost(why)) => {
                    self.wires.retain(|wire| wire.node != node);
                    if let Broken::Lost(_) = broken {
                        broken = Broken::Lost(format!("{node}: {why}"));
                    }
                }
                Err(unfit) => {
                    self.wires.retain(|wire| wire.node != node);
                    broken = unfit;
                }
            }
        }
        Err(broken)
    }

    fn view_of(&mut self, node: &ClusterNode) -> Result<View, Broken> {
        let at = match self.wires.iter().position(|wire| wire.node == *node) {
            Some(at) => at,
            None => {
                self.wires.push(self.access.open(node)?);
                self.wires.len() - 1
            }
        };
        let wire = &mut self.wires[at];
        let commands = ["INFO", "SHARDS"].map(|what| {
            let mut command = cmd("CLUSTER");
            command.arg(what);
            command
        });
        let timeout = self.access.timeout;
        let answers = wire.exchange_counted(ClusterFunction::Shards, &commands, timeout)?;
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                return Err(why_no_view(wire, &words(error), timeout));
            }
        }
        View::read(&answers[0], &answers[1], node, self.access.tls)
            .map_err(|bad| Broken::Lost(bad.to_string()))
    }
}

/// Explains why a server gives no view: it may not be in cluster mode, or be too old.
fn why_no_view(wire: &mut Wire, error: &str, timeout: Duration) -> Broken {
    let node = wire.node.to_string();
    match functions::info(wire, timeout) {
        Ok(info) => info.fault(&node).map_or_else(|| wire.refusal(error), Broken::Unfit),
        Err(_) => wire.refusal(error),
    }
}
