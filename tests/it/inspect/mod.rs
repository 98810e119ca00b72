//! frs-inspect on real data directories.

mod files;
mod history;
mod holds;
mod registers;
mod safety;
mod watch;
