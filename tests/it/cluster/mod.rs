//! The courier's links to a real cluster: every slot, every change of a master, every fault.

mod access;
mod failures;
mod faults;
pub mod host;
mod messages;
pub mod nodes;
