//! The frs-load command: load for a server, its answers checked, rates and latencies measured.
//!
//! Exit status: 0 all answers were right; 1 one was wrong, or there was no connection; 2 wrong usage.

mod answer;
mod arguments;
mod keys;
mod request;
mod schedule;
mod target;

fn main() {}
