//! The cluster fails in each possible way while three hosts use it. The uses over and under the
//! maximum stay within the documented bounds.
//!
//! Each test prints its figures beside the bounds.

use std::thread;
use std::time::{Duration, Instant};

use frs_cluster::ledger::{LIBRARY, LIBRARY_NAME};
use frs_cluster::name;
use redis::{Connection, cmd};

use super::gate::Gate;
use super::history::History;
use super::hosts::{Hosts, Load, Routing, Shared, map, settings};
use super::nodes::{MASTERS, Nodes};
use crate::common::load::wait_for_more;
use crate::common::{Server, wait_until};

/// The hosts of each test.
pub const HOSTS: u64 = 3;
const MAX: u64 = 3_000;
const CUT_OFF: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_secs(8);

/// With `refuse`, hosts admit nothing while a key has no master.
fn hour(max: u64) -> Shared {
    let biz = format!("share=\"cluster\" hosts=\"{HOSTS}\" wait=\"200ms\" on-down=\"refuse\"");
    Shared::new(&biz, &format!("policy=\"interval\" interval=\"1h\" max=\"{max}\""))
}

/// Prints and returns the uses over and under the maximum.
pub fn figures(what: &str, history: &History, max: u64, bound: u64) -> [u64; 2] {
    let (admitted, lost) = (history.admitted.len() as u64, history.lost.len() as u64);
    let over = admitted.saturating_sub(max);
    let under = max.saturating_sub(admitted + lost);
    println!("{what}: {admitted} admitted of {max}: over {over} (at most {bound}), under {under}");
    [over, under]
}

/// Waits for `more` answers.
pub fn wait_for_answers(load: &Load<'_>, more: u64) {
    wait_for_more(&load.answered, more);
}

