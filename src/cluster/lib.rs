//! The cluster: what several machines share, above a core that knows one machine alone.
//!
//! [`ledger`] is the protocol: the functions that are loaded into each master, their arguments and
//! their answers. [`name`] gives the keys of ledgers and of their companions in the cluster, with
//! their slots and channels. [`news`] is what hosts publish on the channels. [`connections`]
//! carries all this: connections, the topology, the channels. [`courier`] is the process of a host
//! that alone talks to the cluster. [`warm`] decides about records that the cluster keeps for the
//! machine that takes a key over.
//!
//! Invariant: only [`connections`] has sockets, and knows which client library carries the bytes.
//! Everything else is values in, values out, but for the loop of the courier.

pub mod connections;
pub mod courier;
pub mod ledger;
pub mod name;
pub mod news;
pub mod warm;
