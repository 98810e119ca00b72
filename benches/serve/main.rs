//! frs against its floor, memcached and Redis, on real sockets: `just bench-serve`.
//!
//! The servers run side by side and are measured in turns (A B C, A B C, …), so that a change in
//! the machine's speed affects all of them. The results are the ratios within a round. wrk is one
//! client. The other (load.rs) speaks memcached's protocol too, so that all three servers have the
//! same client. Any answer but success ends the bench with status 1.

mod clients;
mod flood;
mod inspected;
mod instructions;
mod load;
mod pairs;
mod policies;
mod report;
mod resp;
mod servers;
mod tls;
#[path = "../../tests/it/common/tools.rs"]
mod tools;
mod versions;
mod wrk;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use load::{Load, Protocol, Requests};
use report::{Client, Row, Sample};
use servers::{Bare, Frs, Memcached, Server};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Connections of a client.
const CONNECTIONS: usize = 64;
/// Different keys in the requests.
const KEYS: usize = 100_000;

/// Compares frs with a bare event loop, memcached and Redis
#[derive(Parser)]
#[command(name = "serve")]
struct Options {
    /// Rounds; each measures every server once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of one measurement, which may be a fraction; wrk takes whole ones
    #[arg(long, default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// Only these scenarios
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Scenario>,
    /// Only these servers
    #[arg(long, value_enum, value_delimiter = ',', default_value = "frs,bare,memcached")]
    servers: Vec<Kind>,
    /// frs of the version before, for the scenarios `versions` and `instructions`
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// Bytes of the bare loop's replies when frs is not there to be measured
    #[arg(long, default_value_t = 400)]
    reply_bytes: usize,
    /// Given by cargo bench
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Frs,
    Bare,
    Memcached,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// One request per round trip
    Single,
    /// 16 requests per round trip
    Pipeline,
    /// One request with 64 items per round trip
    Items,
    /// One request per round trip, of each policy; frs alone
    Policies,
    /// frs-load, beside a busy loop and beside frs-inspect in a loop; frs alone
    Inspected,
    /// What it costs to tell clients by their tokens; frs alone
    Clients,
    /// Instructions of the worker for a request, by valgrind; frs alone
    Instructions,
    /// The waits of a client over TLS beside a flood of handshakes; frs alone
    Flood,
    /// Commands of RESP against Redis, asked by redis-benchmark
    Resp,
    /// The cost of TLS: pipelines and handshakes; frs alone
    Tls,
    /// This version, with all that it counts, against the one before; needs --before
    Versions,
}

impl Scenario {
    fn title(self) -> &'static str {
        match self {
            Scenario::Single => "one request per round trip",
            Scenario::Pipeline => "16 requests per round trip",
            Scenario::Items => "64 items in a request, one request per round trip",
            Scenario::Policies => "one request per round trip, of each policy",
            Scenario::Inspected => "one request per round trip, beside frs-inspect",
            Scenario::Clients => "a server that tells clients by their tokens",
            Scenario::Instructions => "instructions of the worker for a request",
            Scenario::Flood => "one request at a time over TLS, beside handshakes",
            Scenario::Resp => "commands of RESP against Redis",
            Scenario::Tls => "the cost of TLS",
            Scenario::Versions => "this version against the one before",
        }
    }

    /// Requests in flight on one connection.
    fn depth(self) -> usize {
        if self == Scenario::Pipeline { 16 } else { 1 }
    }

    /// Items of one request.
    fn items(self) -> usize {
        if self == Scenario::Items { 64 } else { 1 }
    }
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("expected seconds, found {text:?}"))?;
    let given = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if given.is_zero() { Err("expected more than 0 seconds".into()) } else { Ok(given) }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if !options.bench {
        println!("serve is a bench: just bench-serve");
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-serve: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The servers that run for the whole bench. The bare loop restarts for each reply size.
struct Bench<'a> {
    options: &'a Options,
    frs: Option<Frs>,
    memcached: Option<Memcached>,
    wrk: bool,
}

fn run(options: &Options) -> Result<()> {
    let runs = |scenario| options.only.is_empty() || options.only.contains(&scenario);
    if [Scenario::Single, Scenario::Pipeline, Scenario::Items].into_iter().any(runs) {
        compare(options, runs)?;
    }
    if runs(Scenario::Policies) {
        policies::run(options)?;
    }
    if runs(Scenario::Inspected) {
        inspected::run(options)?;
    }
    if runs(Scenario::Clients) {
        clients::run(options)?;
    }
    // Not every machine has valgrind.
    if options.only.contains(&Scenario::Instructions) {
        instructions::run(options)?;
    }
    if runs(Scenario::Flood) {
        flood::run(options)?;
    }
    if runs(Scenario::Tls) {
        tls::run(options)?;
    }
    if runs(Scenario::Resp) {
        resp::run(options)?;
    }
    match &options.before {
        Some(before) if runs(Scenario::Versions) => versions::run(options, before),
        None if options.only.contains(&Scenario::Versions) => {
            Err("--only versions needs --before PROGRAM: frs of the version before".into())
        }
        _ => Ok(()),
    }
}

