//! Requests that wait for leases in real servers while the cluster stands still: bounds, order, and
//! processes that are replaced, stopped or killed meanwhile.

use std::time::{Duration, Instant};

use frs_store::Runtime;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::hosts::{Hosts, Load, Routing, Shared, map, settings};
use super::nodes::{MASTERS, NodeOptions, Nodes};
use super::outages::wait_for_answers;
use crate::common::{Client, Server, Settings, Setup, is_alive, text, wait_until};

/// Three masters that are not considered failed while they stand still.
fn nodes() -> Option<Nodes> {
    let arguments = vec!["--cluster-node-timeout".to_owned(), "60000".to_owned()];
    Nodes::masters_alone_with(NodeOptions { arguments, ..NodeOptions::default() })
}

fn stop(nodes: &Nodes) {
    (0..MASTERS).for_each(|i| nodes.stop(i));
}

fn go_on(nodes: &Nodes) {
    (0..MASTERS).for_each(|i| nodes.go_on(i));
}

/// The timeout is longer than an item may wait, so no courier gives the cluster up before.
const CLUSTER: &str = "timeout=\"1500ms\" learn=\"1s\"";

/// The requests that wait in a host now.
fn parked(setup: &Setup) -> u64 {
    let Ok(runtime) = Runtime::open(&setup.path("data")) else { return 0 };
    runtime.slots().iter().map(|slot| runtime.slot_counts(slot.slot).parked).sum()
}

fn reload(server: &mut Server<'_>) {
    let output = server.setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

fn master(setup: &Setup) -> Option<Pid> {
    let status = text(&setup.frs(&["status"]).stdout);
    let pid = status.strip_prefix("master       process ")?.lines().next()?;
    Some(Pid::from_raw(pid.parse().ok()?))
}

fn upgrade(server: &mut Server<'_>) {
    let old = wait_until("a master is named", || master(server.setup));
    kill(old, Signal::SIGUSR2).expect("signalled");
    wait_until("another master is named", || master(server.setup).filter(|&pid| pid != old));
    wait_until("the old one has ended", || (!is_alive(old)).then_some(()));
}

fn kill_first(server: &Server<'_>, role: &str) {
    let pid = wait_until("the process is attached", || server.attached(role).first().copied());
    kill(pid, Signal::SIGKILL).expect("killed");
    wait_until("another one is attached", || {
        let now = server.attached(role);
        (!now.is_empty() && !now.contains(&pid)).then_some(())
    });
}

fn kill_worker(server: &mut Server<'_>) {
    kill_first(server, "worker");
}

fn kill_courier(server: &mut Server<'_>) {
    kill_first(server, "courier");
}

fn drain(server: &mut Server<'_>) {
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success(), "{}", server.setup.log());
}

