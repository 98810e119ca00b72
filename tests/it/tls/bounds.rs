//! Clients of TLS that are slow, many, silent or hostile: others are served, and memory stays
//! within its bound.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use frs_base::sys::process::raise_file_limit;
use nix::unistd::Pid;
use rustls::client::Resumption;

use super::edge::Edge;
use super::stage::wait_for_the_end;
use crate::common::load::UntilDropped;
use crate::common::secure::{self, Version};
use crate::common::{Server, programs, text, wait_until};

/// The first bytes of a record that promises 512 bytes of a ClientHello.
const HALF_HELLO: &[u8] = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03";
/// What a standing TLS connection may take of a worker, at most.
const CONNECTION_BYTES: u64 = 40 << 10;

/// Full handshakes, one after the other from each of several threads, while `others` runs.
pub fn flood(stage: &Edge, address: SocketAddr, others: impl FnOnce(&AtomicUsize)) -> usize {
    let mut settings = secure::settings(&stage.ca, None, Version::Best);
    settings.resumption = Resumption::disabled();
    let (settings, is_over) = (Arc::new(settings), AtomicBool::new(false));
    let shaken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let ends = UntilDropped(&is_over);
        for _ in 0..8 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = secure::connect(address, &settings);
                    shaken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        others(&shaken);
        drop(ends);
    });
    shaken.load(Ordering::Relaxed)
}

// Shows: tls-hostile-clients.
#[test]
fn beside_a_flood_of_handshakes_every_request_is_answered() {
    let stage = Edge::new("", "");
    let server = stage.setup.start();
    let settings = stage.client(Version::Best);
    let shaken = flood(&stage, stage.http.address, |shaken| {
        let mut standing = secure::client(stage.http.address, &settings);
        let mut plain = server.client();
        wait_until("the flood has begun", || (shaken.load(Ordering::Relaxed) > 0).then_some(()));
        for nth in 0..300 {
            let target = format!("/update?biz=plenty&key=good{nth}");
            assert_eq!(standing.get(&target).status, 200);
            assert_eq!(plain.get(&target).attribute("used"), Some("2"));
        }
        // New clients come through, too.
        for _ in 0..10 {
            let answer = secure::client(stage.http.address, &settings).get("/health");
            assert_eq!(answer.status, 200);
        }
    });
    assert!(shaken > 8, "{shaken} handshakes");
}

// Shows: tls-hostile-clients.
#[test]
fn slow_handshakes_are_closed_within_the_time_of_a_request() {
    let stage = Edge::new("request-timeout=\"1s\" idle-timeout=\"1h\"", "");
    let server = stage.setup.start();
    let settings = stage.client(Version::Best);
    let mut standing = secure::client(stage.http.address, &settings);
    for address in [stage.http.address, stage.resp.address] {
        let mut halves: Vec<TcpStream> = (0..100)
            .map(|_| {
                let mut stream = TcpStream::connect(address).expect("connected");
                stream.write_all(HALF_HELLO).expect("written");
                stream
            })
            .collect();
        let mut dripping = TcpStream::connect(address).expect("connected");
        dripping.write_all(HALF_HELLO).expect("written");
        // A byte now and then is no reason to wait longer.
        wait_until("who drips bytes is closed", || {
            std::thread::sleep(Duration::from_millis(50));
            dripping.write_all(b"\0").is_err().then_some(())
        });
        halves.iter_mut().for_each(wait_for_the_end);
        assert_eq!(standing.get("/health").status, 200);
    }
    assert_eq!(server.client().get("/health").status, 200);
}

// Shows: tls-hostile-clients.
#[test]
fn garbage_instead_of_a_handshake_costs_nobody_anything() {
    let stage = Edge::new("", "");
    let server = stage.setup.start();
    let workers = server.wait_for_workers(2);
    let settings = stage.client(Version::Best);
    let mut standing = secure::client(stage.http.address, &settings);
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u8
    };
    for nth in 0..300 {
        let address = if nth % 2 == 0 { stage.http.address } else { stage.resp.address };
        let mut stream = TcpStream::connect(address).expect("connected");
        let mut bytes: Vec<u8> = (0..nth * 7).map(|_| random()).collect();
        // A record of the handshake, of an alert, of data, or no record at all.
        for (byte, head) in bytes.iter_mut().zip([[22, 21, 23, random()][nth % 4], 3, 1, 1]) {
            *byte = head;
        }
        // The server may have closed already.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        wait_for_the_end(&mut stream);
        assert_eq!(standing.get("/health").status, 200, "after {bytes:?}");
    }
    assert_eq!(server.workers(), workers);
}

/// The resident memory of processes, in bytes.
fn resident(processes: &[Pid]) -> u64 {
    let of = |pid: &Pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("there");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("told");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    };
    processes.iter().map(of).sum()
}

fn serve_all(server: &Server<'_>, stage: &Edge, count: usize) {
    let workers = server.wait_for_workers(2);
    let settings = stage.client(Version::Best);
    // What the first connections of a worker allocate stays.
    let warm: Vec<_> = (0..64).map(|_| secure::client(stage.http.address, &settings)).collect();
    let before = resident(&workers);
    let mut idle: Vec<_> = (0..count)
        .map(|_| {
            let mut client = secure::client(stage.http.address, &settings);
            assert_eq!(client.get("/health").status, 200);
            client
        })
        .collect();
    let each = resident(&workers).saturating_sub(before) / count as u64;
    println!("{count} idle connections over TLS take {each} bytes each of their workers");
    assert!(each <= CONNECTION_BYTES, "{each} bytes");
    for client in &mut idle {
        assert_eq!(client.get("/query?biz=plenty&key=k").status, 200);
    }
    assert_eq!(server.workers(), workers);
    drop(warm);
}

/// FRS_IDLE_TLS is the number of connections: `just idle-tls` opens 10,000.
// Shows: tls-hostile-clients.
#[test]
fn idle_connections_stay_and_take_no_more_than_the_bound() {
    // A process of its own, for its files.
    let mut program = programs::program(module_path!(), "idle_connections");
    let output = program.output().expect("it runs");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    print!("{said}");
}

#[test]
#[ignore = "the test before runs it"]
fn idle_connections() {
    let count = std::env::var("FRS_IDLE_TLS").map_or(500, |text| text.parse().expect("a number"));
    raise_file_limit().expect("raised");
    let stage = Edge::new("idle-timeout=\"1h\"", "");
    let server = stage.setup.start();
    serve_all(&server, &stage, count);
}
