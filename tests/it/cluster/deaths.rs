//! Processes of hosts die, and whole hosts lose their directories. Never more than the maximum is
//! admitted, and only uses that a lost directory held are missing.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use frs::{Client, Item};
use nix::sys::signal::{Signal, kill};

use super::history::{History, Use, now_ms};
use super::hosts::{Hosts, Load, Random, Routing, Shared, map};
use super::nodes::Nodes;
use super::outages::wait_for_answers;
use crate::common::load::UntilDropped;
use crate::common::programs::program;
use crate::common::{Server, Setup, wait_until};

const MAXIMA: [u64; 4] = [1, 5, 100, 10_000];
const BURST: u64 = 200;
const RATE: u64 = 20;
const INTERVAL_MS: u64 = 3_000;
const IN_INTERVAL: u64 = 100;

pub fn shared(share: &str, limit: &str) -> Shared {
    let biz = format!("share=\"{share}\" hosts=\"3\" wait=\"500ms\" on-down=\"refuse\"");
    Shared::new(&biz, limit)
}

pub fn hour(max: u64, share: &str) -> Shared {
    shared(share, &format!("policy=\"interval\" interval=\"1h\" max=\"{max}\""))
}

/// Businesses whose uses run out, with the uses that they admit in all.
fn ending() -> Vec<(Shared, u64)> {
    let mut all = Vec::new();
    for max in MAXIMA {
        all.push((hour(max, "cluster"), max));
        let few = max.min(500);
        all.push((hour(few, "exact"), few));
    }
    for (share, max) in [("cluster", 1_000), ("exact", 100)] {
        all.push((shared(share, &format!("policy=\"total\" max=\"{max}\"")), max));
    }
    all
}

/// Businesses that get more uses as time passes.
pub fn endless() -> [Shared; 3] {
    [
        shared("cluster", &format!("policy=\"token\" rate=\"{RATE}/s\" burst=\"{BURST}\"")),
        shared("cluster", &format!("policy=\"sliding\" interval=\"3s\" max=\"{IN_INTERVAL}\"")),
        shared("exact", &format!("policy=\"sliding\" interval=\"3s\" max=\"{IN_INTERVAL}\"")),
    ]
}

/// Businesses whose uses run out have admitted exactly their maximum.
#[track_caller]
pub fn check_ending(nodes: &Nodes, histories: &[History], maxima: &[u64]) {
    for (biz, (history, max)) in histories.iter().zip(maxima).enumerate() {
        let (admitted, lost) = (history.admitted.len() as u64, history.lost.len() as u64);
        let told = format!("b{biz}: {admitted} admitted and {lost} lost of {max}");
        println!("{told}: {:?}", nodes.granted(biz));
        assert!(admitted <= *max, "{told}");
        assert!(admitted + lost >= *max, "{told}");
    }
}

/// Tokens that flow back in `length_ms` reach the hosts, though slowly.
#[track_caller]
pub fn check_endless(histories: &[History], length_ms: u64) {
    let [token, sliding @ ..] = histories else { panic!("histories") };
    assert_eq!(token.overdrawn(BURST, RATE, 1_000), 0);
    let (admitted, lost) = (token.admitted.len() as u64, token.lost.len() as u64);
    // Nothing is granted while couriers are dead. The length of that depends on the machine.
    let least = BURST + RATE * length_ms / 4_000;
    println!("token: {admitted} admitted and {lost} lost, at least {least}");
    assert!(admitted + lost >= least, "{admitted} admitted and {lost} lost of {least}");
    for history in sliding {
        let most = history.most_in(INTERVAL_MS - 1) as u64;
        println!("sliding: {} admitted, {most} in an interval", history.admitted.len());
        assert!(most <= IN_INTERVAL, "{most} in an interval");
        assert!(history.admitted.len() as u64 >= 2 * IN_INTERVAL);
    }
}

/// The data directory of the attached program, and the number of businesses.
const DATA: &str = "FRS_TEST_DATA";
const BIZS: &str = "FRS_TEST_BIZS";

/// Prints before each Update what it asks for, and afterwards the answer.
#[test]
#[ignore = "a program of killed"]
fn asks_through_the_library() {
    let (Some(data), Ok(bizs)) = (std::env::var_os(DATA), std::env::var(BIZS)) else { return };
    let bizs: usize = bizs.parse().expect("a number");
    println!();
    let client = wait_until("there is a place", || Client::attach(&data).ok());
    let mut random = Random::new(std::process::id().into());
    // Ends by a signal, or when printing fails.
    loop {
        let (biz, from_ms) = (random.below(bizs), now_ms());
        println!("asks {biz} {from_ms}");
        let verdict = client.update(Item::new(&*format!("b{biz}"), "k"));
        let is_allowed = verdict.is_ok_and(|verdict| verdict.is_allowed());
        println!("told {biz} {from_ms} {} {}", now_ms() + 1, u8::from(is_allowed));
        thread::sleep(Duration::from_millis(5));
    }
}