/// Calls `happens` on one of two hosts while requests wait in both. Each request is answered once
/// or its connection is closed, which [`Load`] checks, and exactly the maximum is admitted.
#[track_caller]
fn meanwhile(happens: fn(&mut Server<'_>)) {
    const MAX: u64 = 300;
    let Some(nodes) = nodes() else { return };
    let shared = ["exact", "cluster"].map(|share| {
        let biz = format!("share=\"{share}\" hosts=\"2\" wait=\"1000ms\" on-down=\"refuse\"");
        Shared::new(&biz, &format!("policy=\"total\" max=\"{MAX}\""))
    });
    let hosts = Hosts::new(2, &nodes.seeds(), CLUSTER, &map(&shared));
    let mut servers = hosts.start();
    let addresses = hosts.addresses();
    let mut load = Load::new(&addresses, shared.len(), Routing::None);
    load.clients = 12;
    // No host has to return a lease first.
    load.quiet = Duration::from_secs(2);
    let histories = load.run(|load| {
        wait_for_answers(load, 60);
        stop(&nodes);
        wait_until("requests wait", || (parked(&hosts.setups[0]) >= 3).then_some(()));
        happens(&mut servers[0]);
        go_on(&nodes);
        if is_over(&mut servers[0]) {
            servers[0] = hosts.setups[0].start();
        }
        load.spend();
    });
    for (biz, history) in histories.iter().enumerate() {
        let (admitted, lost) = (history.admitted.len() as u64, history.lost.len() as u64);
        let told = format!("b{biz}: {admitted} admitted and {lost} lost of {MAX}");
        println!("{told}, {} refused, {} busy", history.refused, history.busy);
        assert!(admitted <= MAX, "{told}");
        assert!(admitted + lost >= MAX, "{told}");
    }
    drop(servers);
}

/// Whether no master serves any more: neither the first one nor one that has followed it.
fn is_over(server: &mut Server<'_>) -> bool {
    server.ended().is_some() && master(server.setup).is_none_or(|pid| !is_alive(pid))
}

// Shows: parked-requests.
#[test]
fn requests_wait_through_a_reload() {
    meanwhile(reload);
}

// Shows: parked-requests.
#[test]
fn requests_wait_while_a_new_binary_takes_over() {
    meanwhile(upgrade);
}

// Shows: parked-requests.
#[test]
fn requests_wait_while_their_server_ends() {
    meanwhile(drain);
}

// Shows: parked-requests.
#[test]
fn requests_wait_while_a_worker_is_killed() {
    meanwhile(kill_worker);
}

// Shows: parked-requests.
#[test]
fn requests_wait_while_the_courier_is_killed() {
    meanwhile(kill_courier);
}

/// One host with one worker, which parks up to `max_parked` requests.
fn one_host(nodes: &Nodes, max_parked: u64) -> Hosts {
    let map = "<map>\
        <group name=\"default\" files=\"2\" key-nodes=\"64\" chain=\"8\" node-size=\"1024\"/>\
        <biz id=\"2001\" name=\"shared\" key=\"string\" share=\"exact\" wait=\"1000ms\" \
        on-miss=\"admit\" on-down=\"refuse\"><limit policy=\"total\" max=\"1000\"/></biz>\
        <biz id=\"2002\" name=\"own\" key=\"string\">\
        <limit policy=\"total\" max=\"1000\"/></biz></map>";
    let hosts = Hosts::new(1, &nodes.seeds(), CLUSTER, map);
    let cluster = format!("{CLUSTER} max-parked=\"{max_parked}\"");
    hosts.setups[0].write_srv(&Settings { workers: 1, ..settings(&nodes.seeds(), &cluster) });
    hosts
}

/// Within this time an item cannot have waited for its whole `wait`.
const SURELY: Duration = Duration::from_millis(900);

/// Stops the cluster, sends, waits until `most` requests wait, looks, and continues the cluster.
/// `None` if this machine was too slow for that: then the look proves nothing.
fn in_time<T>(
    nodes: &Nodes,
    setup: &Setup,
    most: u64,
    mut send: impl FnMut(),
    mut look: impl FnMut() -> T,
) -> Option<T> {
    stop(nodes);
    let begun = Instant::now();
    send();
    while parked(setup) < most && begun.elapsed() < SURELY {
        std::thread::sleep(Duration::from_millis(1));
    }
    let seen = look();
    let in_time = begun.elapsed() < SURELY;
    go_on(nodes);
    in_time.then_some(seen)
}

// Shows: parked-requests.
#[test]
fn one_more_than_may_wait_is_busy_and_the_others_are_answered() {
    const MOST: u64 = 5;
    let Some(nodes) = nodes() else { return };
    let hosts = one_host(&nodes, MOST);
    let setup = &hosts.setups[0];
    let server = setup.start();
    server.client().charge("shared", "first", 1);
    let late = wait_until("one came too late", || {
        let mut waiting: Vec<Client> = (0..MOST).map(|_| server.client()).collect();
        let mut late = server.client();
        let send = || {
            for (nth, client) in waiting.iter_mut().enumerate() {
                client.send(&get(&format!("/update?biz=shared&key=k{nth}")));
            }
        };
        let seen = in_time(&nodes, setup, MOST, send, || late.get("/update?biz=shared&key=late"));
        for client in &mut waiting {
            assert_eq!(client.answer().status, 200);
        }
        seen
    });
    assert_eq!((late.status, late.attribute("error")), (503, Some("busy")), "{late:?}");
    // There is room again.
    server.client().charge("shared", "late", 1);
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: t\r\n\r\n")
}

fn post(biz: &str, key: &str) -> String {
    let body = format!("<request><item biz='{biz}' key='{key}'/></request>");
    let length = body.len();
    format!("POST /update HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n{body}")
}

// Shows: parked-requests.
#[test]
fn what_is_sent_behind_a_request_that_waits_is_answered_in_order() {
    let Some(nodes) = nodes() else { return };
    let hosts = one_host(&nodes, 100);
    let setup = &hosts.setups[0];
    let server = setup.start();
    server.client().charge("shared", "first", 1);
    let one_by_one =
        [post("shared", "a"), post("own", "b"), get("/health"), post("shared", "c")].concat();
    let then = [post("own", "d"), get("/nothing")].concat();
    wait_until("another client was answered meanwhile", || {
        let (mut client, mut other) = (server.client(), server.client());
        let send = || client.send(&one_by_one);
        let look = || other.charge("own", "other", 1);
        let seen = in_time(&nodes, setup, 1, send, look);
        client.send(&then);
        for expected in ["a", "b", "200", "c", "d", "404"] {
            let answer = client.answer();
            let status = answer.status.to_string();
            assert_eq!(answer.attribute("key").unwrap_or(&status), expected, "{answer:?}");
        }
        seen
    });
}
