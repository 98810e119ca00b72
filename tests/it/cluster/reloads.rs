//! Reloads that change limits of a shared business, or move its group. Limits that stay keep their
//! leases, and no lease is used for another ledger.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use nix::sys::signal::Signal;

use super::deaths::check_ending;
use super::hosts::{Hosts, Load, Routing, Shared, charge, map, spend_all};
use super::nodes::{NodeOptions, Nodes};
use crate::common::load::wait_for_more;
use crate::common::{Client, Setup, text, wait_until};

const MAX: u64 = 100;

/// The text between two limits of a business.
const BETWEEN: &str = "/><limit ";

fn total() -> String {
    format!("policy=\"total\" max=\"{MAX}\"")
}

/// The map.xml of a business with these limits.
fn of(limits: &[&str]) -> String {
    let biz = "share=\"cluster\" hosts=\"2\" wait=\"1s\" on-down=\"refuse\"";
    map(&[Shared::new(biz, &limits.join(BETWEEN))])
}

/// The map.xml of a business with these limits and `keys` keys. Records are only as long as needed.
fn sized(keys: u32, limits: &[&str]) -> String {
    let map = of(limits);
    let (from, to) = (map.find("<group").expect("a group"), map.find("  <biz").expect("a biz"));
    format!("{}<group name=\"default\" keys=\"{keys}\"/>\n{}", &map[..from], &map[to..])
}

/// File 0 of the group, and file 0 of the group that it moves to.
fn files(setup: &Setup) -> [PathBuf; 2] {
    ["default.0.mmap", "default.0.next.mmap"].map(|name| setup.path("data").join(name))
}

/// The inode of the group's file 0.
fn inode(setup: &Setup) -> u64 {
    files(setup)[0].metadata().expect("a file").ino()
}

fn wait_until_it_has_moved(setup: &Setup) {
    wait_until("the group has moved", || (!files(setup)[1].exists()).then_some(()));
}

fn nodes() -> Option<Nodes> {
    Nodes::masters_alone_with(NodeOptions::default())
}

