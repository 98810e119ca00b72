//! Leases: the host's rules over all that can happen to small worlds, the ledger's functions on a
//! real server, and the same as a pure model.

mod checker;
mod facts;
pub mod ledger;
mod promises;
mod server;
mod traces;
