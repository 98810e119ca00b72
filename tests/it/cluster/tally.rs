//! Limits that refuse nothing: after a load all hosts know the same sum, and no request waits for
//! them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use super::hosts::Hosts;
use super::nodes::{MASTERS, Nodes};
use crate::common::items::{self, Item};
use crate::common::load::UntilDropped;
use crate::common::{BOUND, Client, Setup, text};

const REFUSES: u64 = 400;
const ADVISES: u64 = 300;

fn map() -> String {
    let shared = |id: u32, name: &str, limits: &str| {
        format!(
            "  <biz id=\"{id}\" name=\"{name}\" key=\"string\" share=\"cluster\" hosts=\"3\" \
             wait=\"1s\">{limits}</biz>\n"
        )
    };
    let refuses = format!("<limit policy=\"interval\" interval=\"1h\" max=\"{REFUSES}\"/>");
    let told = format!(
        "<limit policy=\"count\"/><limit policy=\"count\" unit=\"year\" scope=\"biz\"/>\
         <limit policy=\"interval\" interval=\"1h\" max=\"{ADVISES}\" on-exceed=\"captcha\"/>"
    );
    format!(
        "<map>\n  <group name=\"default\" files=\"2\" key-nodes=\"64\" chain=\"8\" \
         node-size=\"1024\"/>\n{}{}</map>\n",
        shared(2001, "mixed", &format!("{refuses}{told}")),
        shared(2002, "told", &told),
    )
}

fn query(client: &mut Client, biz: &str) -> Item {
    let answer = items::get(client, &format!("/query?biz={biz}&key=k&detail=true"));
    answer.items.into_iter().next().expect("an item")
}

/// The uses of each limit.
fn used(client: &mut Client, biz: &str) -> Vec<u64> {
    query(client, biz).limits.iter().filter_map(|limit| limit.number("used")).collect()
}

// Shows: shared-sums.
#[test]
fn all_hosts_come_to_know_the_sum_though_couriers_are_killed() {
    let Some(nodes) = Nodes::start() else { return };
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map());
    let servers = hosts.start();
    let mut clients: Vec<Client> = servers.iter().map(|server| server.client()).collect();
    let admitted = [AtomicU64::new(0), AtomicU64::new(0)];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = UntilDropped(&stop);
        for server in &servers {
            scope.spawn(|| {
                let mut client = server.client();
                while !stop.load(Ordering::Relaxed) {
                    for (biz, admitted) in ["mixed", "told"].iter().zip(&admitted) {
                        let answer = client.get(&format!("/update?biz={biz}&key=k"));
                        let is_admitted = u64::from(answer.status == 200);
                        admitted.fetch_add(is_admitted, Ordering::Relaxed);
                    }
                    thread::sleep(Duration::from_millis(3));
                }
            });
        }
        for nth in 0..12 {
            thread::sleep(Duration::from_millis(400));
            if let Some(&pid) = servers[nth % 3].attached("courier").first() {
                kill(pid, Signal::SIGKILL).expect("killed");
            }
        }
        drop(ends);
    });
    let [mixed, told] = admitted.map(AtomicU64::into_inner);
    assert!(mixed <= REFUSES && told > ADVISES, "{mixed} {told}");
    let mut all = [0; 3].map(|_| (Vec::new(), Vec::new()));
    let known = wait_until_or(BOUND, || {
        for (client, all) in clients.iter_mut().zip(&mut all) {
            *all = (used(client, "mixed"), used(client, "told"));
        }
        let is_known = |(of_mixed, of_told): &(Vec<u64>, Vec<u64>)| {
            of_mixed[1..] == [mixed; 3] && *of_told == [told; 3]
        };
        all.iter().all(is_known)
    });
    assert!(known, "{mixed} and {told} were admitted, hosts know {all:?}");
    let shown = hosts.setups.iter().map(|setup| told_shown(setup, told)).sum::<u64>();
    assert_eq!(shown, told, "what each has told");
    // frs-inspect may have been built first, and the server has closed idle connections meanwhile.
    for server in &servers {
        let client = &mut server.client();
        // Each host alone has admitted fewer uses.
        let item = query(client, "told");
        item.expect(&format!("action=captcha limited=false shared=true used={told}"));
        let answer = client.get("/update?biz=told&key=k");
        assert_eq!(answer.attribute("action"), Some("captcha"), "{answer:?}");
    }
}

/// The uses of the count that this host's record shows as reported. The other hosts have used the
/// rest.
fn told_shown(setup: &Setup, all: u64) -> u64 {
    let dumped = setup.inspect(&["dump", "data", "--biz", "told", "--format", "json"]);
    let dumped: Value = serde_json::from_slice(&dumped.stdout).expect("JSON");
    let records = dumped.as_array().expect("records").iter();
    let counts = records.filter_map(|record| record.pointer("/limits/0/lease"));
    let uses = |lease: &Value, name: &str| lease[name].as_u64();
    for lease in counts {
        let [told, used, others] =
            ["allowance", "used", "used-elsewhere"].map(|name| uses(lease, name).unwrap_or(0));
        assert_eq!((told, told + others, lease.get("elsewhere")), (used, all, None), "{lease}");
    }
    let shown = setup.inspect(&["get", "data", "told", "k"]);
    assert!(text(&shown.stdout).contains("\n            used elsewhere "), "{shown:?}");
    let first = dumped.pointer("/0/limits/0/lease").expect("a lease");
    uses(first, "allowance").expect("a number")
}