/// Compares frs, the bare loop and memcached in all selected scenarios.
fn compare(options: &Options, runs: impl Fn(Scenario) -> bool) -> Result<()> {
    let wanted = |kind| options.servers.contains(&kind);
    let mut bench = Bench { options, frs: None, memcached: None, wrk: wrk::present() };
    if !bench.wrk {
        println!("MISSING wrk (apt-get install wrk): measured with the own client only");
    }
    if wanted(Kind::Memcached) {
        bench.memcached = Memcached::start()?;
        if bench.memcached.is_none() {
            println!("MISSING memcached (apt-get install memcached): left out");
        }
    }
    if wanted(Kind::Frs) {
        bench.frs = Some(Frs::start(servers::ONE_BIZ)?);
    }
    let scenarios = [Scenario::Single, Scenario::Pipeline, Scenario::Items];
    for scenario in scenarios {
        if runs(scenario) {
            bench.scenario(scenario)?;
        }
    }
    Ok(())
}

impl Bench<'_> {
    /// Runs all rounds of one scenario, and prints its table.
    fn scenario(&self, scenario: Scenario) -> Result<()> {
        let updates = Requests::updates(scenario.items(), KEYS);
        let incrs = Requests::incrs();
        self.warm_up(&updates)?;
        let reply_bytes = match &self.frs {
            Some(frs) => load::reply_bytes(frs.address(), &updates)?,
            None => self.options.reply_bytes,
        };
        let wants_bare = self.options.servers.contains(&Kind::Bare);
        let bare = wants_bare.then(|| Bare::start(reply_bytes)).transpose()?;
        let memcached = self.memcached.as_ref().filter(|_| scenario != Scenario::Items);

        let http = [
            self.frs.as_ref().map(|frs| frs as &dyn Server),
            bare.as_ref().map(|bare| bare as &dyn Server),
        ];
        let mut rows = Vec::new();
        for server in http.into_iter().flatten() {
            if self.wrk {
                rows.push(Row::new(Client::Wrk, server));
            }
            rows.push(Row::new(Client::Own, server));
        }
        if let Some(memcached) = memcached {
            rows.push(Row::new(Client::Own, memcached));
        }
        // Sorts by client. Each client measures the servers in turn.
        rows.sort_by_key(|row| row.client);

        for round in 1..=self.options.rounds {
            eprintln!("{}: round {round} of {}", scenario.title(), self.options.rounds);
            for row in &mut rows {
                let requests =
                    if row.server.name() == servers::MEMCACHED { &incrs } else { &updates };
                let sample = self.measure(row, scenario, requests, round)?;
                row.samples.push(sample);
            }
        }
        report::print(scenario.title(), scenario.items(), reply_bytes, &rows);
        Ok(())
    }

    /// Creates every key before anything is measured.
    fn warm_up(&self, updates: &Requests) -> Result<()> {
        if let Some(frs) = &self.frs {
            let (address, protocol) = (frs.address(), Protocol::Http);
            Load { address, protocol, connections: CONNECTIONS, depth: 16 }
                .run(updates, Duration::from_secs(2))?;
        }
        Ok(())
    }

    fn measure(
        &self,
        row: &Row<'_>,
        scenario: Scenario,
        requests: &Requests,
        round: u32,
    ) -> Result<Sample> {
        let server = row.server;
        let before = server.cpu()?;
        let measured = match row.client {
            Client::Wrk => {
                wrk::run(server.address(), scenario.depth(), scenario.items(), self.options, round)
            }
            Client::Own => {
                let protocol = match server.name() {
                    servers::MEMCACHED => Protocol::Memcached,
                    _ => Protocol::Http,
                };
                let (address, depth) = (server.address(), scenario.depth());
                Load { address, protocol, connections: CONNECTIONS, depth }
                    .run(requests, self.options.seconds)
            }
        };
        let measured = measured.map_err(|error| format!("{}: {error}", server.name()))?;
        Ok(Sample::new(measured, server.cpu()?.saturating_sub(before)))
    }
}
