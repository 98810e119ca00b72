//! Limiter libraries that count in Redis by plain commands: the same random hits, over redis-server
//! and over frs, have the same decisions and counts, also after a kill of all processes of frs.
//!
//! Invariant: the libraries are published packages that know nothing of frs. Over both servers runs
//! the same program, which is told only another address.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::calls::Chance;
use super::redis::Redis;
use super::setup;
use super::wire::Wire;
use crate::common::{needs, wait_until};
use crate::resp::driver::with_clients;

const HITS: usize = 1500;
/// Clients that hit. Some come more often than a limit allows, others do not.
const CLIENTS: usize = 12;

/// A program with a library.
struct Kind {
    program: &'static str,
    script: &'static str,
    /// What it is told besides the address.
    argument: &'static str,
}

/// A running program.
struct Shop {
    child: Child,
    hits: ChildStdin,
    decisions: BufReader<ChildStdout>,
}

impl Shop {
    /// `None` if the library is not installed.
    #[track_caller]
    fn open(kind: &Kind, url: &str) -> Option<Shop> {
        let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/registers/programs");
        let mut command = with_clients(kind.program);
        command.arg(Path::new(programs).join(kind.script)).args([url, kind.argument]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = needs::spawn(&mut command)?;
        let hits = child.stdin.take().expect("piped");
        let decisions = BufReader::new(child.stdout.take().expect("piped"));
        let mut shop = Shop { child, hits, decisions };
        let first = shop.line();
        if let Some(missing) = first.strip_prefix("missing: ") {
            needs::skip(&format!("{}: {missing}", kind.script));
            return None;
        }
        assert_eq!(first, "ready", "{}", kind.script);
        Some(shop)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.decisions.read_line(&mut line).expect("read");
        line.trim_end().to_owned()
    }

    fn send(&mut self, hit: &str) {
        writeln!(self.hits, "{hit}").expect("the program listens");
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn decides_as_over_redis(kind: &Kind) {
    let Some(redis) = Redis::start() else { return };
    let (setup, resp) = setup(2, 4000);
    let mut server = setup.start();
    wait_until("frs listens", || Wire::connect(resp.address).ok());
    let frs = format!("redis://{}/0", resp.address);
    let open = || Some((Shop::open(kind, &redis.url())?, Shop::open(kind, &frs)?));
    let Some(mut shops) = open() else { return };
    let mut chance = Chance(HITS as u64);
    let (mut seconds, mut refused) = (1_700_000_000, 0);
    for nth in 0..HITS {
        if nth == HITS / 2 {
            server.kill_all_and_wait();
            server = setup.start();
            wait_until("frs listens", || Wire::connect(resp.address).ok());
            shops = open().expect("it was there");
        }
        // A minute has some 60 hits. The last clients come seldom.
        seconds += chance.below(3);
        let client = chance.below(CLIENTS).min(chance.below(CLIENTS));
        let hit = format!("{seconds} 10.0.0.{client}");
        let (over_redis, over_frs) = &mut shops;
        over_redis.send(&hit);
        over_frs.send(&hit);
        let (expected, found) = (over_redis.line(), over_frs.line());
        assert_eq!(found, expected, "{}: hit {nth}: {hit}", kind.script);
        refused += usize::from(expected.starts_with("1 "));
    }
    println!("{}: {refused} of {HITS} hits are refused", kind.script);
    assert!((HITS / 20..HITS / 2).contains(&refused), "{refused}");
    drop(server);
}

// Shows: redis-by-port.
#[test]
fn django_ratelimit_decides_as_over_redis() {
    let kind = Kind { program: "python3", script: "django_shop.py", argument: "" };
    decides_as_over_redis(&kind);
}

// Shows: redis-by-port.
#[test]
fn throttled_py_decides_as_over_redis() {
    let kind = Kind { program: "python3", script: "throttled_shop.py", argument: "" };
    decides_as_over_redis(&kind);
}

// Shows: redis-by-port.
#[test]
fn rack_attack_counts_as_over_redis() {
    let kind = Kind { program: "ruby", script: "rack_shop.rb", argument: "plain" };
    decides_as_over_redis(&kind);
}

// Shows: redis-by-port.
#[test]
fn rack_attack_of_rails_counts_as_over_redis() {
    let kind = Kind { program: "ruby", script: "rack_shop.rb", argument: "rails" };
    decides_as_over_redis(&kind);
}
