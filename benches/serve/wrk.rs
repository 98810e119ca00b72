//! wrk as a client, driven by update.lua.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::load::Measured;
use crate::{CONNECTIONS, Options, Result};

/// Whether wrk is installed.
pub fn present() -> bool {
    // No option succeeds without a server, so this checks only that wrk starts.
    Command::new("wrk").arg("--version").output().is_ok()
}

/// One run with `depth` requests of `items` items in flight on each connection.
pub fn run(
    address: SocketAddr,
    depth: usize,
    items: usize,
    options: &Options,
    seed: u32,
) -> Result<Measured> {
    let script =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("benches/update.lua");
    let output = Command::new("wrk")
        .args(["--threads", "1", "--connections", &CONNECTIONS.to_string()])
        .args(["--duration", &format!("{:.0}s", options.seconds.as_secs_f64().ceil()), "--script"])
        .arg(script)
        .arg(format!("http://{address}"))
        .args(["--", &depth.to_string(), &items.to_string(), &seed.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let faulty = || format!("wrk: {text}{}", String::from_utf8_lossy(&output.stderr));
    let result = text.lines().find_map(|line| line.strip_prefix("RESULT ")).ok_or_else(faulty)?;
    let figures: Vec<u64> = result.split(' ').map_while(|figure| figure.parse().ok()).collect();
    let &[requests, micros, p50, p99, socket_errors, bad_statuses] = figures.as_slice() else {
        return Err(faulty().into());
    };
    if requests == 0 || socket_errors + bad_statuses > 0 {
        return Err(format!(
            "wrk: {requests} requests, {socket_errors} socket errors, {bad_statuses} bad statuses"
        )
        .into());
    }
    // wrk's latencies are meaningless for pipelined requests.
    let latency = |micros| (depth == 1).then_some(Duration::from_micros(micros));
    Ok(Measured {
        requests,
        elapsed: Duration::from_micros(micros),
        p50: latency(p50),
        p99: latency(p99),
    })
}
