//! The instructions of the worker for one request, by valgrind, in pipelines of 16: figures that a
//! busy machine does not change.
//!
//! A server answers so many requests, and another one twice as many. The difference counts, so that
//! the start and the creation of the records do not.

use std::fs;
use std::path::Path;

use crate::clients::{self, BenchClient};
use crate::load::{Load, Protocol, Requests};
use crate::servers::{Frs, ONE_BIZ, Server};
use crate::{Options, Result};

/// Requests of the shorter run.
const REQUESTS: u64 = 24_000;
/// Each run uses all of them.
const KEYS: usize = 1_000;

/// Counts in all cases, and prints a line for each.
pub fn run(options: &Options) -> Result<()> {
    let current = Path::new(env!("CARGO_BIN_EXE_frs"));
    let updates = || Requests::updates(1, KEYS);
    let (plain, with_token) = (updates(), clients::with_token(updates()));
    let (all, named) = (BenchClient::new("*")?, BenchClient::new("bench")?);
    println!("instructions of the worker for an Update, 16 in flight on a connection:");
    let before = options.before.as_deref();
    let cases = [
        ("the version before", before, "", &plain),
        ("without <clients>", Some(current), "", &plain),
        ("a token for all businesses", Some(current), &all.element, &with_token),
        ("a token for one business", Some(current), &named.element, &with_token),
    ];
    for (name, program, more, requests) in cases {
        let Some(program) = program else { continue };
        println!("  {name:40} {:6}", of_request(program, more, requests)?);
    }
    Ok(())
}

fn of_request(program: &Path, more: &str, requests: &Requests) -> Result<u64> {
    let [once, twice] =
        [REQUESTS, 2 * REQUESTS].map(|count| of_worker(program, more, requests, count));
    Ok((twice? - once?) / REQUESTS)
}

/// The instructions of the worker of a server that answers so many requests.
fn of_worker(program: &Path, more: &str, requests: &Requests, count: u64) -> Result<u64> {
    let counts = tempfile::tempdir()?;
    let frs = Frs::start_counted(program, ONE_BIZ, more, counts.path())?;
    let address = frs.address();
    Load { address, protocol: Protocol::Http, connections: 1, depth: 16 }.send(requests, count)?;
    // Each process writes its count when it ends.
    drop(frs);
    let mut most = None;
    for entry in fs::read_dir(counts.path())? {
        most = most.max(total_of(&fs::read_to_string(entry?.path())?));
    }
    most.ok_or_else(|| "valgrind has counted nothing".into())
}

/// The instructions in the output of callgrind.
fn total_of(output: &str) -> Option<u64> {
    let total = output.lines().find_map(|line| line.strip_prefix("totals: "))?;
    total.trim().parse().ok()
}
