//! The courier: the process of a host that alone talks to the cluster.
//!
//! [`ledger`] is the language it speaks there: the functions that it loads into each master, what
//! it sends to them and what they answer. [`name`] says what a ledger and its companions are called
//! in the cluster, and which slot and channel they have. [`news`] is what hosts publish on the
//! channels. [`cluster`] carries all this: connections, the topology, the channels.
//! [`core`] decides what is sent when, and what becomes of the items that wait; [`run`] is the loop
//! around it; [`process`] is the child that the master forks. [`warm`] decides the same of records
//! that the cluster keeps for the machine that takes a key over.
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
