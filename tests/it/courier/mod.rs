//! The courier's core: hosts of it play against the pure model of the ledgers.

mod host;
mod requests;
mod simulation;
mod world;
