//! A real cluster: the courier's links to it (every slot, every change of a master, every fault),
//! and whole hosts over it (exactly the maximum, whatever fails).

// Lists of slot ranges often hold one range.
#![allow(clippy::single_range_in_vec_init)]

mod access;
mod atomic;
mod campaign;
mod clocks;
mod copies;
mod deaths;
mod exact;
mod extra;
mod failovers;
mod failures;
mod faults;
mod figures;
mod gate;
mod history;
pub mod host;
pub mod hosts;
mod late;
mod learning;
mod lost;
mod messages;
mod metrics;
mod minority;
pub mod nodes;
mod outages;
mod parked;
mod reloads;
mod resets;
mod script;
mod spill;
mod tally;
mod turns;
mod wall;
mod warm;
mod windows;
