//! The share of checks that stay on their host. frs-load queries three hosts in an open loop, and
//! routes keys by consistent hash. The hosts count the items that waited for a lease. The client
//! counts the admitted uses of each window.

use std::process::Command;

use clap::Args;
use frs_base::figures::grouped;

use crate::hosts::{self, Cpu, Metrics};
use crate::{Result, common};

/// What a run is like
#[derive(Args)]
pub struct Options {
    /// Maximum of the limit
    #[arg(long, default_value_t = 20)]
    max: u64,
    /// Length of its windows, in seconds
    #[arg(long, default_value_t = 60)]
    window: u64,
    /// How long to ask, in seconds
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Checks a second
    #[arg(long, default_value_t = 10_000)]
    rate: u64,
    /// Keys; key n is used about 1/(n+1)^0.99 as often as key 0
    #[arg(long, default_value_t = 20_000)]
    keys: u32,
    /// Any host gets a key
    #[arg(long)]
    unrouted: bool,
}

/// Makes one run, and prints its figures.
pub fn run(options: &Options) -> Result<()> {
    let Options { max, window, seconds, rate, keys, unrouted } = options;
    let nodes = hosts::nodes()?;
    let map = format!(
        "<map><group name=\"default\" files=\"1\" key-nodes=\"2048\" node-size=\"256\" hash=\"bob\"/>\
         <biz id=\"1\" name=\"shared\" key=\"string\" share=\"cluster\" hosts=\"3\">\
         <limit policy=\"interval\" interval=\"{window}s\" max=\"{max}\"/></biz></map>"
    );
    let hosts = hosts::setups(&nodes, &map)?;
    let servers: Vec<_> = hosts.iter().map(hosts::Host::start).collect();
    let (before, cpu) = (hosts::metrics(&hosts)?, Cpu::now(&servers, &nodes)?);
    let table = hosts[0].setup.path("latencies.csv");
    let mut load = Command::new(common::tools::tool("frs-load"));
    for host in &hosts {
        load.arg("--url").arg(format!("http://{}", host.setup.address));
    }
    load.args(["--route", if *unrouted { "none" } else { "key" }, "--biz", "shared"])
        .args([format!("--rate={rate}"), format!("--keys={keys}"), "--zipf=0.99".to_owned()])
        .args([format!("--duration={seconds}s"), "--windows".to_owned()])
        .arg("--latencies")
        .arg(&table);
    let output = load.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("frs-load: {}: {said}{why}", output.status).into());
    }
    println!("max {max} in {window} s\n\n{said}");
    let spent = Cpu::now(&servers, &nodes)?.since(cpu);
    let after = hosts::metrics(&hosts)?;
    let waited = print(&before, &after);
    let latencies = std::fs::read_to_string(table)?;
    let [p50, p99] = [0.5, 0.99].map(|quantile| of_slowest(&latencies, waited, quantile));
    println!("time of an item that waited, at most: p50 {p50:.0} µs, p99 {p99:.0} µs");
    let checks = after.sum("frs_items_total", "") - before.sum("frs_items_total", "");
    let [frs, couriers, masters, replicas, all] =
        [spent.frs, spent.couriers, spent.masters, spent.replicas, spent.sum()]
            .map(|spent| spent.as_secs_f64() * 1e6 / checks);
    println!(
        "CPU in µs a check: frs {frs:.1}, couriers {couriers:.1}, masters {masters:.1}, \
         replicas {replicas:.1}, together {all:.1}"
    );
    Ok(())
}

/// Prints the hosts' counts. Returns the number of items that waited.
fn print(before: &Metrics, after: &Metrics) -> u64 {
    let more = |name: &str, label: &str| after.sum(name, label) - before.sum(name, label);
    let checks = more("frs_items_total", "");
    let waited = more("frs_items_waited_total", "");
    println!("local share of the checks: {:.2} %", 100.0 * (1.0 - waited / checks));
    let mut table = vec![("frs_items_total", String::new()), ("frs_lease_wants_total", "".into())];
    table.push(("frs_lease_recalls_total", String::new()));
    for name in ["frs_items_waited_total", "frs_cluster_requests_total"] {
        table.extend(after.labels(name).into_iter().map(|labels| (name, labels)));
    }
    for (name, labels) in table {
        let count = more(name, &labels);
        if count == 0.0 && !labels.is_empty() {
            continue;
        }
        let each = count / checks;
        println!("{name:<27} {labels:<37} {:>12}  {each:.4} a check", grouped(count as u64));
    }
    waited as u64
}

/// A quantile of the `count` slowest answers. It is an upper bound for the answers that waited,
/// because no other `count` answers have a larger quantile.
fn of_slowest(latencies: &str, count: u64, quantile: f64) -> f64 {
    let row = |line: &str| {
        let (us, answers) = line.split_once(',')?;
        Some((us.parse::<f64>().ok()?, answers.parse::<u64>().ok()?))
    };
    let rows: Vec<(f64, u64)> = latencies.lines().filter_map(row).collect();
    let mut beyond = ((1.0 - quantile) * count as f64) as u64;
    for (us, answers) in rows.into_iter().rev() {
        if answers > beyond {
            return us;
        }
        beyond -= answers;
    }
    0.0
}
