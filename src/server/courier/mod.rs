//! The courier: the process of a host that alone talks to the cluster.
//!
//! [`ledger`] is the protocol: the functions that the courier loads into each master, their
//! arguments and their answers. [`name`] gives the keys of ledgers and of their companions in the
//! cluster, with their slots and channels. [`news`] is what hosts publish on the channels.
//! [`cluster`] carries all this: connections, the topology, the channels. [`core`] decides when
//! each message is sent, and how waiting items end; [`run`] is the loop around it; [`process`] is
//! the child that the master forks. [`warm`] makes the same decisions for records that the cluster
//! keeps for the machine that takes a key over.
//!
//! Invariant: only [`cluster`] has sockets and threads, and knows which client library carries the
//! bytes. Everything else is values in, values out.

pub mod cluster;
pub mod core;
pub mod ledger;
pub mod name;
pub mod news;
pub mod process;
pub mod run;
mod telemetry;
pub mod warm;
