//! The courier: the process of a host that alone talks to the cluster.
//!
//! [`ledger`] is the language it speaks there: the functions that it loads into each master, what
//! it sends to them and what they answer. [`name`] says what a ledger and its companions are called
//! in the cluster, and which slot and channel they have.
//!
//! Invariant: values in, values out. Nothing here has a socket or a clock, and nothing knows which
//! client library carries the bytes.

pub mod cluster;
pub mod ledger;
pub mod name;
pub mod news;
