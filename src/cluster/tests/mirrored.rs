//! Machines that have copies of each other's records, without sockets: the test carries the frames.

pub(super) mod field;
pub(super) mod machine;
mod network;
mod oracle;
mod promises;
mod random;
mod simulation;
