//! Unusable clusters: each has its own fault.

use std::net::TcpListener;
use std::time::Duration;

use frs_base::clock;
use frs_cluster::connections::{ClusterFault, Event, Lost};
use frs_conf::{ClusterNode, ClusterSecret};
use redis::cmd;

use super::host::{Host, SECRET, conf};
use super::nodes::{MASTERS, NodeOptions, Nodes, ledger_in};
use crate::common::wait_until;

#[test]
fn another_secret_under_the_same_name_is_a_fault() {
    let Some(nodes) = Nodes::start() else { return };
    let host = Host::start(&conf(nodes.seeds())).settled();
    let other = Host::try_start(&conf(nodes.seeds()), &ClusterSecret::new([8; 32]));
    let Err(ClusterFault::OtherSecret { cluster, .. }) = other.map(|_| ()) else {
        panic!("another secret was taken")
    };
    assert_eq!(cluster, "test");
    // A cluster with another name is another cluster.
    let mut named = conf(nodes.seeds());
    named.name = "other".to_owned();
    Host::try_start(&named, &ClusterSecret::new([8; 32])).expect("fit");
    drop(host);
}

#[test]
fn a_node_that_evicts_is_a_fault() {
    let Some(nodes) = Nodes::start() else { return };
    let set = |policy| {
        let mut config = cmd("CONFIG");
        let _: String = nodes.ask(1, config.arg("SET").arg("maxmemory-policy").arg(policy));
    };
    set("allkeys-lru");
    let fault = Host::try_start(&conf(nodes.seeds()), SECRET).map(|_| ());
    let node = nodes.node(1).to_string();
    assert_eq!(fault, Err(ClusterFault::Eviction { node, policy: "allkeys-lru".to_owned() }));
    set("noeviction");
    Host::start(&conf(nodes.seeds())).settled();
}

#[test]
fn a_server_without_a_cluster_is_a_fault() {
    let arguments = vec!["--cluster-enabled".to_owned(), "no".to_owned()];
    let options = NodeOptions { arguments, ..NodeOptions::default() };
    let Some(nodes) = Nodes::without_cluster(1, options) else { return };
    let fault = Host::try_start(&conf(nodes.seeds()), SECRET).map(|_| ()).expect_err("a fault");
    assert_eq!(fault, ClusterFault::NoCluster { node: nodes.node(0).to_string() });
    assert!(fault.to_string().contains("cluster_enabled:0"), "{fault}");
}

#[test]
fn a_cluster_that_does_not_answer_is_waited_for() {
    let Some(mut nodes) = Nodes::start() else { return };
    (0..2 * MASTERS).for_each(|i| nodes.kill(i));
    let mut host = Host::start(&conf(nodes.seeds()));
    host.wait_for("it is told", |event| {
        matches!(event, Event::Fault(ClusterFault::Unreachable(_))).then_some(())
    });
    assert!(!host.links.is_reachable(7));
    let id = host.need(&ledger_in(7, 1), 1);
    assert_eq!(host.answer(id), Err(Lost::Down { slot: 7 }));
    (0..2 * MASTERS).for_each(|i| nodes.restart(i));
    // The nodes come back one after the other, so a link may break once more.
    host.need_until_granted(&ledger_in(7, 1), 1);
}

#[test]
fn a_seed_that_accepts_and_says_nothing_holds_nobody_up() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = silent.local_addr().expect("bound").port();
    let seed = ClusterNode { host: "127.0.0.1".to_owned(), port };
    let begun = clock::instant();
    let host = Host::start(&conf(vec![seed.clone()]));
    drop(host);
    assert!(clock::since(begun) < Duration::from_secs(8), "{:?}", clock::since(begun));
    // Another seed is asked after the silent one.
    let Some(nodes) = Nodes::start() else { return };
    let seeds = [vec![seed], nodes.seeds()].concat();
    let mut host = Host::start(&conf(seeds));
    wait_until("the cluster is found", || {
        host.hear();
        host.links.is_reachable(7).then_some(())
    });
}
