//! The courier's links to a real cluster: every slot, every change of a master, every fault.

// Slots are ranges, and often there is one.
#![allow(clippy::single_range_in_vec_init)]

mod access;
mod failures;
mod faults;
pub mod host;
mod messages;
pub mod nodes;
