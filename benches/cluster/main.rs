//! The cost of limits of several machines, on a real cluster and real sockets: `just
//! bench-cluster`.
//!
//! Three hosts of frs with one worker each, and three masters and three replicas of Redis, run on
//! this machine beside their client. So the figures are those of everything together on few cores.
//! Processor time is the time that the kernel has counted for each process. Any answer but a
//! verdict ends the bench with status 1.

#[path = "../../tests/it/common/mod.rs"]
#[allow(dead_code, reason = "the tests need the rest")]
mod common;
mod hosts;
mod ledger;
#[path = "../serve/load.rs"]
#[allow(dead_code, reason = "the other bench needs the rest")]
mod load;
mod local;
#[path = "../../tests/it/cluster/nodes.rs"]
#[allow(dead_code, reason = "the tests need the rest")]
mod nodes;
#[path = "../serve/report.rs"]
#[allow(dead_code, reason = "the other bench needs the rest")]
mod report;
mod script;
#[path = "../serve/servers.rs"]
#[allow(dead_code, reason = "the other bench needs the rest")]
mod servers;
#[path = "../../tests/it/cluster/turns.rs"]
mod turns;
mod unshared;
#[path = "../../tests/it/cluster/wall.rs"]
#[allow(dead_code, reason = "the tests need the rest")]
mod wall;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The connections of bench-serve's client, and the keys of its memcached.
const CONNECTIONS: usize = 64;
const KEYS: usize = 100_000;

/// Measures limits that several machines share
#[derive(Parser)]
#[command(name = "cluster")]
struct Options {
    #[command(subcommand)]
    scenario: Option<Scenario>,
    /// Given by cargo bench
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Scenario {
    /// How many checks stay on their host, how full windows become, how long a wait is
    Local(local::Options),
    /// frs against a script in the cluster, in turns: processor time of everything, latency
    Script(script::Options),
    /// What a lease costs a node of the cluster: processor time, memory
    Ledger(ledger::Options),
    /// What a cluster costs a limit that is not shared, and what a lease costs: processor time
    Unshared(unshared::Options),
}

fn main() -> ExitCode {
    let Options { scenario, bench } = Options::parse();
    let ran = match scenario {
        Some(scenario) if bench => match scenario {
            Scenario::Local(options) => local::run(&options),
            Scenario::Script(options) => script::run(&options),
            Scenario::Ledger(options) => ledger::run(&options),
            Scenario::Unshared(options) => unshared::run(&options),
        },
        _ => {
            println!("cluster is a bench: just bench-cluster local, script, ledger, unshared");
            return ExitCode::SUCCESS;
        }
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-cluster: {error}");
            ExitCode::FAILURE
        }
    }
}
