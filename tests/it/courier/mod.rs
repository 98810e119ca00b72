//! The courier's core: couriers of several hosts play against the pure model of the ledgers.

mod host;
mod requests;
mod simulation;
mod world;
