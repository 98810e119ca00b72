//! Records of keys with limits of one machine alone, kept in the cluster for the machine that takes
//! a key over.
//!
//! Contract: [`Warm`] knows which records are requested and which are under way; it has no socket
//! and no clock. [`RecordRounds`] schedules the looks at the parts of a group.
//!
//! A record has an owner, a host by its incarnation, and a version, the owner's own count. A host
//! that fetches a record becomes its owner. Later writes of the previous owner are refused, and the
//! previous owner forgets its record. So clocks of machines do not order versions: versions are
//! compared within one owner only, and of two owners the last to fetch is right.

mod filters;
mod full_chains;
mod record_message;
mod record_rounds;
mod spill;
mod transfers;

pub use filters::FilterTurns;
pub use record_message::{WarmAnswer, WarmCall, WarmMessage};
pub use record_rounds::{RecordRounds, RoundTime, STEP, Sent};
pub use transfers::{Done, Finished, Sending, SpillCounts, Warm};
