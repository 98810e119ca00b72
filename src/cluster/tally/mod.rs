//! Tallies: limits that refuse nothing. A host counts its uses at once and reports them to the
//! ledger, and the ledger answers with the sum of all hosts.
//!
//! Invariant: a tally requests no lease, and nothing waits for it. The sums of all hosts become
//! equal, whatever is lost, late or doubled.
//!
//! A tally uses the words of a lease. `allowance` is the number of uses that this host has
//! reported. `obtainable` is [`TALLY_MAX`] less the uses of all hosts.

mod report;
mod sum;

pub use report::TALLY_MAX;
pub(crate) use sum::Tally;
