//! Answers of the ledger that come later than items wait.

use std::time::Duration;

use super::gate::Gate;
use super::hosts::{Hosts, Load, Routing, Shared, map};
use super::nodes::Nodes;

const HOSTS: u64 = 2;

// Shows: on-miss-admit.
#[test]
fn where_answers_are_late_a_machine_admits_its_largest_lease_beyond_the_maximum() {
    let Some(nodes) = Nodes::masters_alone() else { return };
    // The last number is the largest lease: half of so small a maximum, or one use where each use
    // asks.
    let cases = [
        ("cluster", "policy=\"total\"", 1, 1),
        ("cluster", "policy=\"total\"", 30, 15),
        ("cluster", "policy=\"interval\" interval=\"1h\"", 30, 15),
        ("cluster", "policy=\"sliding\" interval=\"1h\"", 30, 15),
        ("cluster", "policy=\"token\" rate=\"30/d\" burst=\"30\"", 30, 15),
        ("exact", "policy=\"total\"", 30, 1),
    ];
    let shared = cases.map(|(share, policy, max, _)| {
        let biz = format!("share=\"{share}\" hosts=\"{HOSTS}\" wait=\"20ms\" on-miss=\"admit\"");
        let max = if policy.contains("token") { String::new() } else { format!(" max=\"{max}\"") };
        Shared::new(&biz, &format!("{policy}{max}"))
    });
    let gate = Gate::new(&nodes);
    gate.slow(Duration::from_millis(60));
    let hosts = Hosts::new(HOSTS as usize, &gate.seeds(), "timeout=\"2s\"", &map(&shared));
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let histories = Load::new(&addresses, shared.len(), Routing::None).run(Load::spend);
    for ((share, policy, max, most), history) in cases.into_iter().zip(&histories) {
        let admitted = history.admitted.len() as u64;
        let told = format!("share={share} {policy}: {admitted} admitted of {max}");
        println!("{told}, {} refused", history.refused);
        assert!((max..=max + HOSTS * most).contains(&admitted), "{told}");
    }
    drop(servers);
}