fn wait_until_or(most: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > most {
            return false;
        }
        thread::sleep(Duration::from_millis(50));
    }
    true
}

// Shows: shared-sums.
#[test]
fn nothing_waits_while_the_cluster_is_stopped_and_the_sum_comes_after_it() {
    const EACH: u64 = 200;
    let Some(nodes) = Nodes::start() else { return };
    let hosts = Hosts::new(2, &nodes.seeds(), "", &map());
    let servers = hosts.start();
    let mut clients: Vec<Client> = servers.iter().map(|server| server.client()).collect();
    let mut charge = |slowest: &mut Duration| {
        for client in &mut clients {
            for _ in 0..EACH {
                let begun = Instant::now();
                let answer = client.get("/update?biz=told&key=k");
                assert_eq!((answer.status, answer.attribute("limited")), (200, Some("false")));
                *slowest = begun.elapsed().max(*slowest);
            }
        }
    };
    let mut slowest = Duration::ZERO;
    charge(&mut slowest);
    (0..2 * MASTERS).for_each(|i| nodes.stop(i));
    charge(&mut slowest);
    thread::sleep(Duration::from_secs(3));
    charge(&mut slowest);
    (0..2 * MASTERS).for_each(|i| nodes.go_on(i));
    nodes.wait_until_whole();
    assert!(slowest < Duration::from_millis(900), "the wait is a second: {slowest:?}");
    for server in &servers {
        let mut client = server.client();
        let is_known = || used(&mut client, "told") == [6 * EACH; 3];
        let known = wait_until_or(BOUND, is_known);
        assert!(known, "{:?} of {}", used(&mut client, "told"), 6 * EACH);
    }
}

/// Uses each limit of a host `count` times, one after the other. No use waits.
fn charge(client: &mut Client, count: u64) {
    (0..count).for_each(|_| client.charge("told", "k", 1));
}

#[track_caller]
fn wait_for_sum(clients: &mut [Client], sum: u64) {
    let mut known = Vec::new();
    let is_known = wait_until_or(BOUND, || {
        known = clients.iter_mut().map(|client| used(client, "told")).collect();
        known.iter().all(|known: &Vec<u64>| *known == [sum; 3])
    });
    assert!(is_known, "{sum} were used, hosts know {known:?}");
}

// Shows: shared-sums.
#[test]
fn sums_of_what_refuses_nothing_outlive_a_cluster_that_is_emptied() {
    let Some(nodes) = Nodes::start() else { return };
    let hosts = Hosts::new(3, &nodes.seeds(), "learn=\"500ms\"", &map());
    let servers = hosts.start();
    let mut clients: Vec<Client> = servers.iter().map(|server| server.client()).collect();
    let mut sum = 0;
    for round in 1..=3 {
        for (nth, client) in clients.iter_mut().enumerate() {
            let count = round * (10 + nth as u64);
            charge(client, count);
            sum += count;
        }
        wait_for_sum(&mut clients, sum);
        // The second flush comes right after the first uses since the one before.
        (0..MASTERS).for_each(|i| nodes.flush_all(i));
    }
    // Each host has to report its own part once more, because no answer restores a lost sum.
    clients.iter_mut().for_each(|client| charge(client, 1));
    wait_for_sum(&mut clients, sum + 3);
    let of_limits = nodes.granted(1).uses;
    assert_eq!(of_limits, 3 * (sum + 3), "the ledgers of three limits have all of it again");
}

// Shows: shared-sums.
#[test]
fn a_lost_machine_takes_no_more_of_a_sum_than_it_had_not_told() {
    const TOLD: u64 = 60;
    const UNTOLD: u64 = 25;
    const LATER: u64 = 5;
    let Some(nodes) = Nodes::start() else { return };
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map());
    let mut servers = hosts.start();
    let mut clients: Vec<Client> = servers.iter().map(|server| server.client()).collect();
    charge(&mut clients[0], TOLD);
    clients.iter_mut().for_each(|client| charge(client, 1));
    wait_for_sum(&mut clients, TOLD + 3);
    (0..2 * MASTERS).for_each(|i| nodes.stop(i));
    charge(&mut clients[0], UNTOLD);
    let mut lost = servers.remove(0);
    lost.kill_all_and_wait();
    drop(lost);
    std::fs::remove_dir_all(hosts.setups[0].path("data")).expect("removed");
    (0..2 * MASTERS).for_each(|i| nodes.go_on(i));
    nodes.wait_until_whole();
    clients.remove(0);
    clients.iter_mut().for_each(|client| charge(client, LATER));
    // The last message may have arrived.
    let least = TOLD + 3 + 2 * LATER;
    let mut known = Vec::new();
    let is_known = wait_until_or(BOUND, || {
        known = clients.iter_mut().map(|client| used(client, "told")).collect();
        let is_right = |used: &u64| (least..=least + UNTOLD).contains(used);
        known[0] == known[1] && known[0].iter().all(is_right)
    });
    assert!(is_known, "at least {least}, hosts know {known:?}");
    println!("{known:?} of {}", least + UNTOLD);
}
