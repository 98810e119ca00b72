//! Networks that stop, delay, cut and reset what peers say to each other, and strangers who call.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};

use super::proxy::{Network, Proxy};
use super::{Machine, Peers, machines, start, used};
use crate::common::load::{UntilDropped, wait_for_more};
use crate::common::{Client, wait_until};

/// Two machines, and the ways from each to the other.
struct Apart {
    machines: [Machine; 2],
    ways: [Proxy; 2],
}

impl Apart {
    fn new() -> Apart {
        let machines = [Machine::new(), Machine::new()];
        let ways = [Proxy::to(machines[1].listen()), Proxy::to(machines[0].listen())];
        for (machine, way) in machines.iter().zip(&ways) {
            machine.write_srv(&Peers::of(&[way.address]));
        }
        Apart { machines, ways }
    }

    fn set(&self, network: Network) {
        self.ways.iter().for_each(|way| way.set(network));
    }

    /// Waits until both have this count.
    #[track_caller]
    fn wait_for(&self, key: &str, count: u64) {
        self.machines.iter().for_each(|machine| machine.wait_for("plenty", key, count));
    }
}

#[track_caller]
fn both_go_on_and_agree_afterwards(network: Network) {
    let apart = Apart::new();
    let _servers = start(&apart.machines);
    let [here, there] = &apart.machines;
    for key in ["taken", "both", "left"] {
        here.charge("plenty", key, 10);
        apart.wait_for(key, 10);
    }
    apart.set(network);
    let begun = Instant::now();
    // An owner's many changes are older than the first change of a machine that takes the key over.
    (0..9).for_each(|_| here.charge("plenty", "taken", 1));
    there.charge("plenty", "taken", 5);
    here.charge("plenty", "left", 1);
    // Of two who have created a record the one with more changes is later.
    (0..3).for_each(|_| here.charge("plenty", "new", 1));
    there.charge("plenty", "new", 70);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let counts = [here, there]
        .map(|machine| ["taken", "both", "left", "new"].map(|key| machine.used("plenty", key)));
    assert_eq!(counts, [[19, 10, 11, 3], [15, 10, 10, 70]]);
    apart.set(Network::Passes);
    for (key, count) in [("taken", 15), ("both", 10), ("left", 11), ("new", 3)] {
        apart.wait_for(key, count);
    }
    here.charge("plenty", "taken", 1);
    apart.wait_for("taken", 16);
}

#[test]
fn where_the_network_is_cut_both_go_on_and_agree_afterwards() {
    both_go_on_and_agree_afterwards(Network::IsCut);
}

#[test]
fn where_the_network_delivers_nothing_both_go_on_and_agree_afterwards() {
    both_go_on_and_agree_afterwards(Network::Stops);
}

#[test]
fn a_slow_network_is_behind_and_not_lost() {
    let apart = Apart::new();
    let _servers = start(&apart.machines);
    apart.set(Network::Delays(Duration::from_millis(150)));
    let [here, there] = &apart.machines;
    for nth in 0..50 {
        here.charge("plenty", &format!("k{nth}"), nth + 1);
        there.charge("plenty", &format!("l{nth}"), nth + 1);
    }
    for nth in 0..50 {
        apart.wait_for(&format!("k{nth}"), nth + 1);
        apart.wait_for(&format!("l{nth}"), nth + 1);
    }
    here.charge("plenty", "l7", 1);
    apart.wait_for("l7", 9);
}

#[test]
fn connections_that_are_reset_at_any_moment_lose_nothing() {
    const KEYS: usize = 200;
    let apart = Apart::new();
    let _servers = start(&apart.machines);
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let charge = |nth: usize| {
        let (mut client, mut counts) = (apart.machines[nth].client(), vec![0; KEYS]);
        let mut at = 0;
        while !stop.load(Ordering::Relaxed) {
            client.charge("plenty", &format!("{nth}-{at}"), 1);
            counts[at] += 1;
            at = (at + 7) % KEYS;
            answered.fetch_add(1, Ordering::Relaxed);
        }
        counts
    };
    let counts = thread::scope(|scope| {
        let ends = UntilDropped(&stop);
        let clients = [0, 1].map(|nth| scope.spawn(move || charge(nth)));
        for _ in 0..10 {
            wait_for_more(&answered, 150);
            for way in &apart.ways {
                wait_until("a connection is reset", || (way.reset() > 0).then_some(()));
            }
        }
        drop(ends);
        clients.map(|client| client.join().expect("no request fails"))
    });
    for machine in &apart.machines {
        let mut client = machine.client();
        for (nth, counts) in counts.iter().enumerate() {
            for (at, count) in counts.iter().enumerate() {
                let key = format!("{nth}-{at}");
                wait_until("the counts agree", || {
                    (used(&mut client, "plenty", &key) == *count).then_some(())
                });
            }
        }
    }
}

/// No frame, the head of a frame without an end, and the request of a browser.
const GARBAGE: [&[u8]; 3] = [&[0xff; 4096], &[0, 1, 0, 0], b"GET / HTTP/1.1\r\n\r\n"];

/// Whether the other end has closed a connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).expect("set");
    match stream.read(&mut [0; 64]) {
        Ok(read) => read == 0,
        Err(error) => {
            !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
        }
    }
}

#[test]
fn strangers_at_the_port_of_peers_disturb_nobody() {
    let machines: [Machine; 2] = machines();
    let [_here, server] = start(&machines);
    let [here, there] = &machines;
    let (stop, refused, called) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let call = |text: &[u8]| {
        let mut stream = TcpStream::connect(there.listen()).ok()?;
        stream.write_all(text).ok()?;
        called.fetch_add(1, Ordering::Relaxed);
        Some(stream)
    };
    thread::scope(|scope| {
        let ends = UntilDropped(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for text in GARBAGE {
                    let Some(mut stream) = call(text) else { continue };
                    while !stop.load(Ordering::Relaxed) && !is_closed(&mut stream) {
                        thread::yield_now();
                    }
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // One hundred who say nothing, or a byte a second, and call again when they are closed.
        scope.spawn(|| {
            let mut strangers: Vec<Option<(TcpStream, Instant)>> = (0..100).map(|_| None).collect();
            while !stop.load(Ordering::Relaxed) {
                for (nth, stranger) in strangers.iter_mut().enumerate() {
                    match stranger {
                        None => *stranger = call(&[]).map(|stream| (stream, Instant::now())),
                        Some((stream, spoke)) => {
                            let speaks = nth % 2 == 0 && spoke.elapsed() > Duration::from_secs(1);
                            if speaks {
                                *spoke = Instant::now();
                            }
                            let is_over = speaks && stream.write_all(&[1]).is_err();
                            if is_over || is_closed(stream) {
                                *stranger = None;
                            }
                        }
                    }
                }
            }
        });
        wait_for_more(&called, 200);
        wait_for_more(&refused, 3);
        for round in 1..=3 {
            here.charge("plenty", "k", 1);
            there.wait_for("plenty", "k", round);
        }
        // A courier that is new has to get in.
        for round in 1..=3 {
            let courier = here.setup().attached("courier")[0];
            kill(courier, Signal::SIGKILL).expect("killed");
            here.charge("plenty", "new", 1);
            there.wait_for("plenty", "new", round);
        }
        wait_for_more(&called, 100);
        drop(ends);
    });
    assert!(!server.workers().is_empty());
    let mut client: Client = there.client();
    assert_eq!(used(&mut client, "plenty", "new"), 3);
}
