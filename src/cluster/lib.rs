//! The cluster: what several machines share, above a core that knows one machine alone.
//!
//! [`PLUG`] plugs it into the engine. [`shared`] has the limits that machines share: [`lease`] has
//! the rules of a host that spends leases, [`tally`] those of sums that refuse nothing. [`nodes`]
//! is the way to the nodes of the host, and [`incarnation`] the number by which others know it. All
//! else is the process that alone talks to the cluster, and stands behind the feature `courier`, so
//! that a program which only spends leases brings no connections. `ledger` is the protocol: the
//! functions that are loaded into each master, their arguments and their answers. `name` gives the
//! keys of ledgers and of their companions in the cluster, with their slots and channels. `news` is
//! what hosts publish on the channels. `connections` carries all this: connections, the topology,
//! the channels. `courier` is the process, and `figures` is what it counts. `newest_copy` finds out
//! whether a data directory is the newest of its copies. `warm` decides about records that the
//! cluster keeps for the machine that takes a key over.
//!
//! Invariant: only `connections` has sockets, and knows which client library carries the bytes.
//! Everything else is values in, values out, but for the loop of the courier and the way to the
//! nodes.

#[cfg(feature = "courier")]
pub mod connections;
#[cfg(feature = "courier")]
pub mod courier;
#[cfg(feature = "courier")]
pub mod figures;
pub mod incarnation;
pub mod lease;
#[cfg(feature = "courier")]
pub mod ledger;
#[cfg(feature = "courier")]
pub mod name;
#[cfg(feature = "courier")]
pub mod newest_copy;
#[cfg(feature = "courier")]
pub mod news;
pub mod nodes;
mod plug;
pub mod shared;
pub mod tally;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(all(test, not(miri)))]
mod tests;
#[cfg(feature = "courier")]
pub mod warm;

pub use plug::{Host, PLUG, attach};
