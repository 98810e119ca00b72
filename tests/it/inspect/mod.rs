//! frs-inspect on real data directories.

mod files;
mod history;
mod safety;
mod watch;
