//! The cluster: what several machines share, above a core that knows one machine alone.
//!
//! [`PLUG`] plugs it into the engine.
//!
//! | module | role |
//! | --- | --- |
//! | [`shared`] | the limits that machines share |
//! | [`lease`] | the rules of a host that spends leases |
//! | [`tally`] | sums that refuse nothing |
//! | [`nodes`] | the nodes of the host |
//! | [`incarnation`] | the number by which the ledger knows the host |
//! | `ledger`, `name` | the functions of the ledger; its keys, slots and channels |
//! | `connections` | connections to the cluster's nodes |
//! | `courier`, `figures` | the process that talks to the cluster or to peers, and its counts |
//! | `news` | what hosts publish |
//! | `mirror` | records that other machines have a copy of, without a cluster |
//! | `learning` | whether this machine has yet to hear from them |
//! | `newest_copy` | whether a data directory is the newest of its copies |
//! | `warm` | records that the cluster keeps |
//!
//! Modules without a link belong to the one process that talks to the cluster. A program without
//! the feature `courier` has none of them, and so no connections.
//!
//! Invariant: only `connections` has sockets, and knows which client library carries the bytes.
//! Everything else is values in, values out, except the loop of the courier and the
//! nodes.

#[cfg(feature = "courier")]
pub mod connections;
#[cfg(feature = "courier")]
pub mod courier;
#[cfg(feature = "courier")]
pub mod figures;
pub mod incarnation;
pub mod learning;
pub mod lease;
#[cfg(feature = "courier")]
pub mod ledger;
#[cfg(feature = "courier")]
pub mod mirror;
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

pub use plug::{HostCluster, PLUG, attach};
