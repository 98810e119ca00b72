//! Groups with less room than their keys need: records in use go to the cluster, and come back.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use frs_cluster::figures::{ClusterSums, SpillResult};
use frs_store::{GroupCounter, Runtime};
use nix::sys::signal::{Signal, kill};

use super::hosts::{Hosts, Random};
use super::nodes::Nodes;
use crate::common::load::UntilDropped;
use crate::common::{Client, Setup, wait_until};

const MAX: u64 = 20;
/// Twice as many keys as the group has nodes.
const KEYS: usize = 64;

const TOTAL: &str = "policy=\"total\"";

/// A host whose keys may each be used MAX times. `group` holds further attributes of its `<group>`.
fn host(nodes: &Nodes, timeout: &str, limit: &str, group: &str) -> Hosts {
    let map = format!(
        "<map><group name=\"g\" files=\"1\" key-nodes=\"4\" chain=\"8\" node-size=\"512\" \
         spill=\"true\" {group}/><biz id=\"2001\" name=\"b\" key=\"string\">\
         <limit {limit} max=\"{MAX}\"/></biz></map>"
    );
    Hosts::new(1, &nodes.seeds(), &format!("timeout=\"{timeout}\""), &map)
}

#[derive(Debug, Default, Clone, Copy)]
struct Uses {
    admitted: u64,
    /// Uses without an answer.
    unknown: u64,
    /// Uses refused after the last use was admitted.
    refused: u64,
}

fn spills(setup: &Setup) -> [u64; 5] {
    let runtime = Runtime::open(&setup.path("data")).expect("a server");
    let sums = ClusterSums::of(&runtime.sums().extension);
    SpillResult::ALL.map(|result| sums.spills(result))
}

/// Uses all keys up from four clients while `act` runs, and for some time after that.
fn use_up(setup: &Setup, act: impl FnOnce()) -> Vec<Uses> {
    let address = setup.address;
    let uses = Mutex::new(vec![Uses::default(); KEYS]);
    let (stop, uses_ref) = (AtomicBool::new(false), &uses);
    let client = |seed| {
        let mut random = Random::new(seed);
        let mut client = None;
        while !stop.load(Ordering::Relaxed) {
            let key = random.below(KEYS);
            let Some(mut connected) = client.take().or_else(|| Client::try_connect(address)) else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            let answer = connected.try_get(&format!("/update?biz=b&key=k{key}"));
            let of_key = &mut uses_ref.lock().expect("no client fails")[key];
            match answer {
                Ok(answer) if answer.status == 200 => of_key.admitted += 1,
                Ok(answer) if answer.status == 429 => of_key.refused += 1,
                // The record may be in the cluster, which did not answer in time.
                Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                Err(_) => {
                    of_key.unknown += 1;
                    continue;
                }
            }
            client = Some(connected);
        }
    };
    thread::scope(|scope| {
        let ends = UntilDropped(&stop);
        (0..4).for_each(|seed| {
            scope.spawn(move || client(seed));
        });
        act();
        // Each key is used again and again: a forgotten key would be admitted.
        let begun = uses.lock().expect("no client fails").clone();
        wait_until("all keys are refused", || {
            let uses = uses.lock().expect("no client fails");
            let mut all = uses.iter().zip(&begun);
            all.all(|(now, then)| now.refused >= then.refused + 10).then_some(())
        });
        drop(ends);
    });
    uses.into_inner().expect("no client failed")
}

#[track_caller]
fn expect_exact(uses: &[Uses]) {
    for (key, Uses { admitted, unknown, .. }) in uses.iter().enumerate() {
        let told = format!("k{key}: {admitted} admitted, {unknown} unknown, of {MAX}");
        assert!(*admitted <= MAX, "{told}");
        assert!(admitted + unknown >= MAX, "{told}");
    }
}

// Shows: spill.
#[test]
fn a_group_too_small_by_half_forgets_no_key() {
    let Some(nodes) = Nodes::start() else { return };
    for limit in [TOTAL, "policy=\"sliding\" interval=\"1h\""] {
        let hosts = host(&nodes, "500ms", limit, "");
        let _servers = hosts.start();
        let uses = use_up(&hosts.setups[0], || {});
        expect_exact(&uses);
        assert!(uses.iter().all(|uses| uses.unknown == 0));
        let [spilled, _, lost, fetched, _] = wait_until("all is told", || {
            let told = spills(&hosts.setups[0]);
            (told[0] > 0 && told[3] > 0).then_some(told)
        });
        assert!(spilled >= KEYS as u64 / 2 && fetched > 0 && lost == 0, "{lost} lost");
        let runtime = Runtime::open(&hosts.setups[0].path("data")).expect("a server");
        let groups = runtime.sums().groups;
        for kind in [GroupCounter::EvictionsIdle, GroupCounter::EvictionsLimiting] {
            assert!(groups.values().all(|group| group.count(kind) == 0), "{kind:?}");
        }
    }
}

// Shows: spill.
#[test]
fn nor_where_workers_and_couriers_are_killed_meanwhile() {
    let Some(nodes) = Nodes::start() else { return };
    // Items wait for a shorter time than a courier takes to come back.
    let hosts = host(&nodes, "50ms", TOTAL, "");
    let servers = hosts.start();
    let uses = use_up(&hosts.setups[0], || {
        let mut random = Random::new(1);
        let mut killed = 0;
        while killed < 30 {
            let role = ["worker", "courier"][random.below(2)];
            if let Some(&pid) = servers[0].attached(role).first() {
                killed += usize::from(kill(pid, Signal::SIGKILL).is_ok());
            }
            thread::sleep(Duration::from_millis(100));
        }
    });
    expect_exact(&uses);
}

// Shows: spill.
#[test]
fn nor_where_the_cluster_keeps_a_copy_of_each_as_well() {
    let Some(nodes) = Nodes::start() else { return };
    let hosts = host(&nodes, "500ms", TOTAL, "backup=\"1s\"");
    let _servers = hosts.start();
    expect_exact(&use_up(&hosts.setups[0], || {}));
}

// Shows: spill.
#[test]
fn while_the_cluster_stands_still_what_it_has_is_busy_and_comes_back() {
    let Some(nodes) = Nodes::start() else { return };
    let hosts = host(&nodes, "100ms", TOTAL, "");
    let servers = hosts.start();
    let mut client = servers[0].client();
    let mut charge = |key: usize| client.get(&format!("/update?biz=b&key=k{key}")).status;
    for key in 0..KEYS {
        (0..MAX).for_each(|_| assert_eq!(charge(key), 200, "k{key}"));
    }
    (0..6).for_each(|node| nodes.stop(node));
    let answers: Vec<u16> = (0..KEYS).map(&mut charge).collect();
    let count = |status: u16| answers.iter().filter(|&&answer| answer == status).count();
    assert_eq!(count(429) + count(503), KEYS, "{answers:?}");
    assert!(count(429) > 0 && count(503) >= KEYS / 4, "{answers:?}");
    (0..6).for_each(|node| nodes.go_on(node));
    nodes.wait_until_whole();
    for key in 0..KEYS {
        let status = wait_until("the record is back", || Some(charge(key)).filter(|&s| s != 503));
        assert_eq!(status, 429, "k{key}");
    }
}
