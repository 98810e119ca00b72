//! Leases: the host's rules in everything that can happen to small worlds, and the ledger's
//! functions on a real server and as a pure model.

mod checker;
pub mod ledger;
mod promises;
mod real_ledger;
mod server;
mod traces;
