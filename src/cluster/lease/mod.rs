//! Leases: how a host spends, at local speed, what a ledger in a Redis or Valkey Cluster has
//! granted it. The design and its rules are in docs/cluster.md.
//!
//! Values in, values out: no clock, no store and no socket in here. The courier sends the messages
//! that these functions return, and writes the effect of an answer to the words of a node.
//!
//! A node holds, for each leased limit, the count of its policy and a [`Lease`]. Both together are
//! a [`Holding`]. A transaction reads the holding, calls one function, and writes it back.

mod binding;
mod grant;
mod holding;
mod ledger_message;
mod node_words;
mod renew;
mod request_order;

pub use binding::{Binding, Keep};
pub use grant::{Next, Received};
pub use holding::{Holding, Lease};
pub use ledger_message::{Claim, Granted, Incarnation, Kind, Settings, Take, Taken};
pub use node_words::{HOLDING_WORDS, HoldingWords};
pub use renew::{Asking, LONGEST_REFUSAL_MS, RequestSize};
pub use request_order::{Parked, RequestPart};

#[cfg(test)]
mod tests;
