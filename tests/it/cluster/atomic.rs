//! Atomic requests over keys of different slots of the cluster, from three hosts: all of a request
//! is charged or nothing, and none waits for another for ever.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::hosts::{Hosts, Random, Shared, map};
use super::nodes::Nodes;
use crate::common::items::{Response, post, try_post};
use crate::common::{Client, wait_until};

const BIZS: usize = 10;
const CLIENTS: u64 = 6;

/// What clients were told.
#[derive(Debug, Clone, Default)]
struct Told {
    /// Charges of each business, of requests that were admitted.
    charged: [u64; BIZS],
    /// The same, of requests whose answers were lost.
    maybe: [u64; BIZS],
    admitted: u64,
    refused: u64,
}

fn document(bizs: &[usize]) -> String {
    let items: String =
        bizs.iter().map(|biz| format!("<item biz=\"b{biz}\" key=\"k\"/>")).collect();
    format!("<request atomic=\"true\">{items}</request>")
}

/// Two to four businesses in any order; one may stand there twice.
fn draw(random: &mut Random) -> Vec<usize> {
    (0..2 + random.below(3)).map(|_| random.below(BIZS)).collect()
}

fn client(hosts: &[SocketAddr], seed: u64, stop: &AtomicBool) -> Told {
    let (mut told, mut random) = (Told::default(), Random::new(seed));
    let mut clients: Vec<Client> = hosts.iter().map(|&host| Client::connect(host)).collect();
    while !stop.load(Ordering::Relaxed) {
        let (bizs, host) = (draw(&mut random), random.below(hosts.len()));
        match try_post(&mut clients[host], "/update", &document(&bizs)) {
            Err(_) => {
                bizs.iter().for_each(|&biz| told.maybe[biz] += 1);
                clients[host] = Client::connect(hosts[host]);
            }
            Ok(Response { refused: true, .. }) => told.refused += 1,
            Ok(response) => {
                assert_eq!(response.items.len(), bizs.len(), "{response:?}");
                for item in &response.items {
                    assert_eq!(item.values.get("error"), None, "{response:?}");
                }
                bizs.iter().for_each(|&biz| told.charged[biz] += 1);
                told.admitted += 1;
            }
        }
    }
    told
}

fn setup(max: u64, share: &str, nodes: &Nodes) -> Hosts {
    let biz = format!("share=\"{share}\" hosts=\"3\" wait=\"1000ms\"");
    let one = Shared::new(&biz, &format!("policy=\"total\" max=\"{max}\""));
    Hosts::new(3, &nodes.seeds(), "", &map(&vec![one; BIZS]))
}

fn run(hosts: &[SocketAddr], act: impl FnOnce()) -> Told {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|nth| {
                scope.spawn({
                    let stop = &stop;
                    move || client(hosts, nth, stop)
                })
            })
            .collect();
        act();
        stop.store(true, Ordering::Relaxed);
        let mut all = Told::default();
        for client in clients {
            let own = client.join().expect("no client fails");
            for biz in 0..BIZS {
                all.charged[biz] += own.charged[biz];
                all.maybe[biz] += own.maybe[biz];
            }
            all.admitted += own.admitted;
            all.refused += own.refused;
        }
        all
    })
}

/// Uses of each business over all hosts: each host's Query of one moment says the same.
fn used(hosts: &[SocketAddr]) -> [u64; BIZS] {
    let mut used = [0; BIZS];
    let mut client = Client::connect(hosts[0]);
    for (biz, used) in used.iter_mut().enumerate() {
        let request = format!("<request><item biz=\"b{biz}\" key=\"k\"/></request>");
        let response = post(&mut client, "/query", &request);
        *used = response.items[0].values.number("used").expect("figures");
    }
    used
}

#[test]
fn where_there_is_enough_every_request_comes_through() {
    let Some(nodes) = Nodes::start() else { return };
    let hosts = setup(1_000_000, "cluster", &nodes);
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let told = run(&addresses, || thread::sleep(Duration::from_secs(5)));
    assert!(told.admitted > 300, "{told:?}");
    // On a busy machine a wait may be over before a process has run.
    assert!(told.refused * 50 <= told.admitted, "{told:?}");
    drop(servers);
}

/// Few uses, asked for in all orders: what is charged is whole, and nothing that a request could
/// have had is left in the end.
#[track_caller]
fn scarce(share: &str) {
    const MAX: u64 = 120;
    let Some(nodes) = Nodes::start() else { return };
    let hosts = setup(MAX, share, &nodes);
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let told = run(&addresses, || {
        // Nothing is admitted any more.
        let mut last = (0, Instant::now());
        wait_until("everything is spent", || {
            let now: u64 = used(&addresses).iter().sum();
            if now != last.0 {
                last = (now, Instant::now());
            }
            (last.1.elapsed() > Duration::from_secs(3)).then_some(())
        });
    });
    for biz in 0..BIZS {
        assert!(told.charged[biz] <= MAX, "b{biz} of {told:?}");
    }
    let full = (0..BIZS).filter(|&biz| told.charged[biz] + told.maybe[biz] >= MAX).count();
    assert!(full >= BIZS - 1, "{told:?}");
    // What other hosts have used may not be reported yet; no host says more than was charged.
    let used = used(&addresses);
    for biz in 0..BIZS {
        let most = told.charged[biz] + told.maybe[biz];
        assert!(used[biz] <= most, "b{biz}: {used:?} of {told:?}");
    }
    drop(servers);
}

#[test]
fn few_uses_are_charged_whole_from_leases() {
    scarce("cluster");
}

#[test]
fn few_uses_are_charged_whole_one_by_one() {
    scarce("exact");
}
