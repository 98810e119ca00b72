//! Atomic requests over keys of different slots of the cluster, from three hosts: a request is
//! charged wholly or not at all, and no requests wait for each other forever.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};

use super::hosts::{Hosts, Random, Shared, map};
use super::nodes::Nodes;
use crate::common::items::{post, read_xml, try_post_unread};
use crate::common::load::UntilDropped;
use crate::common::{Client, Server, wait_until};

/// Shared businesses.
const BIZS: usize = 10;
const CLIENTS: u64 = 6;
const HOSTS: usize = 3;
/// The longest time that an item may wait for a lease.
const WAIT: Duration = Duration::from_secs(1);
/// The longest delay of an answer beyond that, on a busy machine.
const SLACK: Duration = Duration::from_secs(5);

/// Charges as clients count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Charges {
    /// Charges of admitted requests.
    sure: u64,
    /// Charges of requests whose answers were lost.
    maybe: u64,
}

/// The answers that clients received.
#[derive(Debug, Clone, Default)]
struct Told {
    /// The charges of each shared business.
    shared: [Charges; BIZS],
    /// The charges of each host's own business.
    own: [Charges; HOSTS],
    admitted: u64,
    refused: u64,
    busy: u64,
    slowest: Duration,
}

impl Charges {
    fn add(&mut self, other: Charges) {
        self.sure += other.sure;
        self.maybe += other.maybe;
    }

    /// Whether `used` is a possible sum.
    fn can_be(self, used: u64) -> bool {
        (self.sure..=self.sure + self.maybe).contains(&used)
    }
}

impl Told {
    fn add(&mut self, other: &Told) {
        self.shared.iter_mut().zip(other.shared).for_each(|(all, own)| all.add(own));
        self.own.iter_mut().zip(other.own).for_each(|(all, own)| all.add(own));
        self.admitted += other.admitted;
        self.refused += other.refused;
        self.busy += other.busy;
        self.slowest = self.slowest.max(other.slowest);
    }

    /// Adds a request that was charged, or may have been.
    fn charge(&mut self, bizs: &[usize], host: usize, charges: Charges) {
        for &biz in bizs {
            match self.shared.get_mut(biz) {
                Some(shared) => shared.add(charges),
                None => self.own[host].add(charges),
            }
        }
    }
}

fn document(bizs: &[usize]) -> String {
    let items: String =
        bizs.iter().map(|biz| format!("<item biz=\"b{biz}\" key=\"k\"/>")).collect();
    format!("<request atomic=\"true\">{items}</request>")
}

/// Two to four shared businesses in any order, maybe one of them twice. Often the host's own
/// business stands between them.
fn draw(random: &mut Random) -> Vec<usize> {
    let mut bizs: Vec<usize> = (0..2 + random.below(3)).map(|_| random.below(BIZS)).collect();
    if random.below(2) == 0 {
        bizs.insert(random.below(bizs.len() + 1), BIZS);
    }
    bizs
}

fn client(hosts: &[SocketAddr], seed: u64, stop: &AtomicBool) -> Told {
    let (mut told, mut random) = (Told::default(), Random::new(seed));
    let mut clients: Vec<Option<Client>> = hosts.iter().map(|_| None).collect();
    while !stop.load(Ordering::Relaxed) {
        let (bizs, host) = (draw(&mut random), random.below(hosts.len()));
        let Some(mut client) = clients[host].take().or_else(|| Client::try_connect(hosts[host]))
        else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        let begun = Instant::now();
        let Ok(answer) = try_post_unread(&mut client, "/update", &document(&bizs)) else {
            told.charge(&bizs, host, Charges { maybe: 1, ..Charges::default() });
            continue;
        };
        told.slowest = told.slowest.max(begun.elapsed());
        // An overloaded or ending worker answers without a document.
        if answer.status == 503 {
            told.busy += 1;
            continue;
        }
        let is_kept = !answer.closes();
        let response = read_xml(&answer);
        assert_eq!(response.items.len(), bizs.len(), "{response:?}");
        if response.refused {
            told.refused += 1;
        } else {
            for item in &response.items {
                assert_eq!(item.values.get("error"), None, "{response:?}");
                assert_eq!(item.values.get("limited"), Some("false"), "{response:?}");
            }
            told.charge(&bizs, host, Charges { sure: 1, ..Charges::default() });
            told.admitted += 1;
        }
        clients[host] = is_kept.then_some(client);
    }
    told
}

/// Shared businesses, and one business of each host's own.
fn setup(max: u64, share: &str, nodes: &Nodes) -> Hosts {
    let biz = format!("share=\"{share}\" hosts=\"3\" wait=\"1000ms\" on-down=\"refuse\"");
    let one = Shared::new(&biz, &format!("policy=\"total\" max=\"{max}\""));
    let mut all = vec![one; BIZS];
    all.push(Shared::new("share=\"host\"", "policy=\"total\" max=\"1000000\""));
    Hosts::new(HOSTS, &nodes.seeds(), "", &map(&all))
}

