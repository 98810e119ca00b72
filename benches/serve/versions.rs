//! The cost of a version beside the one before: `--only versions --before PROGRAM`.
//!
//! Each round starts both servers anew, with one worker each. This version runs with everything
//! that it counts and serves. Each load runs on both servers, and the order changes with each
//! round, so that a change in the machine's speed affects both. The result is the ratio within a
//! round.

use std::path::Path;

use crate::load::{self, Load, Protocol, Requests};
use crate::report::{self, Sample};
use crate::servers::{Frs, Server, free_address};
use crate::{CONNECTIONS, KEYS, Options, Result};

const NAMES: [&str; 2] = ["before", "now"];

/// The number of keys if there are few. Each is drawn equally often.
const FEW: usize = 16;
/// The exponent of frs-load.
const EXPONENT: f64 = 0.99;
/// The number of drawn keys.
const DRAWS: usize = 1 << 17;

/// The first biz never refuses a key. The other biz refuses each key from its second use on.
const MAP: &str = r#"<map>
  <group name="open" files="2" key-nodes="2048" chain="56" node-size="64" key-bytes="24" hash="bob"/>
  <group name="spent" files="2" key-nodes="2048" chain="56" node-size="64" key-bytes="24" hash="bob"/>
  <biz id="1" name="open" group="open" key="string">
    <limit policy="interval" interval="24h" max="1000000000"/>
  </biz>
  <biz id="2" name="spent" group="spent" key="string">
    <limit policy="interval" interval="24h" max="1"/>
  </biz>
</map>
"#;

/// A load.
struct Case {
    name: &'static str,
    requests: Requests,
    protocol: Protocol,
    connections: usize,
    depth: usize,
}

impl Case {
    /// 16 requests in flight on one connection.
    fn pipelined(name: &'static str, requests: Requests, protocol: Protocol) -> Case {
        Case { name, requests, protocol, connections: 1, depth: 16 }
    }

    /// One request with 64 items in flight on each connection.
    fn items(name: &'static str, requests: Requests, protocol: Protocol) -> Case {
        Case { name, requests, protocol, connections: CONNECTIONS, depth: 1 }
    }

    fn all() -> Vec<Case> {
        use Protocol::{Http, HttpRefused};
        let open = |command, items| Requests::of(command, 1, items, &load::shuffled(items, KEYS));
        let few = load::drawn(DRAWS, FEW, 0.0);
        let drawn = load::drawn(DRAWS, KEYS, EXPONENT);
        let refused = |items, keys: &[usize]| Requests::of("update", 2, items, keys);
        vec![
            Case::pipelined("Updates that pass, pipelined", open("update", 1), Http),
            Case::pipelined("Queries, pipelined", open("query", 1), Http),
            Case::items("64 Updates that pass in a request", open("update", 64), Http),
            Case::items("64 Queries in a request", open("query", 64), Http),
            Case::pipelined("refused, of 16 keys, pipelined", refused(1, &few), HttpRefused),
            Case::pipelined("refused, by Zipf's law, pipelined", refused(1, &drawn), HttpRefused),
            Case::items("64 refused in a request, of 16 keys", refused(64, &few), HttpRefused),
            Case::items("64 refused in a request, by Zipf", refused(64, &drawn), HttpRefused),
        ]
    }

    fn measure(&self, frs: &Frs, options: &Options) -> Result<Sample> {
        let Case { protocol, connections, depth, .. } = *self;
        let load = Load { address: frs.address(), protocol, connections, depth };
        let before = frs.cpu()?;
        let measured = load.run(&self.requests, options.seconds)?;
        Ok(Sample::new(measured, frs.cpu()?.saturating_sub(before)))
    }
}

/// Runs all rounds, and prints a table for each case.
pub fn run(options: &Options, before: &Path) -> Result<()> {
    let cases = Case::all();
    // Creates every key, and uses up the limits of the second biz.
    let first = [1, 2].map(|biz| Requests::updates_of(biz, 64, KEYS));
    let mut rows: Vec<[Vec<Sample>; 2]> = cases.iter().map(|_| Default::default()).collect();
    for round in 1..=options.rounds {
        eprintln!("versions: round {round} of {}", options.rounds);
        let old = format!(r#"<admin listen="{}"/>"#, free_address()?);
        let old = Frs::start_program(before, MAP, &old)?;
        let (admin, metrics) = (free_address()?, free_address()?);
        let new = format!(r#"<admin listen="{admin}"/><metrics listen="{metrics}"/>"#);
        let servers = [old, Frs::start_with(MAP, &new)?];
        for server in &servers {
            for requests in &first {
                load::pass(server.address(), requests)?;
            }
        }
        for (case, samples) in cases.iter().zip(&mut rows) {
            let turns = if round % 2 == 1 { [0, 1] } else { [1, 0] };
            for at in turns {
                let sample = case.measure(&servers[at], options);
                samples[at].push(sample.map_err(|error| format!("{}: {error}", NAMES[at]))?);
            }
        }
    }
    for (case, samples) in cases.iter().zip(&rows) {
        report::print_over_peers(case.name, &NAMES, samples, &[(0, NAMES[0])]);
    }
    Ok(())
}