/// Runs a load of one business, fails the cluster in between, and spends what is left.
fn failing(
    nodes: &mut Nodes,
    cluster: &str,
    biz: Shared,
    fail: impl FnOnce(&mut Nodes, &Load<'_>),
) -> History {
    let hosts = Hosts::new(HOSTS as usize, &nodes.seeds(), cluster, &map(&[biz]));
    failing_of(&hosts, 1, |load| fail(nodes, load)).remove(0)
}

/// Runs a load of several businesses on these hosts, calls `fail` in between, and spends what is
/// left.
fn failing_of(hosts: &Hosts, bizs: usize, fail: impl FnOnce(&Load<'_>)) -> Vec<History> {
    let servers: Vec<Server<'_>> = hosts.start();
    let addresses = hosts.addresses();
    let mut load = Load::new(&addresses, bizs, Routing::None);
    // Nodes that were stopped may call each other failed once they continue, and grant nothing
    // meanwhile.
    load.quiet = QUIET;
    let histories = load.run(|load| {
        wait_for_answers(load, 200);
        fail(load);
        load.spend();
    });
    drop(servers);
    histories
}

/// The time beyond `learn` for which a busy machine may grant nothing.
const SLACK_MS: u64 = 4_000;

/// The ledger of b0, and its first master.
pub fn ledger(nodes: &Nodes) -> (usize, String) {
    let pattern = format!("frs:{{{}:2001:*", super::nodes::NAME);
    let found = |i: usize| {
        let keys: Vec<String> = nodes.ask(i, cmd("KEYS").arg(&pattern));
        keys.into_iter().next().map(|key| (i, key))
    };
    wait_until("a ledger is there", || (0..MASTERS).find_map(found))
}

/// The row of the only machine that the ledger of b0 knows.
pub fn only_row(nodes: &Nodes) -> Vec<u8> {
    let (master, ledger) = ledger(nodes);
    let fields: Vec<Vec<u8>> = nodes.ask(master, cmd("HKEYS").arg(&ledger));
    let mut rows = fields.into_iter().filter(|name| name.starts_with(b"h"));
    let (first, second) = (rows.next().expect("a row"), rows.next());
    assert_eq!(second, None);
    first
}

/// The uses that a ledger has granted, as a node knows it.
pub fn granted(connection: &mut Connection, ledger: &str) -> u64 {
    cmd("HGET").arg(ledger).arg("u").query(connection).expect("a ledger")
}

// Shows: exactly-m-on-machines, cluster-faults.
#[test]
fn a_killed_master_whose_replica_is_behind_costs_nothing_where_holders_claim() {
    let Some(mut nodes) = Nodes::start() else { return };
    let mut failover = Duration::ZERO;
    let history = failing(&mut nodes, "learn=\"3s\"", hour(MAX), |nodes, load| {
        let (master, ledger) = ledger(nodes);
        let mut of_master = nodes.connect(master);
        // Without the cut, the replica would read the writes sent before once it continues.
        nodes.stop(master + MASTERS);
        nodes.cut_replicas(master);
        let known = granted(&mut of_master, &ledger);
        wait_until("more is granted", || (granted(&mut of_master, &ledger) > known).then_some(()));
        wait_for_answers(load, 100);
        let killed = Instant::now();
        nodes.kill(master);
        nodes.go_on(master + MASTERS);
        nodes.wait_until_master(master + MASTERS);
        nodes.wait_until_whole();
        failover = killed.elapsed();
    });
    // After the failover and `learn` everything left is granted.
    let figures = figures("master killed, replica behind", &history, MAX, 0);
    assert_eq!(figures, [0, 0]);
    let pause_ms = history.longest_pause_ms();
    println!("a failover of {failover:?}, and nothing admitted for {pause_ms} ms");
    assert!(u128::from(pause_ms) <= failover.as_millis() + 3_000 + u128::from(SLACK_MS));
}

// Shows: cluster-faults.
#[test]
fn an_emptied_cluster_costs_nothing_where_holders_claim() {
    let Some(mut nodes) = Nodes::start() else { return };
    let history = failing(&mut nodes, "learn=\"1s\"", hour(MAX), |nodes, load| {
        (0..MASTERS).for_each(|i| nodes.flush_all(i));
        wait_for_answers(load, 500);
        (0..MASTERS).for_each(|i| nodes.flush_all(i));
    });
    let figures = figures("FLUSHALL, twice", &history, MAX, 0);
    assert_eq!(figures, [0, 0]);
    let pause_ms = history.longest_pause_ms();
    assert!(pause_ms <= 1_000 + SLACK_MS, "nothing admitted for {pause_ms} ms");
}

#[test]
fn a_slot_moves_to_another_master_under_load() {
    let Some(mut nodes) = Nodes::start() else { return };
    let history = failing(&mut nodes, "learn=\"500ms\"", hour(MAX), |nodes, load| {
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

// Shows: cluster-faults.
#[test]
fn masters_that_hand_over_under_load_cost_nothing() {
    let Some(mut nodes) = Nodes::start() else { return };
    let history = failing(&mut nodes, "learn=\"500ms\"", hour(MAX), |nodes, load| {
        let (master, _) = ledger(nodes);
        // The master hands over and gets its slots back, without the loss of a write.
        nodes.hand_over(master + MASTERS);
        wait_for_answers(load, 200);
        // The other masters vote for a replica once in two node timeouts.
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

// Shows: cluster-faults.
#[test]
fn a_library_that_is_deleted_is_loaded_again_beside_those_of_other_versions() {
    let Some(mut nodes) = Nodes::start() else { return };
    let others = ["frs_0", "frs_2"];
    let history = failing(&mut nodes, "learn=\"500ms\"", hour(MAX), |nodes, load| {
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

// Shows: cluster-faults.
#[test]
fn a_library_that_finds_no_memory_is_named_and_loaded_when_there_is_some() {
    let Some(nodes) = Nodes::start() else { return };
    let hosts = Hosts::new(HOSTS as usize, &nodes.seeds(), "", &map(&[hour(MAX)]));
    let set_memory = |bytes: &str| {
        for i in 0..nodes.count() {
            let _: String = nodes.ask(i, cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes));
        }
    };
    let named = "it has no memory for the functions of frs: give it more maxmemory";
    let histories = failing_of(&hosts, 1, |load| {
        set_memory("1");
        for i in 0..MASTERS {
            let _: String = nodes.ask(i, cmd("FUNCTION").arg("DELETE").arg(LIBRARY_NAME));
        }
        wait_until("it is named", || {
            hosts.setups.iter().all(|setup| setup.log().contains(named)).then_some(())
        });
        wait_for_answers(load, 200);
        assert!((0..MASTERS).all(|i| !has_library(&nodes, i, LIBRARY_NAME)));
        set_memory("0");
        wait_until("all masters have it again", || {
            (0..MASTERS).all(|i| has_library(&nodes, i, LIBRARY_NAME)).then_some(())
        });
    });
    let [over, under] = figures("no memory for the library", &histories[0], MAX, 0);
    assert_eq!([over, under], [0, 0]);
}

/// Businesses of each `on-down`, with and without a window.
fn on_downs() -> Vec<(&'static str, Shared)> {
    let limits = ["policy=\"interval\" interval=\"1h\"", "policy=\"total\""];
    let of = |on_down, limit| {
        let biz = format!("share=\"cluster\" hosts=\"{HOSTS}\" on-down=\"{on_down}\"");
        (on_down, Shared::new(&biz, &format!("{limit} max=\"{CUT_OFF_MAX}\"")))
    };
    ["refuse", "share", "local"]
        .into_iter()
        .flat_map(|on_down| limits.map(|l| of(on_down, l)))
        .collect()
}

const CUT_OFF_MAX: u64 = 600;

/// Checks the cost of hosts that were cut off for ten seconds: each admits once what `on-down`
/// says, and nothing is missing when they reach the cluster again.
#[track_caller]
fn check_cut_off(what: &str, histories: &[History], hosts: u64) {
    for ((on_down, shared), history) in on_downs().iter().zip(histories) {
        let bound = match *on_down {
            "refuse" => 0,
            "share" => hosts * CUT_OFF_MAX / HOSTS,
            _ => hosts * CUT_OFF_MAX,
        };
        let what = format!("{what}, on-down={on_down}, {}", shared.limit);
        let [over, under] = figures(&what, history, CUT_OFF_MAX, bound);
        assert!(over <= bound, "{what}");
        assert_eq!(under, 0, "{what}");
        // The hosts have used what they allow themselves.
        assert!(bound == 0 || over > 0, "{what}");
    }
}

fn cut_off_hosts(nodes: &Nodes) -> Hosts {
    let shared: Vec<Shared> = on_downs().into_iter().map(|(_, shared)| shared).collect();
    Hosts::new(HOSTS as usize, &nodes.seeds(), "learn=\"500ms\"", &map(&shared))
}

// Shows: exactly-m-on-machines, cluster-faults.
#[test]
fn a_stopped_cluster_costs_what_on_down_says_for_each_host() {
    let Some(nodes) = Nodes::start() else { return };
    let hosts = cut_off_hosts(&nodes);
    let histories = failing_of(&hosts, on_downs().len(), |_| {
        (0..2 * MASTERS).for_each(|i| nodes.stop(i));
        thread::sleep(CUT_OFF);
        (0..2 * MASTERS).for_each(|i| nodes.go_on(i));
        nodes.wait_until_whole();
    });
    check_cut_off("cluster stopped for 10 s", &histories, HOSTS);
}

// Shows: exactly-m-on-machines, cluster-faults.
#[test]
fn a_host_that_is_cut_off_costs_what_on_down_says_for_one_host() {
    let Some(nodes) = Nodes::start() else { return };
    let (hosts, gate) = (cut_off_hosts(&nodes), Gate::new(&nodes));
    hosts.setups[0].write_srv(&settings(&gate.seeds(), "learn=\"500ms\""));
    let histories = failing_of(&hosts, on_downs().len(), |_| {
        gate.close();
        thread::sleep(CUT_OFF);
        gate.open();
    });
    check_cut_off("one host cut off for 10 s", &histories, 1);
}
