//! The metrics that warn an operator: each grows on the machine where its event has happened.

use redis::cmd;
use serde_json::Value;

use super::hosts::{self, Shared};
use super::nodes::{MASTERS, NodeOptions, Nodes};
use super::outages::{ledger, only_row};
use crate::common::plane::{Plane, ask};
use crate::common::{Client, wait_until};

const STALE: &str = "frs_cluster_requests_total{function=\"interval\",result=\"stale\"}";
const OVER: &str = "frs_cluster_over_total";
const CONFLICTS: &str = "frs_cluster_conflicts_total";

fn shared(more: &str, interval: &str, max: u64) -> Shared {
    let biz = format!("share=\"cluster\" hosts=\"2\" wait=\"500ms\" {more}");
    Shared::new(&biz, &format!("policy=\"interval\" interval=\"{interval}\" max=\"{max}\""))
}

fn plane(nodes: &Nodes, shared: Shared) -> Plane {
    hosts::plane(&nodes.seeds(), "timeout=\"500ms\"", &hosts::map(&[shared]))
}

fn masters() -> Option<Nodes> {
    Nodes::masters_alone_with(NodeOptions::default())
}

/// The value of a metric; 0 while it has no sample.
fn told(plane: &Plane, metric: &str) -> u64 {
    plane.metric(metric).unwrap_or(0)
}

fn uses(client: &mut Client, key: &str, count: u64) -> bool {
    client.get(&format!("/update?biz=b0&key={key}&count={count}")).status == 200
}

/// Uses a key `count` times, one after the other. A new master grants nothing for a while.
#[track_caller]
fn spend(client: &mut Client, key: &str, count: u64) {
    for _ in 0..count {
        wait_until("a use is admitted", || uses(client, key, 1).then_some(()));
    }
}

/// Acts as another machine with the same number that has sent more messages.
fn number_again(nodes: &Nodes) {
    let (master, ledger) = ledger(nodes);
    let name = only_row(nodes);
    let mut row: Vec<u8> = nodes.ask(master, cmd("HGET").arg(&ledger).arg(&name));
    let (seq, _) = row.split_first_chunk_mut().expect("a row begins with a number");
    *seq = (u64::from_be_bytes(*seq) + (1 << 20)).to_be_bytes();
    let _: u64 = nodes.ask(master, cmd("HSET").arg(&ledger).arg(&name).arg(&row));
}

// Shows: seen-of-a-cluster.
#[test]
fn a_machine_that_runs_twice_is_counted_and_spends_no_more_than_the_maximum() {
    const MAX: u64 = 100;
    let Some(nodes) = masters() else { return };
    let plane = plane(&nodes, shared("", "1h", MAX));
    let server = plane.start(2);
    let mut client = server.client();
    spend(&mut client, "k", 5);
    assert_eq!(told(&plane, STALE), 0);
    number_again(&nodes);
    let mut admitted = 5;
    wait_until("an answer is stale", || {
        admitted += u64::from(uses(&mut client, "k", 1));
        (told(&plane, STALE) > 0).then_some(())
    });
    wait_until("nothing is left", || {
        admitted += u64::from(uses(&mut client, "k", 1));
        (nodes.granted(0).uses == MAX && !uses(&mut client, "k", 1)).then_some(())
    });
    assert!(admitted <= MAX, "{admitted}");
    // The machine goes on as a new incarnation, so its answers are accepted again.
    let stale = told(&plane, STALE);
    spend(&mut client, "other", 5);
    assert_eq!(told(&plane, STALE), stale);
}