/// Keeps a program attached to a host until the end.
fn attached(setup: &Setup, load: &Load<'_>, is_over: &AtomicBool) -> Vec<History> {
    let mut histories = vec![History::default(); load.bizs];
    while !is_over.load(Ordering::Relaxed) {
        let mut child = program(module_path!(), "asks_through_the_library")
            .env(DATA, setup.path("data"))
            .env(BIZS, load.bizs.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let mut asked = None;
        for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
            let line = line.expect("read");
            let (word, rest) = line.split_once(' ').unwrap_or_default();
            let numbers: Vec<u64> = rest.split(' ').flat_map(str::parse).collect();
            match (word, &numbers[..]) {
                ("asks", &[biz, from_ms]) => asked = Some((biz as usize, from_ms)),
                ("told", &[biz, from_ms, to_ms, is_allowed]) => {
                    asked = None;
                    let history = &mut histories[biz as usize];
                    if is_allowed == 1 {
                        history.admitted.push(Use { from_ms, to_ms });
                    } else {
                        history.refused += 1;
                    }
                    load.note(biz as usize, is_allowed as usize);
                }
                _ => {}
            }
            if is_over.load(Ordering::Relaxed) {
                child.kill().expect("killed");
            }
        }
        child.wait().expect("reaped");
        if let Some((biz, from_ms)) = asked {
            histories[biz].lost.push(Use { from_ms, to_ms: now_ms() + 1 });
        }
    }
    histories
}

/// Servers whose processes are killed.
pub struct Killer<'a> {
    hosts: &'a Hosts,
    servers: Vec<Server<'a>>,
    /// Servers whose master was killed. Their other processes end by themselves.
    ending: Vec<Option<Server<'a>>>,
    random: Random,
}

impl<'a> Killer<'a> {
    /// Starts the hosts.
    pub fn new(hosts: &'a Hosts, seed: u64) -> Killer<'a> {
        let servers = hosts.start();
        let ending = servers.iter().map(|_| None).collect();
        Killer { hosts, servers, ending, random: Random::new(seed) }
    }

    /// Kills a process of one of these roles. `false` if there is none at the moment.
    pub fn kill_one(&mut self, roles: &[&str]) -> bool {
        let nth = self.random.below(self.servers.len());
        let role = roles[self.random.below(roles.len())];
        if role == "master" {
            return self.kill_master(nth);
        }
        let found = self.servers[nth].attached(role);
        !found.is_empty() && kill(found[self.random.below(found.len())], Signal::SIGKILL).is_ok()
    }

    /// Kills a serving master, and starts the server again.
    fn kill_master(&mut self, nth: usize) -> bool {
        let server = &mut self.servers[nth];
        if server.workers().is_empty() {
            return false;
        }
        server.signal(Signal::SIGKILL);
        server.wait();
        let next = self.hosts.setups[nth].start_unready();
        self.ending[nth] = Some(std::mem::replace(server, next));
        true
    }
}

#[track_caller]
fn killed(roles: &[&str], kills: usize) {
    let Some(nodes) = Nodes::start() else { return };
    let (mut all, maxima): (Vec<Shared>, Vec<u64>) = ending().into_iter().unzip();
    all.extend(endless());
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&all));
    let mut killer = Killer::new(&hosts, 1);
    let addresses = hosts.addresses();
    let mut load = Load::new(&addresses, all.len(), Routing::None);
    load.endless_from = maxima.len();
    // The largest businesses are picked more often.
    let picks = |(biz, max): (usize, &u64)| vec![biz; 1 + *max as usize / 1_000];
    load.picks.extend((0..).zip(&maxima).flat_map(picks));
    let (begun_ms, is_over) = (now_ms(), AtomicBool::new(false));
    let mut others = Vec::new();
    let mut histories = load.run(|load| {
        thread::scope(|scope| {
            let ends = UntilDropped(&is_over);
            let is_over = &is_over;
            let keep = |setup| scope.spawn(move || attached(setup, load, is_over));
            let programs: Vec<_> = hosts.setups.iter().map(keep).collect();
            let mut killed = 0;
            while killed < kills {
                killed += usize::from(killer.kill_one(roles));
                thread::sleep(Duration::from_millis(100));
            }
            load.spend();
            drop(ends);
            others.extend(programs.into_iter().map(|program| program.join().expect("joined")));
        });
    });
    for own in others {
        assert!(own.iter().any(|history| !history.admitted.is_empty()), "a program asks in vain");
        histories.iter_mut().zip(own).for_each(|(all, own)| all.add(own));
    }
    check_ending(&nodes, &histories, &maxima);
    check_endless(&histories[maxima.len()..], now_ms() - begun_ms);
    drop(killer);
}

// Shows: exactly-m-on-machines, cluster-faults.
#[test]
fn nothing_is_over_and_nothing_missing_where_processes_are_killed_all_the_time() {
    killed(&["worker", "keeper", "courier", "program", "master"], 60);
}

#[test]
fn couriers_are_killed_and_every_lease_is_found_again() {
    killed(&["courier"], 40);
}

// Shows: cluster-faults.
#[test]
fn a_host_whose_directory_is_deleted_costs_at_most_what_it_held() {
    const MAX: u64 = 10_000;
    let Some(nodes) = Nodes::start() else { return };
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&[hour(MAX, "cluster")]));
    let mut servers = hosts.start();
    let addresses = hosts.addresses();
    let load = Load::new(&addresses, 1, Routing::None);
    let histories = load.run(|load| {
        wait_for_answers(load, 300);
        hosts.lose(0, servers.remove(0));
        servers.insert(0, hosts.setups[0].start());
        load.spend();
    });
    let (admitted, lost) = (histories[0].admitted.len() as u64, histories[0].lost.len() as u64);
    assert!(admitted <= MAX, "{admitted} admitted");
    // A lease is at most max / (2 hosts) beyond the used uses, and the lost host held one.
    let slice = MAX / 6;
    assert!(admitted + lost + slice >= MAX, "{admitted} admitted and {lost} lost");
}
