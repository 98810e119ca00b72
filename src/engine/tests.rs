//! The service over a real store: verdicts, atomic requests, evictions, lists and modes, changes
//! under live handles, clocks, stopped and dead holders.

mod atomic;
mod call_rates;
mod calls;
mod changes;
mod client_counts;
mod clock;
mod contention;
mod counters;
mod crash;
mod kept_tables;
mod listed;
mod members;
mod model;
mod moving;
#[cfg(not(miri))]
mod moving_on_disk;
mod orphans;
mod records;
mod refusals;
mod registers;
#[cfg(not(miri))]
pub(super) mod simulation;
mod stopped;
#[cfg(not(miri))]
mod store;
mod verdicts;
#[cfg(not(miri))]
mod versions;
