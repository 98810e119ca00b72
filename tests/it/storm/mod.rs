//! Storms: clients send the same again over connections that are cut before, in and after the
//! answer, while workers are killed, and now and then the whole server.
//!
//! `FRS_STORM` is the length of each storm in seconds: `just storm 300`.

mod holds;
mod registers;
mod retries;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::load::{UntilDropped, wait_for_more};
use crate::common::{Answer, Client, Settings, Setup, wait_until};
use nix::sys::signal::{Signal, kill};

const CLIENTS: u64 = 6;
const WORKERS: u16 = 4;
/// The length without `FRS_STORM`, and the fewest kills.
const SECONDS: u64 = 3;
const KILLS: u64 = 2 * KILLS_OF_A_MASTER;
/// Answers between two kills, so that the server keeps serving.
const BETWEEN_KILLS: u64 = 40;
/// Workers of one master that are killed: each death in a row makes it wait longer.
const KILLS_OF_A_MASTER: u64 = 6;

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn of_client(client: u64) -> Random {
        Random((client + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in 1..all.len() {
            all.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

/// What all clients of a storm share.
struct Storm {
    address: SocketAddr,
    is_over: AtomicBool,
    /// Whole answers, and sendings without one.
    answered: AtomicU64,
    unanswered: AtomicU64,
}

impl Storm {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn length() -> Duration {
        let told = std::env::var("FRS_STORM").ok();
        let seconds = told.map(|text| text.parse().expect("FRS_STORM: seconds"));
        Duration::from_secs(seconds.unwrap_or(SECONDS))
    }

    /// Runs all clients until the time is over. Meanwhile it kills workers, and now and then every
    /// process, and starts the server again. Returns what each client returns.
    fn rage<T: Send>(setup: &Setup, client: impl Fn(&Storm, u64) -> T + Sync) -> Vec<T> {
        let (length, begun) = (Storm::length(), Instant::now());
        let storm = Storm {
            address: setup.address,
            is_over: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
        };
        let mut server = setup.start();
        server.wait_for_workers(WORKERS.into());
        let (mut kills, mut starts) = (0, 0);
        let results = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|nth| {
                    let (storm, client) = (&storm, &client);
                    scope.spawn(move || client(storm, nth))
                })
                .collect();
            let ends = UntilDropped(&storm.is_over);
            while begun.elapsed() < length || kills < KILLS {
                wait_for_more(&storm.answered, BETWEEN_KILLS);
                let workers = wait_until("a worker lives", || {
                    Some(server.workers()).filter(|workers| !workers.is_empty())
                });
                let _ = kill(workers[kills as usize % workers.len()], Signal::SIGKILL);
                kills += 1;
                if kills % KILLS_OF_A_MASTER == 0 {
                    wait_for_more(&storm.answered, BETWEEN_KILLS);
                    server.kill_all_and_wait();
                    server = setup.start();
                    starts += 1;
                }
            }
            drop(ends);
            clients.into_iter().map(|client| client.join().expect("nothing failed")).collect()
        });
        let [answered, unanswered] =
            [&storm.answered, &storm.unanswered].map(|count| count.load(Ordering::Relaxed));
        println!(
            "{:?}: {kills} workers killed, {starts} restarts, {answered} answers, {unanswered} \
             sendings without one",
            begun.elapsed()
        );
        assert!(unanswered > 0, "nothing was cut");
        results
    }
}

/// A server with room for all keys of the storm: an eviction would forget an id.
fn setup(map: &str) -> Setup {
    let setup = Setup::new(&Settings { workers: WORKERS, ..Settings::default() });
    let keys = 2000 * Storm::length().as_secs().max(5);
    setup.write_map(&map.replace("KEYS", &keys.to_string()));
    setup
}

/// Where a sending is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The request never arrives whole.
    InRequest,
    BeforeAnswer,
    InAnswer,
    AfterAnswer,
    Nowhere,
}

impl Cut {
    fn draw(random: &mut Random) -> Cut {
        match random.below(12) {
            0 => Cut::InRequest,
            1 | 2 => Cut::BeforeAnswer,
            3 => Cut::InAnswer,
            4 => Cut::AfterAnswer,
            _ => Cut::Nowhere,
        }
    }
}

/// A client's connection. A new one follows one that was cut.
struct Line<'s> {
    storm: &'s Storm,
    client: Option<Client>,
}

impl<'s> Line<'s> {
    fn new(storm: &'s Storm) -> Line<'s> {
        Line { storm, client: None }
    }

    /// Sends a request, or the part of it before the cut.
    fn send(&mut self, request: &str, cut: Cut) {
        let address = self.storm.address;
        let mut client = self
            .client
            .take()
            .unwrap_or_else(|| wait_until("the server listens", || Client::try_connect(address)));
        let sent = if cut == Cut::InRequest { request.len() / 2 } else { request.len() };
        if client.stream.write_all(&request.as_bytes()[..sent]).is_ok() {
            self.client = Some(client);
        }
    }

    /// The whole answer, if it comes before the cut.
    fn answer(&mut self, cut: Cut) -> Option<Answer> {
        let answer = self.client.take().and_then(|mut client| match cut {
            Cut::InRequest | Cut::BeforeAnswer => None,
            Cut::InAnswer => {
                let _ = client.stream.read(&mut [0; 9]);
                None
            }
            Cut::AfterAnswer => client.try_answer().ok(),
            Cut::Nowhere => {
                let answer = client.try_answer().ok()?;
                self.client = Some(client).filter(|_| !answer.closes());
                Some(answer)
            }
        });
        let count = if answer.is_some() { &self.storm.answered } else { &self.storm.unanswered };
        count.fetch_add(1, Ordering::Relaxed);
        answer
    }

    /// Sends a request. Returns its whole answer, if it comes.
    fn ask(&mut self, request: &str, cut: Cut) -> Option<Answer> {
        self.send(request, cut);
        self.answer(cut)
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: t\r\n\r\n")
}

/// The digit of an id in the uses of its key.
const fn digit(used: u64, bits: u64, id: u64) -> u64 {
    used >> (bits * id) & ((1 << bits) - 1)
}
