//! The cluster fails in each of its ways while three hosts use it: what is over and what is under
//! stays within the bounds that the design gives.
//!
//! Each test prints its figures beside the bounds.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use frs_server::courier::ledger::{LIBRARY, LIBRARY_NAME};
use frs_server::courier::name;
use redis::cmd;

use super::history::History;
use super::hosts::{Hosts, Load, Routing, Shared, map};
use super::nodes::{MASTERS, Nodes};
use crate::common::{Server, wait_until};

/// Hosts of each test.
pub const HOSTS: u64 = 3;
const MAX: u64 = 3_000;

fn hour(max: u64, more: &str) -> Shared {
    let biz = format!("share=\"cluster\" hosts=\"{HOSTS}\" wait=\"200ms\" {more}");
    Shared::new(&biz, &format!("policy=\"interval\" interval=\"1h\" max=\"{max}\""))
}

/// What was over and what under; printed beside the bound.
pub fn figures(what: &str, history: &History, max: u64, bound: u64) -> [u64; 2] {
    let (admitted, lost) = (history.admitted.len() as u64, history.lost.len() as u64);
    let over = admitted.saturating_sub(max);
    let under = max.saturating_sub(admitted + lost);
    println!("{what}: {admitted} admitted of {max}: over {over} (at most {bound}), under {under}");
    [over, under]
}

/// Waits until so many more requests are answered.
pub fn wait_for_answers(load: &Load<'_>, more: u64) {
    let answered = load.answered.load(Ordering::Relaxed);
    wait_until("more is answered", || {
        (load.answered.load(Ordering::Relaxed) >= answered + more).then_some(())
    });
}

