//! What it costs to ask who asks: a server without `<clients>` beside one that knows the client by
//! its token. Both get the same bytes, the token among them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::load::{Load, Protocol, Requests, pass};
use crate::report::{self, Sample};
use crate::servers::{Frs, ONE_BIZ, Server};
use crate::{CONNECTIONS, KEYS, Options, Result};

const NAMES: [&str; 2] = ["no clients", "token"];
const TOKEN: &str = "bench-0123456789abcdef0123456789abcdef";

/// What is asked, on how many connections, with how many requests in flight on each.
type Case = (&'static str, Requests, usize, usize);

fn cases() -> [Case; 3] {
    let field = format!("Authorization: Bearer {TOKEN}");
    let updates = |items| Requests::updates(items, KEYS).with_field(&field);
    [
        ("16 Updates in a pipeline", updates(1), 1, 16),
        ("one Update a round trip", updates(1), CONNECTIONS, 1),
        ("64 Updates in a request", updates(64), CONNECTIONS, 1),
    ]
}

/// Runs all rounds, and prints a table for each case.
pub fn run(options: &Options) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("token");
    fs::write(&file, TOKEN)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    let clients = format!(
        "<clients><client name=\"bench\" token-file=\"{}\" may=\"update\" biz=\"*\"/></clients>",
        file.display()
    );
    let cases = cases();
    let mut rows: [[Vec<Sample>; 2]; 3] = Default::default();
    for round in 1..=options.rounds {
        eprintln!("clients: round {round} of {}", options.rounds);
        let servers = [Frs::start(ONE_BIZ)?, Frs::start_with(ONE_BIZ, &clients)?];
        for server in &servers {
            pass(server.address(), &cases[2].1)?;
        }
        for ((_, requests, connections, depth), samples) in cases.iter().zip(&mut rows) {
            let turns = if round % 2 == 1 { [0, 1] } else { [1, 0] };
            for at in turns {
                let (address, protocol) = (servers[at].address(), Protocol::Http);
                let load = Load { address, protocol, connections: *connections, depth: *depth };
                let before = servers[at].cpu()?;
                let measured = load.run(requests, options.seconds)?;
                let cpu = servers[at].cpu()?.saturating_sub(before);
                samples[at].push(Sample::new(measured, cpu));
            }
        }
    }
    for ((name, ..), samples) in cases.iter().zip(&rows) {
        report::print_over_peers(name, &NAMES, samples, &[(0, NAMES[0])]);
    }
    Ok(())
}
