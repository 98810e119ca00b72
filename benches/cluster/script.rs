//! Two windows for each key, by frs over the cluster and by a script in the cluster alone, in
//! turns. Both get the same keys in the same bursts from the same client, over as many connections.
//! The hosts of frs run only in their own turns, so in the script's turns the cluster works for the
//! script alone.

use std::time::Duration;

use clap::Args;
use frs_base::figures::grouped;
use frs_cluster::name;
use redis::cmd;

use crate::Result;
use crate::bursts::{Answer, Bursts, Measured, Request, Requests};
use crate::hosts::{self, Cpu, HOSTS};
use crate::nodes::{MASTERS, Nodes};

/// The maxima of a minute and of a day.
const MINUTE_MAX: u64 = 1_000;
const DAY_MAX: u64 = 100_000;

/// A map with the maxima above.
const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="2048" node-size="512" hash="bob"/>
  <biz id="1" name="two" key="string" share="cluster" hosts="3">
    <limit policy="interval" interval="1m" max="1000"/>
    <limit policy="interval" interval="24h" max="100000"/>
  </biz>
</map>
"#;

/// The same limits with counters that expire: nothing is charged unless both have room.
const SCRIPT: &str = "
for i = 1, 2 do
  local used = redis.call('GET', KEYS[i])
  if used and tonumber(used) >= tonumber(ARGV[i]) then return 0 end
end
for i = 1, 2 do
  if redis.call('INCR', KEYS[i]) == 1 then redis.call('PEXPIRE', KEYS[i], ARGV[i + 2]) end
end
return 1";

/// What a run is like
#[derive(Args)]
pub struct Options {
    /// Rounds; each measures both
    #[arg(long, default_value_t = 2)]
    rounds: u32,
    /// How long to ask, in seconds: a whole window, so that its leases are counted
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Checks a second
    #[arg(long, default_value_t = 100_000)]
    rate: u64,
    /// Keys; key n is used about 1/(n+1)^0.99 as often as key 0
    #[arg(long, default_value_t = 20_000)]
    keys: u32,
    /// Microseconds from one burst to the next
    #[arg(long, default_value_t = 500)]
    every: u64,
    /// How long it begins, in seconds: latencies of this time are told apart
    #[arg(long, default_value_t = 10)]
    early: u64,
    /// Connections to each server
    #[arg(long, default_value_t = 8)]
    connections: usize,
}

/// Runs all rounds, and prints a row for each.
pub fn run(options: &Options) -> Result<()> {
    let nodes = hosts::nodes()?;
    let hosts = hosts::setups(&nodes, MAP)?;
    let order = order(options.keys);
    let own = |server: usize, key: u32| Request { server, bytes: frs_request(key) };
    let frs = Requests {
        servers: hosts.iter().map(|host| host.setup.address).collect(),
        of_keys: (0..options.keys).map(|key| own(key as usize % HOSTS, key)).collect(),
        order: &order,
        read: frs_answer,
    };
    let script = script_requests(&nodes, options.keys, &order)?;
    let bursts = Bursts {
        rate: options.rate,
        every: Duration::from_micros(options.every),
        duration: Duration::from_secs(options.seconds),
        early: Duration::from_secs(options.early),
        connections: options.connections,
    };
    print_head(options);
    for _ in 0..options.rounds {
        // No host runs beside the script.
        let before = Cpu::now(&[], &nodes)?;
        let measured = bursts.run(&script).map_err(|error| format!("script: {error}"))?;
        print_row("script", &measured, Cpu::now(&[], &nodes)?.since(before));

        let servers: Vec<_> = hosts.iter().map(hosts::Host::start).collect();
        let (before, takes) = (Cpu::now(&servers, &nodes)?, takes(&hosts)?);
        let measured = bursts.run(&frs).map_err(|error| format!("frs: {error}"))?;
        print_row("frs", &measured, Cpu::now(&servers, &nodes)?.since(before));
        let takes = (self::takes(&hosts)? - takes) / measured.answers as f64;
        println!("        {takes:.4} operations of the ledger a check");
    }
    Ok(())
}

/// Messages to the ledgers so far.
fn takes(hosts: &[hosts::Host]) -> Result<f64> {
    Ok(hosts::metrics(hosts)?.sum("frs_cluster_requests_total", "function=\"interval\""))
}

