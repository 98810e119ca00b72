//! Leases: how a host spends, at local speed, what a ledger in a Redis or Valkey Cluster has granted
//! it. The design and its rules are in docs/cluster.md.
//!
//! Values in, values out: no clock, no store and no socket in here. The courier sends what these
//! functions return, and applies what they make of an answer to the words of a node.

mod message;

pub use message::{Claim, Granted, Incarnation, Kind, Settings, Take, Taken};