fn reload(setup: &Setup, map: &str) {
    setup.write_map(map);
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

// Shows: leases-over-reloads.
#[test]
fn a_limit_that_comes_and_goes_costs_its_neighbour_no_lease() {
    let Some(nodes) = nodes() else { return };
    let total = total();
    let alone = of(&[&total]);
    let hosts = Hosts::new(2, &nodes.seeds(), "timeout=\"500ms\"", &alone);
    let _servers = hosts.start();
    let more = of(&[&total, "policy=\"interval\" interval=\"1h\" max=\"1000\""]);
    for host in hosts.addresses() {
        charge(&mut Client::connect(host), 1);
    }
    for map in [more, alone] {
        for setup in &hosts.setups {
            reload(setup, &map);
            charge(&mut Client::connect(setup.address), 1);
        }
    }
    let before = 3 * hosts.setups.len() as u64;
    assert_eq!(before + spend_all(&hosts.addresses()), MAX, "what no host has spent is not lost");
}

// Shows: leases-over-reloads.
#[test]
fn a_limit_that_makes_the_group_move_costs_its_neighbour_no_lease() {
    let Some(nodes) = nodes() else { return };
    let total = total();
    let alone = sized(1_000, &[&total]);
    let hosts = Hosts::new(2, &nodes.seeds(), "timeout=\"500ms\"", &alone);
    let _servers = hosts.start();
    let hour = "policy=\"interval\" interval=\"1h\" max=\"1000\"";
    let more = sized(1_000, &[&total, hour, "policy=\"count\"", hour]);
    for host in hosts.addresses() {
        charge(&mut Client::connect(host), 1);
    }
    for (map, moves) in [(&more, true), (&alone, false)] {
        for setup in &hosts.setups {
            let before = inode(setup);
            reload(setup, map);
            charge(&mut Client::connect(setup.address), 1);
            wait_until_it_has_moved(setup);
            assert!(!moves || inode(setup) != before, "the records are as short as before");
        }
    }
    let before = 3 * hosts.setups.len() as u64;
    assert_eq!(before + spend_all(&hosts.addresses()), MAX, "what no host has spent is not lost");
}

// Shows: growth.
#[test]
fn a_group_that_grows_under_load_loses_no_lease_though_its_server_is_killed() {
    const MAX: u64 = 25_000;
    let Some(nodes) = nodes() else { return };
    let total = format!("policy=\"total\" max=\"{MAX}\"");
    let hosts = Hosts::new(2, &nodes.seeds(), "timeout=\"500ms\"", &sized(1_000, &[&total]));
    let mut servers = hosts.start();
    let addresses = hosts.addresses();
    let mut killed_moving = 0;
    let histories = Load::new(&addresses, 1, Routing::None).run(|load| {
        for (nth, keys) in (1..).map(|nth| 1_000 << nth).take(6).enumerate() {
            wait_for_more(&load.answered, 100);
            let (setup, server) = (&hosts.setups[nth % 2], &mut servers[nth % 2]);
            let before = inode(setup);
            reload(setup, &sized(keys, &[&total]));
            if nth < 4 {
                server.kill_all_and_wait();
                killed_moving += u32::from(files(setup)[1].exists());
                *server = setup.start();
            }
            wait_until_it_has_moved(setup);
            assert_ne!(inode(setup), before);
        }
        load.spend();
    });
    assert!(killed_moving > 0, "each move had ended");
    check_ending(&nodes, &histories, &[MAX]);
}

// Shows: older-copies.
#[test]
fn an_older_copy_of_a_group_file_spends_nothing_twice() {
    let Some(nodes) = nodes() else { return };
    let total = total();
    let hosts = Hosts::new(1, &nodes.seeds(), "timeout=\"500ms\"", &sized(1_000, &[&total]));
    let [setup] = &hosts.setups[..] else { panic!("a host") };
    let mut admitted = 0;
    let copy = setup.path("data/copy");
    for _ in 0..2 {
        let mut server = setup.start();
        for _ in 0..11 {
            charge(&mut Client::connect(setup.address), 1);
            admitted += 1;
        }
        // A kill lets the server keep its leases.
        server.kill_all_and_wait();
        if !copy.exists() {
            std::fs::copy(&files(setup)[0], &copy).expect("copied");
        }
    }
    std::fs::rename(copy, &files(setup)[0]).expect("renamed");
    let server = setup.start();
    admitted += spend_all(&[setup.address]);
    assert!(admitted <= MAX, "{admitted} of {MAX}");
    assert!(admitted < MAX, "the leases of the copy are void");
    server.signal(Signal::SIGTERM);
}

// Shows: leases-over-reloads.
#[test]
fn a_limit_with_another_number_spends_nothing_of_its_ledger_before() {
    let Some(nodes) = nodes() else { return };
    let total = total();
    let hosts = Hosts::new(2, &nodes.seeds(), "timeout=\"500ms\"", &of(&[&total]));
    let _servers = hosts.start();
    let [one, other] = &hosts.setups[..] else { panic!("two hosts") };
    charge(&mut Client::connect(one.address), 1);
    // The change moves nothing in the records of keys, but it does in the record of the business.
    let second = of(&["policy=\"count\" scope=\"biz\"", &total]);
    hosts.setups.iter().for_each(|setup| reload(setup, &second));
    // The ledger of the second limit grants everything to the host that asks.
    assert_eq!(spend_all(&[other.address]), MAX);
    assert_eq!(spend_all(&[one.address]), 0, "uses of the first limit's ledger");
}

// Shows: leases-over-reloads.
#[test]
fn a_start_with_other_limits_finds_the_leases_of_before() {
    let Some(nodes) = nodes() else { return };
    let total = total();
    let hosts = Hosts::new(1, &nodes.seeds(), "timeout=\"500ms\"", &of(&[&total]));
    let [setup] = &hosts.setups[..] else { panic!("a host") };
    let mut server = setup.start();
    charge(&mut Client::connect(setup.address), 1);
    server.kill_all_and_wait();
    drop(server);
    setup.write_map(&of(&[&total, "policy=\"interval\" interval=\"1h\" max=\"1000\""]));
    let _server = setup.start();
    assert_eq!(1 + spend_all(&[setup.address]), MAX, "what was not spent before is not lost");
}
