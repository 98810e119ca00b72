//! The service over a real store: verdicts, atomic requests, evictions, lists and modes, changes
//! under live handles, clocks, stopped and dead holders.

mod atomic;
mod call_rates;
mod changes;
mod clock;
mod contention;
mod counters;
mod crash;
#[cfg(not(miri))]
mod former_limits;
#[cfg(not(miri))]
mod giving_back;
#[cfg(not(miri))]
mod kept_bans;
#[cfg(not(miri))]
mod kept_records;
#[cfg(not(miri))]
mod leases;
mod listed;
mod members;
mod model;
mod moving;
#[cfg(not(miri))]
mod moving_on_disk;
mod orphans;
mod records;
mod refusals;
#[cfg(not(miri))]
mod shared_keys;
#[cfg(not(miri))]
mod sharing;
#[cfg(not(miri))]
pub(super) mod simulation;
#[cfg(not(miri))]
mod spilled;
mod stopped;
#[cfg(not(miri))]
mod store;
mod verdicts;
#[cfg(not(miri))]
mod waiting;
