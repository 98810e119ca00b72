//! A machine is lost with its directory, or leaves in order. The tests count the missing uses
//! exactly.

use nix::sys::signal::Signal;
use redis::cmd;

use super::deaths::shared;
use super::hosts::{Hosts, Load, Routing, Shared, charge, map, spend_all};
use super::nodes::{Granted, Nodes};
use super::outages::{ledger, only_row, wait_for_answers};
use super::resets;
use crate::common::wait_until;

const MAX: u64 = 600;

fn total(share: &str) -> Shared {
    shared(share, &format!("policy=\"total\" max=\"{MAX}\""))
}

/// Three machines and their cluster. `None` if this machine has no Redis.
fn started(share: &str) -> Option<(Nodes, Hosts)> {
    let nodes = Nodes::start()?;
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&[total(share)]));
    Some((nodes, hosts))
}

/// The uses that the ledger of b0 has granted a machine.
fn allowance(nodes: &Nodes, row: &[u8]) -> u64 {
    let (master, ledger) = ledger(nodes);
    let row: Vec<u8> = nodes.ask(master, cmd("HGET").arg(&ledger).arg(row));
    let (words, _) = row.as_chunks::<8>();
    u64::from_be_bytes(words[1])
}

// Shows: cluster-faults.
#[test]
fn of_a_total_what_a_lost_machine_had_not_spent_is_missing_until_a_reset() {
    let Some(nodes) = Nodes::start() else { return };
    let hosts = &resets::hosts(3, &nodes, &[total("cluster")]);
    let mut servers = hosts.start();
    charge(&mut servers[0].client(), 10);
    let row = only_row(&nodes);
    charge(&mut servers[1].client(), 10);
    charge(&mut servers[2].client(), 10);
    // In case the machine's lease was returned meanwhile.
    charge(&mut servers[0].client(), 1);
    hosts.lose(0, servers.remove(0));
    let mut admitted = 31 + spend_all(&hosts.addresses()[1..]);
    let missing = allowance(&nodes, &row) - 11;
    assert!(missing > 0, "it held nothing");
    assert_eq!(admitted, MAX - missing);
    let granted = nodes.granted(0);
    assert_eq!(granted.uses, MAX);
    // Not all of its uses were reported.
    assert!((missing..=missing + 11).contains(&granted.unspent), "{granted:?}, {missing} missing");
    // A new machine with an empty directory takes its place.
    servers.insert(0, hosts.setups[0].start());
    admitted += spend_all(&hosts.addresses());
    assert_eq!(admitted, MAX - missing);
    resets::reset(&hosts.setups[1], "b0");
    hosts.setups.iter().for_each(|setup| resets::wait_for_epoch(setup, 2001, 1));
    assert_eq!(spend_all(&hosts.addresses()), MAX, "after the reset");
    drop(servers);
}

// Shows: cluster-faults.
#[test]
fn where_every_use_asks_a_lost_machine_takes_what_it_had_just_asked_for_at_most() {
    let Some((nodes, hosts)) = started("exact") else { return };
    let mut servers = hosts.start();
    let addresses = hosts.addresses();
    let load = Load::new(&addresses, 1, Routing::None);
    let histories = load.run(|load| {
        wait_for_answers(load, 200);
        hosts.lose(0, servers.remove(0));
        load.spend();
    });
    let (admitted, lost) = (histories[0].admitted.len() as u64, histories[0].lost.len() as u64);
    println!("{admitted} admitted and {lost} lost of {MAX}: {:?}", nodes.granted(0));
    assert!(admitted <= MAX, "{admitted}");
    // Each client had asked for at most one use.
    assert!(admitted + load.clients >= MAX, "{admitted} and {lost} lost");
    drop(servers);
}

// Shows: cluster-faults.
#[test]
fn what_a_machine_that_leaves_has_not_spent_goes_back_and_is_admitted_by_the_others() {
    let Some((nodes, hosts)) = started("cluster") else { return };
    let mut servers = hosts.start();
    charge(&mut servers[0].client(), 50);
    // The lease is returned after ten idle seconds.
    wait_until("its lease goes back", || {
        (nodes.granted(0) == Granted { uses: 50, unspent: 0 }).then_some(())
    });
    let mut leaves = servers.remove(0);
    leaves.signal(Signal::SIGTERM);
    assert!(leaves.wait().success());
    drop(leaves);
    std::fs::remove_dir_all(hosts.setups[0].path("data")).expect("removed");
    assert_eq!(spend_all(&hosts.addresses()[1..]), MAX - 50);
    assert_eq!(nodes.granted(0).uses, MAX);
    drop(servers);
}
