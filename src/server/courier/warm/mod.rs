//! Records of keys that one machine counts alone, kept in the cluster for the machine that takes a
//! key over.
//!
//! Contract: [`Warm`] knows which records are asked for and which are under way; it has no socket
//! and no clock. [`Rounds`] says when which part of a group is to be looked at.
//!
//! A record has an owner, a host by its incarnation, and a version, the owner's own count. Who
//! fetches a record is its owner from then on; what an earlier owner sends is refused, and that
//! owner forgets its record. So clocks of machines take no part in the order of versions: versions
//! are compared within one owner only, and of two owners the one that fetched last is right.

mod core;
mod crowds;
mod filters;
mod message;
mod room;
mod rounds;

pub use self::core::{Done, Finished, NoAnswer, Records, Sending, SpillFigures, Warm};
pub use filters::FilterTurns;
pub use message::{WarmAnswer, WarmCall, WarmMessage};
pub use rounds::{Part, RoundGroup, RoundTime, Rounds, Sent};
