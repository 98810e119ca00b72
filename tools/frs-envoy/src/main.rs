//! frs-envoy serves Envoy's rate limit service for a frs server, and imports the configuration of
//! envoyproxy/ratelimit.
//!
//! Exit status: 0 as asked; 1 it cannot serve, or a file is faulty; 2 wrong usage.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Envoy's rate limit service on the limits of frs
#[derive(Parser)]
#[command(name = "frs-envoy", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve <rls> of srv.xml: frs starts this
    Serve {
        /// The server's data directory
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve { data } => {
            frs_envoy::serve::serve(&data).map_err(|error| error.to_string())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            eprintln!("frs-envoy: {error}");
            ExitCode::FAILURE
        }
    }
}
