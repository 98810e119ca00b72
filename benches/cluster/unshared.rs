//! The cost of a cluster to a limit that is not shared, and the cost of a lease while uses are in
//! hand. Three servers with one biz each are measured in turns, and each round begins with the next
//! one. One has no `<cluster>`, one has a cluster that it does not use, and one shares its limit,
//! of which it never lacks uses.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use clap::Args;

use crate::load::{Load, Protocol, Requests};
use crate::report::{self, Sample};
use crate::servers::{Frs, ONE_BIZ, Server};
use crate::{CONNECTIONS, Result, hosts};

const NAMES: [&str; 3] =
    ["no cluster", "a cluster, share=\"host\"", "a cluster, share=\"cluster\""];

/// The keys of each server: few enough that each is used again before its lease is returned.
const KEYS: usize = 1_000;

/// The time in which every key gets its record and its lease.
const WARM_UP: Duration = Duration::from_secs(5);

/// Leases are returned after ten seconds without a use.
const IDLE_SECONDS: u64 = 10;

/// What a run is like
#[derive(Args)]
pub struct Options {
    /// Rounds; each measures all
    #[arg(long, default_value_t = 21)]
    rounds: u32,
    /// Seconds of one measurement
    #[arg(long, default_value_t = 2, value_parser = seconds())]
    seconds: u64,
    /// Requests in flight of each connection
    #[arg(long, default_value_t = 1)]
    depth: usize,
}

/// A server is idle while the two others are measured, so a measurement is bounded.
fn seconds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..IDLE_SECONDS / 2)
}

/// Runs all rounds, and prints the table.
pub fn run(options: &Options) -> Result<()> {
    let nodes = hosts::nodes()?;
    let secret = tempfile::NamedTempFile::new()?;
    std::fs::write(secret.path(), [7; 32])?;
    std::fs::set_permissions(secret.path(), std::fs::Permissions::from_mode(0o600))?;
    let element = hosts::cluster_element(&nodes);
    let element = element.replace("conf/cluster.secret", &secret.path().display().to_string());
    let unshared = ONE_BIZ.replace("node-size=\"64\"", "node-size=\"256\"");
    let shared = unshared.replace("key=\"string\"", "key=\"string\" share=\"cluster\" hosts=\"1\"");
    let servers = [
        Frs::start(&unshared)?,
        Frs::start_with(&unshared, &element)?,
        Frs::start_with(&shared, &element)?,
    ];
    let requests = Requests::updates(1, KEYS);
    // An item may be refused until its lease arrives.
    for server in &servers {
        let (address, protocol) = (server.address(), Protocol::HttpRefusing);
        Load { address, protocol, connections: CONNECTIONS, depth: 1 }.run(&requests, WARM_UP)?;
    }
    let measure = |server: &Frs, duration| -> Result<Sample> {
        let before = server.cpu()?;
        let (address, depth) = (server.address(), options.depth);
        let load = Load { address, protocol: Protocol::Http, connections: CONNECTIONS, depth };
        let measured = load.run(&requests, duration)?;
        Ok(Sample::new(measured, server.cpu()?.saturating_sub(before)))
    };
    let mut rows: Vec<Vec<Sample>> = NAMES.map(|_| Vec::new()).into();
    for round in 0..options.rounds as usize {
        eprintln!("unshared: round {} of {}", round + 1, options.rounds);
        for turn in 0..NAMES.len() {
            let which = (round + turn) % NAMES.len();
            rows[which].push(measure(&servers[which], Duration::from_secs(options.seconds))?);
        }
    }
    let title = format!("requests in a round trip: {}", options.depth);
    report::print_over_peers(&title, &NAMES, &rows, &[(0, "the first")]);
    Ok(())
}