fn print_head(options: &Options) {
    let [rate, keys] = [options.rate, options.keys.into()].map(grouped);
    println!(
        "{rate} checks/s of {keys} keys by Zipf 0.99, a burst every {} µs over {} connections to \
         each server; CPU in µs a check",
        options.every, options.connections
    );
    let early = format!("{} s", options.early);
    println!(
        "{:<8}{:>10}{:>10}{:>19}{:>19}{:>8}{:>9}{:>9}{:>10}{:>8}{:>9}",
        "",
        "checks/s",
        "admitted",
        format!("first {early} p50 µs"),
        "then p50 µs",
        "frs",
        "couriers",
        "masters",
        "replicas",
        "servers",
        "client"
    );
    println!("{:>47}{:>19}", "p99 µs", "p99 µs");
}

fn print_row(name: &str, measured: &Measured, cpu: Cpu) {
    let answers = measured.answers as f64;
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / answers;
    let micros = |latency: Duration| grouped(latency.as_micros() as u64);
    println!(
        "{name:<8}{:>10}{:>8.1} %{:>19}{:>19}{:>8.2}{:>9.2}{:>9.2}{:>10.2}{:>8.2}{:>9.2}",
        grouped((answers / measured.elapsed.as_secs_f64()) as u64),
        100.0 * measured.admitted as f64 / answers,
        micros(measured.early.p50),
        micros(measured.late.p50),
        each(cpu.frs),
        each(cpu.couriers),
        each(cpu.masters),
        each(cpu.replicas),
        each(cpu.sum()),
        each(measured.cpu),
    );
    println!("{:>47}{:>19}", micros(measured.early.p99), micros(measured.late.p99));
}

fn frs_request(key: u32) -> Vec<u8> {
    let body = format!("<request><item biz=\"two\" key=\"k{key}\"/></request>");
    let head = "POST /update HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/xml\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn frs_answer(bytes: &[u8]) -> Result<Option<Answer>> {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end])?;
    let (_, length) = head.split_once("Content-Length: ").ok_or("an answer without a length")?;
    let length: usize = length.split("\r\n").next().unwrap_or_default().parse()?;
    let bytes_end = end + 4 + length;
    let Some(body) = bytes.get(end + 4..bytes_end) else { return Ok(None) };
    let says = |text: &str| memchr::memmem::find(body, text.as_bytes()).is_some();
    match (says("limited=\"false\""), says("limited=\"true\"")) {
        (is_admitted, is_limited) if is_admitted != is_limited => {
            Ok(Some(Answer { bytes: bytes_end, is_admitted }))
        }
        _ => Err(format!("no verdict: {}", bytes[..bytes_end].escape_ascii()).into()),
    }
}

/// Loads the script on each master. The counters of a key are on one master.
fn script_requests<'a>(nodes: &Nodes, keys: u32, order: &'a [u32]) -> Result<Requests<'a>> {
    let mut servers = Vec::new();
    let mut digest = String::new();
    for master in 0..MASTERS {
        digest = nodes.ask(master, cmd("SCRIPT").arg("LOAD").arg(SCRIPT));
        let node = nodes.node(master);
        servers.push(format!("{}:{}", node.host, node.port).parse()?);
    }
    let request = |key: u32| {
        let tag = format!("{{k{key}}}");
        let mut call = cmd("EVALSHA");
        call.arg(&digest).arg(2).arg(format!("{tag}:m")).arg(format!("{tag}:d"));
        call.arg(MINUTE_MAX).arg(DAY_MAX).arg(60_000).arg(86_400_000);
        let server = Nodes::first_master(name::slot(tag.as_bytes()));
        Request { server, bytes: call.get_packed_command() }
    };
    let of_keys = (0..keys).map(request).collect();
    Ok(Requests { servers, of_keys, order, read: script_answer })
}

fn script_answer(bytes: &[u8]) -> Result<Option<Answer>> {
    match bytes {
        [b':', verdict @ (b'0' | b'1'), b'\r', b'\n', ..] => {
            Ok(Some(Answer { bytes: 4, is_admitted: *verdict == b'1' }))
        }
        _ if bytes.len() < 4 => Ok(None),
        _ => Err(format!("no verdict: {}", bytes.escape_ascii()).into()),
    }
}

/// The keys in the order of their requests, drawn by Zipf's law with exponent 0.99.
fn order(keys: u32) -> Vec<u32> {
    const DRAWS: usize = 1 << 21;
    let mut sums: Vec<f64> = Vec::new();
    for key in 1..=keys {
        sums.push(sums.last().copied().unwrap_or(0.0) + f64::from(key).powf(-0.99));
    }
    let all = sums.last().copied().unwrap_or(0.0);
    // SplitMix64.
    let mut state = 0x5eed_u64;
    let mut unit = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..DRAWS)
        .map(|_| {
            let drawn = unit() * all;
            sums.partition_point(|sum| *sum <= drawn).min(keys as usize - 1) as u32
        })
        .collect()
}