fn run(hosts: &[SocketAddr], act: impl FnOnce()) -> Told {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = UntilDropped(&stop);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|nth| {
                scope.spawn({
                    let stop = &stop;
                    move || client(hosts, nth, stop)
                })
            })
            .collect();
        act();
        drop(ends);
        let mut all = Told::default();
        for client in clients {
            all.add(&client.join().expect("no client fails"));
        }
        println!("{all:?}");
        all
    })
}

/// The uses of a business that a host's Query reports.
fn used(host: SocketAddr, biz: usize) -> u64 {
    let request = format!("<request><item biz=\"b{biz}\" key=\"k\"/></request>");
    // An item is busy while another one has its record.
    wait_until("figures", || {
        let response = post(&mut Client::connect(host), "/query", &request);
        response.items[0].values.number("used")
    })
}

/// Each request was charged wholly or not at all: the sums agree on each host, and in the ledgers
/// once the hosts have returned their unspent uses.
#[track_caller]
fn sums_agree(told: &Told, nodes: &Nodes, hosts: &[SocketAddr]) {
    for (biz, charges) in told.shared.iter().enumerate() {
        wait_until("hosts give back what they have not used", || {
            let granted = nodes.granted(biz);
            assert!(granted.uses >= charges.sure, "b{biz}: {granted:?} of {charges:?}");
            charges.can_be(granted.uses).then_some(())
        });
    }
    for (&host, charges) in hosts.iter().zip(told.own) {
        let used = used(host, BIZS);
        assert!(charges.can_be(used), "{used} on a host of {charges:?}");
    }
    assert!(told.own.iter().all(|charges| charges.sure > 0), "{told:?}");
    assert!(told.slowest < WAIT + SLACK, "{:?}", told.slowest);
}

#[test]
fn where_there_is_enough_every_request_comes_through() {
    let Some(nodes) = Nodes::start() else { return };
    let hosts = setup(1_000_000, "cluster", &nodes);
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let told = run(&addresses, || thread::sleep(Duration::from_secs(5)));
    assert!(told.admitted > 300, "{told:?}");
    // On a busy machine a wait may end before a process has run.
    assert!(told.refused * 50 <= told.admitted, "{told:?}");
    sums_agree(&told, &nodes, &addresses);
    drop(servers);
}

/// Waits until nothing is admitted any more.
fn spend(hosts: &[SocketAddr]) {
    let mut last = (0, Instant::now());
    wait_until("everything is spent", || {
        let now: u64 = (0..BIZS).map(|biz| used(hosts[0], biz)).sum();
        if now != last.0 {
            last = (now, Instant::now());
        }
        (last.1.elapsed() > Duration::from_secs(3)).then_some(())
    });
}

/// Checks few uses that are needed in all orders: requests are charged wholly, and no uses remain
/// that a request could have had.
#[track_caller]
fn check_scarce(told: &Told, max: u64) {
    for (biz, charges) in told.shared.iter().enumerate() {
        assert!(charges.sure <= max, "b{biz} of {told:?}");
    }
    let full = told.shared.iter().filter(|charges| charges.sure + charges.maybe >= max).count();
    assert!(full >= BIZS - 1, "{told:?}");
}

#[track_caller]
fn scarce(share: &str) {
    const MAX: u64 = 120;
    let Some(nodes) = Nodes::start() else { return };
    let hosts = setup(MAX, share, &nodes);
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let told = run(&addresses, || spend(&addresses));
    check_scarce(&told, MAX);
    sums_agree(&told, &nodes, &addresses);
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

fn kill_one(servers: &[Server<'_>], random: &mut Random) -> bool {
    let role = ["worker", "courier"][random.below(2)];
    let found = servers[random.below(servers.len())].attached(role);
    !found.is_empty() && kill(found[random.below(found.len())], Signal::SIGKILL).is_ok()
}

// Shows: exactly-m-on-machines.
#[test]
fn requests_are_charged_whole_while_workers_and_couriers_are_killed() {
    const MAX: u64 = 400;
    let Some(nodes) = Nodes::start() else { return };
    let hosts = setup(MAX, "cluster", &nodes);
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let told = run(&addresses, || {
        let (mut random, mut killed) = (Random::new(1), 0);
        while killed < 40 {
            killed += usize::from(kill_one(&servers, &mut random));
            thread::sleep(Duration::from_millis(100));
        }
        spend(&addresses);
    });
    check_scarce(&told, MAX);
    sums_agree(&told, &nodes, &addresses);
    drop(servers);
}
