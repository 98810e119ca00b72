//! A master fails after the machine that used a key was lost. No machine claims that machine's
//! grants, so the replica's state decides.

use redis::{Connection, cmd};

use super::history::{Use, now_ms};
use super::hosts::{Hosts, Load, Routing, Shared, charge, map};
use super::nodes::{MASTERS, Nodes};
use super::outages::{HOSTS, figures, granted, ledger};

const MAX: u64 = 300;

/// The replica of a master, open for reads.
fn replica(nodes: &Nodes, master: usize) -> Connection {
    let mut replica = nodes.connect(master + MASTERS);
    let _: String = cmd("READONLY").query(&mut replica).expect("a replica");
    replica
}

/// Waits until the replica has all writes of the master.
fn wait_for_replica(nodes: &Nodes, master: usize, ledger: &str) {
    let mut connection = nodes.connect(master);
    // WAIT waits for the writes of its own connection only.
    let of_ledger = ledger.split(['{', '}']).nth(1).expect("a name in braces");
    let _: u64 = cmd("INCR").arg(format!("{{{of_ledger}}}")).query(&mut connection).expect("set");
    let acknowledged: u64 =
        cmd("WAIT").arg(1).arg(1_500).query(&mut connection).expect("an answer");
    assert_eq!(acknowledged, 1);
    let of_replica = granted(&mut replica(nodes, master), ledger);
    assert_eq!(of_replica, granted(&mut connection, ledger));
}

/// A machine uses all that it is granted and is lost with its directory. Then the master fails. Its
/// replica has all grants, or all but the last. Returns the uses admitted over and under the
/// maximum, and the grants that the replica did not know.
fn failed_over(has_all: bool) -> Option<([u64; 2], u64)> {
    let mut nodes = Nodes::start()?;
    let biz = format!("share=\"cluster\" hosts=\"{HOSTS}\" wait=\"200ms\" on-down=\"refuse\"");
    let limit = format!("policy=\"interval\" interval=\"1h\" max=\"{MAX}\"");
    let map = map(&[Shared::new(&biz, &limit)]);
    let hosts = Hosts::new(HOSTS as usize, &nodes.seeds(), "learn=\"1s\"", &map);
    let mut servers = hosts.start();
    let mut client = servers[0].client();
    charge(&mut client, 20);
    let (master, ledger) = ledger(&nodes);
    wait_for_replica(&nodes, master, &ledger);
    let mut of_master = nodes.connect(master);
    let mut used = 20;
    if !has_all {
        // The replica would still read writes that are already sent, so its connection is cut.
        nodes.stop(master + MASTERS);
        nodes.cut_replicas(master);
    }
    let before = granted(&mut of_master, &ledger);
    while used < before || granted(&mut of_master, &ledger) == before {
        charge(&mut client, 1);
        used += 1;
    }
    // Spends the whole lease, so that no uses are missing.
    while used < granted(&mut of_master, &ledger) {
        charge(&mut client, 1);
        used += 1;
    }
    let at_last = granted(&mut of_master, &ledger);
    let killed_ms = now_ms();
    hosts.lose(0, servers.remove(0));
    if has_all {
        wait_for_replica(&nodes, master, &ledger);
    }
    nodes.kill(master);
    if !has_all {
        nodes.go_on(master + MASTERS);
    }
    nodes.wait_until_master(master + MASTERS);
    nodes.wait_until_whole();
    let known = granted(&mut replica(&nodes, master), &ledger);
    let addresses = hosts.addresses();
    let mut histories = Load::new(&addresses[1..], 1, Routing::None).run(Load::spend);
    let mut history = histories.remove(0);
    let one = Use { from_ms: killed_ms, to_ms: killed_ms };
    history.admitted.extend(vec![one; used as usize]);
    println!("the replica knew of {known}, {at_last} were granted and {used} used");
    let bound = at_last - known;
    drop(servers);
    Some((figures("a machine and a master lost", &history, MAX, bound), bound))
}

// Shows: cluster-faults.
#[test]
fn where_no_machine_can_claim_a_failover_is_over_by_the_grants_that_are_lost_at_most() {
    let Some(([over, under], bound)) = failed_over(false) else { return };
    assert!(bound > 0, "the replica knew all");
    assert!(over <= bound, "{over} of {bound}");
    assert_eq!(under, 0);
}

// Shows: cluster-faults.
#[test]
fn where_the_replica_has_everything_a_failover_costs_nothing() {
    let Some((figures, bound)) = failed_over(true) else { return };
    assert_eq!((figures, bound), ([0, 0], 0));
}
