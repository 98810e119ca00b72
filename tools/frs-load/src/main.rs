//! The frs-load command makes load for a server, checks its answers, and measures rates and
//! latencies.
//!
//! Invariant: all that it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    frs_load::main()
}
