//! Two windows for each key, by frs over the cluster and by a script in the cluster alone, in
//! turns. Both get the same keys in the same bursts from the same client, over as many connections.
//! The hosts of frs run only in their own turns, so in the script's turns the cluster works for the
//! script alone.

use std::time::Duration;

use clap::Args;
use frs_base::figures::grouped;
use frs_cluster::name;
use frs_load::Keys;
use frs_load::prepared::{Answer, Client, Measured, Pace, Read, Request, Until};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use redis::cmd;

use crate::Result;
use crate::hosts::{self, Cpu, HOSTS};
use crate::load::{Checker, Protocol, update};
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

/// Checks that are drawn before they begin anew.
const DRAWS: u64 = 1 << 21;

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
    connections: u32,
}

/// Runs all rounds, and prints a row for each.
pub fn run(options: &Options) -> Result<()> {
    let nodes = hosts::nodes()?;
    let hosts = hosts::setups(&nodes, MAP)?;
    let keys = Keys::zipf(0x5eed, options.keys, 0.99);
    let order: Vec<u32> = (0..DRAWS).map(|place| keys.at(place)).collect();
    let own = |key: u32| Request { server: key as usize % HOSTS, bytes: frs_request(key) };
    let to_frs: Vec<Request> = (0..options.keys).map(own).collect();
    let to_script = script_requests(&nodes, options.keys);
    let masters = (0..MASTERS).map(|master| {
        let node = nodes.node(master);
        format!("{}:{}", node.host, node.port).parse()
    });
    let client = |servers| Client {
        servers,
        connections: options.connections,
        pace: Pace::Bursts { rate: options.rate, every: Duration::from_micros(options.every) },
        until: Until::Elapsed(Duration::from_secs(options.seconds)),
        early: Duration::from_secs(options.early),
    };
    let of_script = client(masters.collect::<std::result::Result<_, _>>()?);
    let of_frs = client(hosts.iter().map(|host| host.setup.address).collect());
    print_head(options);
    for _ in 0..options.rounds {
        // No host runs beside the script.
        let (before, own) = (Cpu::now(&[], &nodes)?, own_cpu()?);
        let measured = of_script.run(&to_script, &order, script_answer);
        let measured = measured.map_err(|error| format!("script: {error}"))?;
        let own = own_cpu()?.saturating_sub(own);
        print_row("script", &measured, Cpu::now(&[], &nodes)?.since(before), own);

        let servers: Vec<_> = hosts.iter().map(hosts::Host::start).collect();
        let (before, takes, own) = (Cpu::now(&servers, &nodes)?, takes(&hosts)?, own_cpu()?);
        let read = Checker::new(Protocol::HttpRefusing).read();
        let measured = of_frs.run(&to_frs, &order, read);
        let measured = measured.map_err(|error| format!("frs: {error}"))?;
        let own = own_cpu()?.saturating_sub(own);
        print_row("frs", &measured, Cpu::now(&servers, &nodes)?.since(before), own);
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

/// Processor time of this process, which runs nothing beside the client.
fn own_cpu() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.unsigned_abs()))
}

fn print_row(name: &str, measured: &Measured, cpu: Cpu, client: Duration) {
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
        each(client),
    );
    println!("{:>47}{:>19}", micros(measured.early.p99), micros(measured.late.p99));
}

fn frs_request(key: u32) -> Vec<u8> {
    update("update", &format!("<item biz=\"two\" key=\"k{key}\"/>")).into_bytes()
}

/// Loads the script on each master. The counters of a key are on one master.
fn script_requests(nodes: &Nodes, keys: u32) -> Vec<Request> {
    let mut digest = String::new();
    for master in 0..MASTERS {
        digest = nodes.ask(master, cmd("SCRIPT").arg("LOAD").arg(SCRIPT));
    }
    let request = |key: u32| {
        let tag = format!("{{k{key}}}");
        let mut call = cmd("EVALSHA");
        call.arg(&digest).arg(2).arg(format!("{tag}:m")).arg(format!("{tag}:d"));
        call.arg(MINUTE_MAX).arg(DAY_MAX).arg(60_000).arg(86_400_000);
        let server = Nodes::first_master(name::slot(tag.as_bytes()));
        Request { server, bytes: call.get_packed_command() }
    };
    (0..keys).map(request).collect()
}

fn script_answer(bytes: &[u8]) -> Read {
    match bytes {
        [b':', verdict @ (b'0' | b'1'), b'\r', b'\n', ..] => {
            Ok(Some(Answer { bytes: 4, is_admitted: *verdict == b'1' }))
        }
        _ if bytes.len() < 4 => Ok(None),
        _ => Err(format!("no verdict: {}", bytes.escape_ascii()).into()),
    }
}
