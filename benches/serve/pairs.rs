//! Loads on two servers in turns: each round begins with both anew, and every second round the
//! other way round, so that a change in the machine's speed affects both. The result is the ratio
//! within a round.

use crate::load::{Load, Protocol, Requests};
use crate::report::{self, Sample};
use crate::servers::{Frs, Server};
use crate::{CONNECTIONS, Options, Result};

/// A load.
pub struct Case {
    name: &'static str,
    requests: Requests,
    protocol: Protocol,
    connections: usize,
    depth: usize,
}

impl Case {
    /// 16 requests in flight on one connection.
    pub fn pipelined(name: &'static str, requests: Requests, protocol: Protocol) -> Case {
        Case { name, requests, protocol, connections: 1, depth: 16 }
    }

    /// One request in flight on each connection.
    pub fn in_turn(name: &'static str, requests: Requests, protocol: Protocol) -> Case {
        Case { name, requests, protocol, connections: CONNECTIONS, depth: 1 }
    }

    fn measure(&self, frs: &Frs, options: &Options) -> Result<Sample> {
        let Case { protocol, connections, depth, .. } = *self;
        let load = Load { address: frs.address(), protocol, connections, depth };
        let before = frs.cpu()?;
        let measured = load.run(&self.requests, options.seconds)?;
        Ok(Sample::new(measured, frs.cpu()?.saturating_sub(before)))
    }
}

/// Runs all rounds of these cases, and prints a table for each. `start` starts both servers.
pub fn run(
    options: &Options,
    title: &str,
    names: [&'static str; 2],
    cases: &[Case],
    start: impl Fn() -> Result<[Frs; 2]>,
) -> Result<()> {
    let mut rows: Vec<[Vec<Sample>; 2]> = cases.iter().map(|_| Default::default()).collect();
    for round in 1..=options.rounds {
        eprintln!("{title}: round {round} of {}", options.rounds);
        let servers = start()?;
        for (case, samples) in cases.iter().zip(&mut rows) {
            let turns = if round % 2 == 1 { [0, 1] } else { [1, 0] };
            for at in turns {
                let sample = case.measure(&servers[at], options);
                samples[at].push(sample.map_err(|error| format!("{}: {error}", names[at]))?);
            }
        }
    }
    for (case, samples) in cases.iter().zip(&rows) {
        report::print_over_peers(case.name, &names, samples, &[(0, names[0])]);
    }
    Ok(())
}
