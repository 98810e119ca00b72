//! Tallies: limits that refuse nothing. A host counts its uses at once and reports them to the
//! ledger, and the ledger answers with the sum of all hosts.
//!
//! Invariant: a tally requests no lease, and nothing waits for it. The sums of all hosts become
//! equal, whatever is lost, late or doubled.
//!
//! A node stores a tally in the words of a lease: the allowance is what the ledger has been told,
//! and `elsewhere` what no host has used of [`TALLY_MAX`].

mod report;
mod sum;

pub use report::TALLY_MAX;
pub(crate) use sum::Tally;
