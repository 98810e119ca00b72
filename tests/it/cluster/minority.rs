//! An old master in a minority: the master and a host beside it are parted from the rest.
//!
//! The test prints its figures beside the bounds.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redis::cmd;

use super::history::History;
use super::hosts::{Hosts, Load, Routing, Shared, map, settings_with};
use super::nodes::{MASTERS, NodeOptions, Nodes};
use super::outages::{HOSTS, figures, granted, ledger, wait_for_answers};
use super::wall::{BESIDE, Wall};
use crate::common::{Setup, files, wait_until};

/// The time after which a node is considered failed, and a master in a minority steps down.
const NODE_TIMEOUT_MS: u64 = 1_500;

/// A slice without an acknowledgement is asked for again, at last every 2 s, and several may be
/// pending.
const QUIET: Duration = Duration::from_secs(12);

/// The maximum of all hosts together.
const MAX: u64 = 300;

/// More answers than the other hosts need to use the maximum.
const ASKED: u64 = 2_000;

/// The ledger's state in both parts of the cluster.
#[derive(Debug, Clone, Copy)]
struct Parted {
    /// Uses that the new master knew as granted.
    known: u64,
    /// Uses that the old master had granted at last.
    granted: u64,
}

/// Logs the host in as one beside the parted node.
fn log_in(setup: &Setup, nodes: &Nodes, cluster: &str) {
    files::write_secret(&setup.path("conf/password"), "open");
    let login = format!(" user=\"{BESIDE}\" password-file=\"conf/password\"");
    setup.write_srv(&settings_with(&nodes.seeds(), cluster, &login));
}

fn says(nodes: &Nodes, i: usize, command: &str, what: &str, expected: &str) {
    wait_until(expected, || {
        let text: String = nodes.try_ask(i, cmd(command).arg(what))?;
        text.contains(expected).then_some(())
    });
}

/// Parts the master of b0 and a host from the rest, until the master has stepped down and its
/// replica serves.
fn part(nodes: &Nodes, wall: &Wall, load: &Load<'_>) -> Parted {
    let (master, ledger) = ledger(nodes);
    let replica = master + MASTERS;
    let mut config = cmd("CONFIG");
    config.arg("SET").arg("cluster-allow-reads-when-down").arg("yes");
    let _: String = nodes.ask(master, &config);
    let begun = Instant::now();
    wall.raise(master);
    let mut there = nodes.connect(replica);
    let _: String = cmd("READONLY").query(&mut there).expect("a replica");
    let known = granted(&mut there, &ledger);
    says(nodes, master, "CLUSTER", "INFO", "cluster_state:fail");
    println!("the old master has stepped down after {:?}", begun.elapsed());
    let mut here = nodes.connect(master);
    let at_first = granted(&mut here, &ledger);
    says(nodes, replica, "INFO", "replication", "role:master");
    says(nodes, replica, "CLUSTER", "INFO", "cluster_state:ok");
    // The other hosts use everything that the new master may still grant.
    let asked = load.answered.load(Ordering::Relaxed) + ASKED;
    wait_until("there is nothing more for the others", || {
        let is_asked = load.answered.load(Ordering::Relaxed) >= asked;
        (is_asked || granted(&mut there, &ledger) >= MAX).then_some(())
    });
    assert_eq!(granted(&mut here, &ledger), at_first, "it has stepped down");
    wall.lower();
    says(nodes, master, "INFO", "replication", "role:slave");
    nodes.wait_until_whole();
    Parted { known, granted: at_first }
}

/// Parts a host and a master from the others under load. Returns the history and the ledger's
/// states.
fn parted(cluster: &str) -> Option<(History, Parted)> {
    let wall = Wall::default();
    let nodes = Nodes::with(NodeOptions {
        arguments: vec!["--cluster-node-timeout".to_owned(), NODE_TIMEOUT_MS.to_string()],
        wall: Some(wall.clone()),
        ..NodeOptions::default()
    })?;
    for i in 0..2 * MASTERS {
        let mut acl = cmd("ACL");
        acl.arg("SETUSER").arg(BESIDE).arg(&["on", ">open", "~*", "&*", "+@all"]);
        let _: String = nodes.ask(i, &acl);
    }
    // Four hosts make leases small, so hosts ask often.
    let biz = "share=\"cluster\" hosts=\"4\" on-down=\"refuse\"";
    let limit = format!("policy=\"interval\" interval=\"1h\" max=\"{MAX}\"");
    let map = map(&[Shared::new(biz, &limit)]);
    let hosts = Hosts::new(HOSTS as usize, &nodes.seeds(), cluster, &map);
    log_in(&hosts.setups[0], &nodes, cluster);
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let mut load = Load::new(&addresses, 1, Routing::None);
    load.quiet = QUIET;
    let mut seen = None;
    let mut histories = load.run(|load| {
        wait_for_answers(load, 60);
        seen = Some(part(&nodes, &wall, load));
        load.spend();
    });
    drop(servers);
    println!("{seen:?}");
    Some((histories.remove(0), seen.expect("the wall stood")))
}

// Shows: cluster-faults.
#[test]
fn an_old_master_in_a_minority_is_over_by_what_it_granted_there_at_most() {
    let Some((history, seen)) = parted("learn=\"1s\"") else { return };
    let bound = seen.granted - seen.known;
    let [over, under] = figures("an old master in a minority", &history, MAX, bound);
    assert!(bound > 0, "it granted nothing to the host beside it: {seen:?}");
    assert!(over <= bound, "{seen:?}");
    assert_eq!(under, 0);
}

// Shows: leases-admit-max, cluster-faults.
#[test]
fn where_all_replicas_must_acknowledge_an_old_master_in_a_minority_is_never_over() {
    let Some((history, seen)) = parted("learn=\"1s\" timeout=\"100ms\" wait-replicas=\"1\"") else {
        return;
    };
    let [over, under] = figures("the same with wait-replicas", &history, MAX, 0);
    assert_eq!([over, under], [0, 0], "{seen:?}");
}
