//! frs over RESP against Redis and Valkey, all driven by redis-benchmark, in turns: the cost of a
//! limit to users who count by INCR or by a script, and of INCR itself.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use redis::Value;

use crate::load::Measured;
use crate::report::{self, Sample};
use crate::servers::{self, Frs, Redis, Server};
use crate::{CONNECTIONS, KEYS, Options, Result};

/// No limit is ever reached.
const MAP: &str = r#"<map>
  <group name="one" files="2" key-nodes="2048" chain="56" node-size="64" key-bytes="24" hash="bob"/>
  <group name="two" files="2" key-nodes="2048" chain="56" node-size="128" key-bytes="24" hash="bob"/>
  <group name="throttle" files="2" key-nodes="2048" chain="56" node-size="64" key-bytes="24" hash="bob"/>
  <group name="redis" keys="250000"/>
  <biz id="1" name="one" group="one" key="string">
    <limit policy="interval" interval="24h" max="1000000000"/>
  </biz>
  <biz id="2" name="two" group="two" key="string">
    <limit policy="sliding-counter" interval="1m" max="1000000000"/>
    <limit policy="sliding-counter" interval="24h" max="1000000000"/>
  </biz>
  <biz id="3" name="throttle" group="throttle" key="string">
    <limit policy="gcra" rate="1000000/s" burst="1000000" per-call="true"/>
  </biz>
  <biz id="4" name="redis" group="redis" key="string"><register/></biz>
</map>
"#;

/// The same as the biz `two`, with counters that expire.
const SCRIPT: &str = include_str!("../two_windows.lua");

/// The key, whose second part redis-benchmark replaces by a number below `KEYS`.
const KEY: &str = "k__rand_int__";

/// Requests in flight on one connection.
const DEPTHS: [usize; 2] = [16, 1];

/// A command of one server.
struct Case<'a> {
    name: &'static str,
    server: &'a dyn Server,
    address: SocketAddr,
    command: Vec<&'a str>,
}

