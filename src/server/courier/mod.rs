//! The courier: the process of a host that alone talks to the cluster.
//!
//! [`ledger`] is the language it speaks there: the functions that it loads into each master, what
//! it sends to them and what they answer. [`name`] says what a ledger and its companions are called
//! in the cluster, and which slot and channel they have. [`process`] is the child's start, its ties
//! to the master and its end.
//!
//! Invariant: ledgers and names are values in, values out. They have no socket and no clock, and do
//! not know which client library carries the bytes.

pub mod ledger;
pub mod name;
pub mod process;
