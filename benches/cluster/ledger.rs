//! The cost of a lease to a node of the cluster: first leases of new ledgers, each by one message,
//! and in turns INCRs of new counters. All keys are in one slot, so one master serves them.

use std::time::Duration;

use clap::Args;
use frs_base::figures::grouped;
use frs_cluster::lease::{Claim, Kind, Settings, Take};
use frs_cluster::ledger::{LIBRARY, arguments, function};
use frs_cluster::name;
use frs_load::prepared::{Answer, Client, Pace, Read, Request, Until};
use redis::cmd;

use crate::nodes::Nodes;
use crate::servers::cpu_of_tree;
use crate::{Result, hosts};

const SETTINGS: Settings =
    Settings { kind: Kind::Interval { interval_ms: 3_600_000 }, max: 1000, hosts: 3 };

/// The key of the slot of all ledgers.
const SLOT: &str = "frs:{bench:1:0123456789abcdef0123456789abcdef}:slot";

/// What a run is like
#[derive(Args)]
pub struct Options {
    /// Rounds; each measures both
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of one measurement
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Messages a second
    #[arg(long, default_value_t = 10_000)]
    rate: u64,
    /// Microseconds from one burst to the next: with --rate 10000 and 6400 a burst is of 64
    #[arg(long, default_value_t = 6_400)]
    every: u64,
}

/// Runs all rounds, and prints a row for each.
pub fn run(options: &Options) -> Result<()> {
    let nodes = hosts::nodes()?;
    let master = Nodes::first_master(name::slot(ledger(0, 0).as_bytes()));
    let _: String = nodes.ask(master, cmd("FUNCTION").arg("LOAD").arg(LIBRARY));
    let node = nodes.node(master);
    let order: Vec<u32> = (0..(options.rate * options.seconds) as u32).collect();
    let client = Client {
        servers: vec![format!("{}:{}", node.host, node.port).parse()?],
        connections: 1,
        pace: Pace::Bursts { rate: options.rate, every: Duration::from_micros(options.every) },
        until: Until::Elapsed(Duration::from_secs(options.seconds)),
        early: Duration::ZERO,
    };
    let rate = grouped(options.rate);
    println!("{rate} messages/s, a burst every {} µs; CPU of the master", options.every);
    for round in 0..options.rounds {
        let leases: Result<Vec<Request>> = order.iter().map(|nth| lease(round, *nth)).collect();
        let incrs = order.iter().map(|nth| incr(round, *nth)).collect();
        for (name, requests) in [("lease", leases?), ("INCR", incrs)] {
            let before = cpu_of_tree(nodes.pid(master).as_raw() as u32)?;
            let measured = client.run(&requests, &order, answer);
            let measured = measured.map_err(|error| format!("{name}: {error}"))?;
            let spent = cpu_of_tree(nodes.pid(master).as_raw() as u32)?.saturating_sub(before);
            let each = spent.as_secs_f64() * 1e6 / measured.answers as f64;
            println!("{name:<6} {each:>6.2} µs: {:>8} a second", grouped((1e6 / each) as u64));
        }
    }
    for hosts in 1..=3 {
        let ledger = ledger(0, 0);
        if hosts > 1 {
            let _: redis::Value = nodes.ask(master, &take(&ledger, hosts)?);
        }
        let bytes: u64 = nodes.ask(master, cmd("MEMORY").arg("USAGE").arg(&ledger));
        println!("a ledger of {hosts} hosts has {bytes} bytes");
    }
    Ok(())
}

/// The name of a ledger, as long as a courier's.
fn ledger(round: u32, nth: u32) -> String {
    format!("frs:{{bench:1:0123456789abcdef0123456789abcdef}}:1:{round:04x}:{nth}")
}

fn take(ledger: &str, host: u64) -> Result<redis::Cmd> {
    let claim = Claim { window: 0, floor: 0, spent: 0, extra: 0, noted: 0 };
    let host = host.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let take = Take { host, seq: 1, claim, need: 1, request: SETTINGS.max };
    let mut call = cmd("FCALL");
    call.arg(function(&SETTINGS.kind)).arg(1).arg(ledger);
    call.arg(arguments(&SETTINGS, &take, 0, SLOT)?);
    Ok(call)
}

fn lease(round: u32, nth: u32) -> Result<Request> {
    let call = take(&ledger(round, nth), 1)?;
    Ok(Request { server: 0, bytes: call.get_packed_command() })
}

fn incr(round: u32, nth: u32) -> Request {
    let mut call = cmd("INCR");
    call.arg(ledger(round, nth).replace("frs:", "incr:"));
    Request { server: 0, bytes: call.get_packed_command() }
}

/// A number, or an array of numbers that begins with 2, which is a grant.
fn answer(bytes: &[u8]) -> Read {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let Some(first) = lines.next().filter(|line| line.ends_with(b"\n")) else { return Ok(None) };
    let text = std::str::from_utf8(first)?.trim_end();
    let rest = match text.split_at_checked(1) {
        Some((":", _)) => return Ok(Some(Answer { bytes: first.len(), is_admitted: true })),
        Some(("*", count)) => count.parse::<usize>()?,
        _ => return Err(format!("no grant: {text}").into()),
    };
    let mut length = first.len();
    for nth in 0..rest {
        let Some(line) = lines.next().filter(|line| line.ends_with(b"\n")) else {
            return Ok(None);
        };
        if nth == 0 && line != b":2\r\n" {
            return Err(format!("no grant: {}", bytes.escape_ascii()).into());
        }
        length += line.len();
    }
    Ok(Some(Answer { bytes: length, is_admitted: true }))
}