/// Runs both depths in all rounds, and prints a table for each.
pub fn run(options: &Options) -> Result<()> {
    if Command::new("redis-benchmark").arg("--version").output().is_err() {
        println!("MISSING redis-benchmark (apt-get install redis-tools): RESP is not measured");
        return Ok(());
    }
    let Some(redis) = Redis::start("redis-server")? else {
        println!("MISSING redis-server (apt-get install redis-server): RESP is not measured");
        return Ok(());
    };
    let valkey = Redis::start("valkey-server")?;
    if valkey.is_none() {
        println!("MISSING valkey-server in PATH: left out");
    }
    let resp = servers::free_address()?;
    let more = format!(r#"<resp listen="{resp}" throttle="throttle" registers="redis"/>"#);
    let frs = Frs::start_with(MAP, &more)?;
    let script = ask(redis.address(), &["SCRIPT", "LOAD", SCRIPT])?;
    let script: String = redis::from_redis_value(script)?;

    let of_frs = |name, command| Case { name, server: &frs, address: resp, command };
    let of = |redis, name, command| Case { name, server: redis, address: redis.address(), command };
    let two_windows =
        vec!["EVALSHA", &script, "1", KEY, "1000000000", "1000000000", "60000", "86400000"];
    let mut cases = vec![
        of(&redis, "Redis: INCR", vec!["INCR", KEY]),
        of(&redis, "Redis: script, two windows", two_windows),
        of_frs("frs: INCR of a register", vec!["INCR", KEY]),
        of_frs("frs: FRS.UPDATE, one interval", vec!["FRS.UPDATE", "one", KEY]),
        of_frs("frs: FRS.UPDATE, two sliding", vec!["FRS.UPDATE", "two", KEY]),
        of_frs("frs: CL.THROTTLE", vec!["CL.THROTTLE", KEY, "1000000", "1000000", "1"]),
    ];
    let mut peers = vec![(0, "INCR"), (1, "script")];
    if let Some(valkey) = &valkey {
        peers.push((cases.len(), "Valkey's INCR"));
        cases.push(of(valkey, "Valkey: INCR", vec!["INCR", KEY]));
    }
    for depth in DEPTHS {
        compare(options, &cases, &peers, depth)?;
    }
    Ok(())
}

/// Runs all rounds at one depth, and prints the table.
fn compare(
    options: &Options,
    cases: &[Case<'_>],
    peers: &[(usize, &str)],
    depth: usize,
) -> Result<()> {
    // The first run creates the keys, and shows how many requests fill the time.
    let mut counts = Vec::new();
    for case in cases {
        let Measured { requests, elapsed, .. } = case.measure(depth, 5 * KEYS as u64)?;
        let of_time = requests as f64 * options.seconds.as_secs_f64() / elapsed.as_secs_f64();
        counts.push((of_time as u64).max(1));
    }
    let mut rows: Vec<Vec<Sample>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 1..=options.rounds {
        eprintln!("RESP, {depth} in flight: round {round} of {}", options.rounds);
        for ((case, count), samples) in cases.iter().zip(&counts).zip(&mut rows) {
            let before = case.server.cpu()?;
            let measured = case.measure(depth, *count)?;
            samples.push(Sample::new(measured, case.server.cpu()?.saturating_sub(before)));
        }
    }
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    let title = format!("redis-benchmark -c {CONNECTIONS} -P {depth} -r {KEYS}");
    report::print_over_peers(&title, &names, &rows, peers);
    Ok(())
}

impl Case<'_> {
    /// Runs redis-benchmark once. A request before it and one after it must succeed.
    fn measure(&self, depth: usize, requests: u64) -> Result<Measured> {
        self.check()?;
        let output = Command::new("redis-benchmark")
            .args(["-h", &self.address.ip().to_string(), "-p", &self.address.port().to_string()])
            .args(["-c", &CONNECTIONS.to_string(), "-P", &depth.to_string()])
            .args(["-n", &requests.to_string(), "-r", &KEYS.to_string(), "-e", "--csv"])
            .args(&self.command)
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let fault = || format!("{}: {said}{}", self.name, String::from_utf8_lossy(&output.stderr));
        if !output.status.success() || said.contains("Error from server") {
            return Err(fault().into());
        }
        // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_…","p99_…","max_…"
        let row = said.lines().last().ok_or_else(fault)?;
        let figures: Vec<f64> =
            row.rsplit("\",\"").filter_map(|field| field.trim_matches('"').parse().ok()).collect();
        let &[_, p99, _, p50, _, _, per_second] = figures.as_slice() else {
            return Err(fault().into());
        };
        let millis = |figure: f64| Some(Duration::from_secs_f64(figure / 1e3));
        self.check()?;
        let elapsed = Duration::from_secs_f64(requests as f64 / per_second);
        Ok(Measured { requests, elapsed, p50: millis(p50), p99: millis(p99) })
    }

    /// Checks that a single request is allowed and charged.
    fn check(&self) -> Result<()> {
        let command: Vec<String> =
            self.command.iter().map(|word| word.replace("__rand_int__", "000000000000")).collect();
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let reply = ask(self.address, &command)?;
        let is_success = match &reply {
            Value::Int(count) => *count > 0,
            // An answer of CL.THROTTLE begins with its verdict, one of FRS.UPDATE with the name
            // `limited`.
            Value::Array(values) => match values.as_slice() {
                [Value::Int(0), ..] => true,
                [Value::BulkString(name), Value::Int(0), ..] => name == b"limited",
                _ => false,
            },
            _ => false,
        };
        let fault = || format!("{}: not a success: {reply:?}", self.name);
        if is_success { Ok(()) } else { Err(fault().into()) }
    }
}

/// The reply to one command on a connection of its own.
fn ask(address: SocketAddr, command: &[&str]) -> Result<Value> {
    let mut connection = redis::Client::open(format!("redis://{address}/"))?.get_connection()?;
    let (name, arguments) = command.split_first().ok_or("an empty command")?;
    Ok(redis::cmd(name).arg(arguments).query(&mut connection)?)
}