/// Runs a load of one business, fails the cluster in between, and spends what is left.
fn failing(
    nodes: &mut Nodes,
    cluster: &str,
    biz: Shared,
    fail: impl FnOnce(&mut Nodes, &Load<'_>),
) -> History {
    let hosts = Hosts::new(HOSTS as usize, &nodes.seeds(), cluster, &map(&[biz]));
    let servers: Vec<Server<'_>> = hosts.start();
    let addresses = hosts.addresses();
    let load = Load::new(&addresses, 1, Routing::None);
    let mut histories = load.run(|load| {
        wait_for_answers(load, 200);
        fail(nodes, load);
        load.spend();
    });
    drop(servers);
    histories.remove(0)
}

/// The ledger of b0, and its first master.
pub fn ledger(nodes: &Nodes) -> (usize, String) {
    let pattern = format!("frs:{{{}:2001:*", super::hosts::NAME);
    let found = |i: usize| {
        let keys: Vec<String> = nodes.ask(i, cmd("KEYS").arg(&pattern));
        keys.into_iter().next().map(|key| (i, key))
    };
    wait_until("a ledger is there", || (0..MASTERS).find_map(found))
}

#[test]
fn a_killed_master_whose_replica_is_behind_costs_nothing_where_holders_claim() {
    let Some(mut nodes) = Nodes::start() else { return };
    let history = failing(&mut nodes, "learn=\"3s\"", hour(MAX, ""), |nodes, load| {
        let (master, _) = ledger(nodes);
        // The replica stays at what it has.
        nodes.stop(master + MASTERS);
        wait_for_answers(load, 300);
        nodes.kill(master);
        nodes.go_on(master + MASTERS);
        nodes.wait_until_master(master + MASTERS);
        nodes.wait_until_whole();
    });
    let [over, _] = figures("master killed, replica behind", &history, MAX, 0);
    assert_eq!(over, 0);
}

#[test]
fn an_emptied_cluster_costs_a_slice_a_host_at_most() {
    let Some(mut nodes) = Nodes::start() else { return };
    let history = failing(&mut nodes, "learn=\"1s\"", hour(MAX, ""), |nodes, load| {
        (0..MASTERS).for_each(|i| nodes.flush_all(i));
        wait_for_answers(load, 500);
        (0..MASTERS).for_each(|i| nodes.flush_all(i));
    });
    // The library looks at its server each 100 ms: until then it may grant each host one slice, of
    // each time that the cluster is emptied.
    let gap = 2 * MAX / 2;
    let [over, _] = figures("FLUSHALL, twice", &history, MAX, gap);
    assert!(over <= gap);
}

#[test]
fn a_slot_moves_to_another_master_under_load() {
    let Some(mut nodes) = Nodes::start() else { return };
    let history = failing(&mut nodes, "learn=\"500ms\"", hour(MAX, ""), |nodes, load| {
        let (from, key) = ledger(nodes);
        let (slot, to) = (name::slot(key.as_bytes()), (from + 1) % MASTERS);
        nodes.begin_to_move(slot, from, to);
        wait_for_answers(load, 100);
        nodes.move_keys(slot, from, to);
        wait_for_answers(load, 100);
        nodes.end_move(slot, from, to);
    });
    let [over, under] = figures("slot migrated", &history, MAX, 0);
    assert_eq!([over, under], [0, 0]);
}

#[test]
fn masters_that_hand_over_under_load_cost_nothing() {
    let Some(mut nodes) = Nodes::start() else { return };
    // A master that hands over stands still meanwhile.
    let biz = hour(MAX, "on-down=\"refuse\"");
    let history = failing(&mut nodes, "learn=\"500ms\"", biz, |nodes, load| {
        let (master, _) = ledger(nodes);
        // There and back, and nothing that was written is lost.
        nodes.hand_over(master + MASTERS);
        wait_for_answers(load, 200);
        // The other masters vote for a place once in two node timeouts.
        thread::sleep(Duration::from_secs(2));
        nodes.hand_over(master);
        wait_for_answers(load, 200);
        let sent_away = |i| {
            let errors: String = nodes.ask(i, cmd("INFO").arg("errorstats"));
            errors.contains("errorstat_MOVED") || errors.contains("errorstat_READONLY")
        };
        assert!([master, master + MASTERS].into_iter().any(sent_away), "no host was late");
    });
    let [over, under] = figures("handed over, twice", &history, MAX, 0);
    assert_eq!([over, under], [0, 0]);
}

/// Whether a node has a library of functions.
fn has_library(nodes: &Nodes, i: usize, name: &str) -> bool {
    let mut list = cmd("FUNCTION");
    let found: Vec<redis::Value> =
        nodes.ask(i, list.arg("LIST").arg("LIBRARYNAME").arg(name).arg("WITHCODE"));
    !found.is_empty()
}

#[test]
fn a_library_that_is_deleted_is_loaded_again_beside_those_of_other_versions() {
    let Some(mut nodes) = Nodes::start() else { return };
    let others = ["frs_0", "frs_2"];
    let history = failing(&mut nodes, "learn=\"500ms\"", hour(MAX, ""), |nodes, load| {
        for i in 0..MASTERS {
            for name in others {
                let library = LIBRARY.replace(LIBRARY_NAME, name);
                let _: String = nodes.ask(i, cmd("FUNCTION").arg("LOAD").arg(library));
            }
        }
        for _ in 0..3 {
            for i in 0..MASTERS {
                let _: String = nodes.ask(i, cmd("FUNCTION").arg("DELETE").arg(LIBRARY_NAME));
            }
            wait_until("all masters have it again", || {
                (0..MASTERS).all(|i| has_library(nodes, i, LIBRARY_NAME)).then_some(())
            });
            wait_for_answers(load, 200);
        }
        let has_others = |i| others.iter().all(|name| has_library(nodes, i, name));
        assert!((0..MASTERS).all(has_others));
    });
    let [over, under] = figures("library deleted, three times", &history, MAX, 0);
    assert_eq!([over, under], [0, 0]);
}

/// All nodes stop for ten seconds. Returns over and under.
fn stopped(on_down: &str, bound: u64) -> [u64; 2] {
    let Some(mut nodes) = Nodes::start() else { return [0, 0] };
    let biz = hour(MAX, &format!("on-down=\"{on_down}\""));
    let history = failing(&mut nodes, "learn=\"500ms\"", biz, |nodes, _| {
        (0..2 * MASTERS).for_each(|i| nodes.stop(i));
        thread::sleep(Duration::from_secs(10));
        (0..2 * MASTERS).for_each(|i| nodes.go_on(i));
        nodes.wait_until_whole();
    });
    figures(&format!("cluster stopped for 10 s, on-down={on_down}"), &history, MAX, bound)
}

#[test]
fn a_stopped_cluster_with_on_down_refuse_is_never_over() {
    assert_eq!(stopped("refuse", 0), [0, 0]);
}

#[test]
fn a_stopped_cluster_with_on_down_share_is_over_by_a_share_for_each_host_at_most() {
    let [over, under] = stopped("share", MAX);
    assert!(over <= MAX, "k * max / hosts, of all hosts");
    assert_eq!(under, 0);
}

#[test]
fn a_stopped_cluster_with_on_down_local_is_over_by_a_maximum_for_each_host_at_most() {
    let [over, under] = stopped("local", HOSTS * MAX);
    assert!(over <= HOSTS * MAX);
    assert_eq!(under, 0);
}
