//! Leases: the ledger's functions on a real server, and the same as a pure model.

mod facts;
mod ledger;
mod promises;
mod server;
mod traces;
