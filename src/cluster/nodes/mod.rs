//! The nodes of this host, as the cluster reads and changes them: leases, and records that the
//! cluster keeps.
//!
//! Invariant: every change goes the engine's own way of an item.

mod identity;
mod leases;
mod records;
mod room;

pub(crate) use identity::Identity;
pub use leases::{LeaseMoment, LeasePass, LeasedLimit, Leases};
pub use records::{
    ChangedRecord, Inserted, Record, RecordPlace, Records, SentRecords, Step, StepBounds,
    Whereabouts,
};
pub use room::{Chain, ChainPlace, Room, SpillingGroup};
