//! Checks each login before its password is looked at. Reads one user a line from standard input,
//! and writes one answer a line to standard output.
//!
//! It attaches to a running server by the data directory. It starts no server:
//!
//! ```text
//! printf 'alice\nalice\nbob\n' | cargo run -p frs --example login -- data
//! ```

use std::error::Error;
use std::io::BufRead;
use std::process::ExitCode;

use frs::{Client, Item};

fn main() -> ExitCode {
    let data_dir = std::env::args().nth(1).unwrap_or_else(|| "data".to_owned());
    match check_logins(&data_dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("login: {error}");
            let mut source = error.source();
            while let Some(reason) = source {
                eprintln!("  because: {reason}");
                source = reason.source();
            }
            eprintln!("usage: login [DATA]; `cargo run --release` starts a server on ./data");
            ExitCode::FAILURE
        }
    }
}

fn check_logins(data_dir: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::attach(data_dir)?;
    for user in std::io::stdin().lock().lines() {
        let user = user?;
        // A bad line gets an answer, and the loop goes on with the next one.
        match client.update(Item::new("login", &user)) {
            Ok(verdict) if verdict.is_limited() => match verdict.retry_ms() {
                Some(retry_ms) => println!("{user}: no, try again in {retry_ms} ms"),
                None => println!("{user}: no"),
            },
            Ok(verdict) => match verdict.remaining() {
                Some(remaining) => println!("{user}: yes, {remaining} more"),
                None => println!("{user}: yes"),
            },
            Err(frs::Error::Item(error)) => println!("{user:?}: not judged: {error}"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