// Shows: seen-of-a-cluster.
#[test]
fn uses_beyond_the_maximum_are_counted_where_they_were_made() {
    const MAX: u64 = 20;
    let Some(nodes) = masters() else { return };
    let shared = shared("on-down=\"local\"", "1h", MAX);
    let planes = [(); 2].map(|()| plane(&nodes, shared.clone()));
    let servers = planes.each_ref().map(|plane| plane.start(2));
    let mut clients = servers.each_ref().map(|server| server.client());
    spend(&mut clients[0], "k", MAX);
    assert_eq!(nodes.granted(0).uses, MAX);
    assert_eq!(planes.each_ref().map(|plane| told(plane, OVER)), [0; 2]);
    (0..MASTERS).for_each(|i| nodes.stop(i));
    // This machine does not know the key, so it allows itself the whole maximum.
    spend(&mut clients[1], "k", MAX);
    assert!(!uses(&mut clients[1], "k", 1));
    (0..MASTERS).for_each(|i| nodes.go_on(i));
    wait_until("the ledger is told", || (nodes.granted(0).uses == 2 * MAX).then_some(()));
    wait_until("it is counted", || (told(&planes[1], OVER) > 0).then_some(()));
    assert_eq!(told(&planes[0], OVER), 0, "it has admitted the maximum");
}

/// The lease of a settled key: its allowance and its uses.
fn lease(client: &mut Client, key: &str) -> Option<[u64; 2]> {
    let accept = "Accept: application/json\r\n";
    let answer = ask(client, "GET", &format!("/node?biz=b0&key={key}"), accept, "").ok()?;
    let json: Value = serde_json::from_str(&answer.body).expect("JSON");
    let lease = json.pointer("/node/limits/0/lease").unwrap_or_else(|| panic!("{json}"));
    let number = |name: &str| lease[name].as_u64().expect("a number");
    (lease["in-flight"] == false).then(|| [number("allowance"), number("used")])
}

// Shows: seen-of-a-cluster.
#[test]
fn uses_in_hand_are_those_of_the_leases_and_beyond_them_those_not_told() {
    let Some(nodes) = masters() else { return };
    // A lease whose window turns within a minute is not returned.
    let plane = plane(&nodes, shared("", "59s", 1_000));
    let server = plane.start(2);
    let (mut client, mut admin) = (server.client(), plane.client());
    let in_hand = |state: &str| told(&plane, &format!("frs_lease_uses{{state=\"{state}\"}}"));
    assert_eq!(["unspent", "held", "unreported"].map(in_hand), [0; 3]);
    for key in ["one", "other"] {
        spend(&mut client, key, 1);
    }
    assert!(uses(&mut client, "one", 6), "out of its lease");
    wait_until("all that is unspent is shown", || {
        let leases = ["one", "other"].map(|key| lease(&mut admin, key));
        let [[one, 7], [other, 1]] = leases.map(|lease| lease.unwrap_or_default()) else {
            return None;
        };
        (one > 7 && in_hand("unspent") == one - 7 + other - 1).then_some(())
    });
    assert_eq!(["held", "unreported"].map(in_hand), [0; 2]);
    (0..MASTERS).for_each(|i| nodes.stop(i));
    client.get("/update?biz=b0&key=forced&count=9&force=true");
    wait_until("what is not told is shown", || (in_hand("unreported") == 9).then_some(()));
    (0..MASTERS).for_each(|i| nodes.go_on(i));
    wait_until("all is told", || (in_hand("unreported") == 0).then_some(()));
}

// Shows: seen-of-a-cluster.
#[test]
fn machines_with_different_maxima_are_counted_where_the_larger_one_is() {
    let Some(nodes) = masters() else { return };
    let planes = [50, 100].map(|max| plane(&nodes, shared("", "1h", max)));
    let servers = planes.each_ref().map(|plane| plane.start(2));
    let mut clients = servers.each_ref().map(|server| server.client());
    spend(&mut clients[0], "k", 1);
    assert_eq!(planes.each_ref().map(|plane| told(plane, CONFLICTS)), [0; 2]);
    spend(&mut clients[1], "k", 1);
    wait_until("it is counted", || (told(&planes[1], CONFLICTS) > 0).then_some(()));
    spend(&mut clients[0], "k", 1);
    assert_eq!(told(&planes[0], CONFLICTS), 0, "its maximum holds");
}
