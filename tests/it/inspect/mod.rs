//! frs-inspect on real data directories.

mod files;
mod safety;
