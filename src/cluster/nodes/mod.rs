//! The nodes of this host, as the cluster reads and changes them: leases, and records that the
//! cluster keeps.
//!
//! Invariant: every change takes the engine's path of an item.

pub(crate) mod identity;
mod leases;
mod records;
mod spill_records;

pub use leases::{LeasePass, lease_pass, mark_lease, with_leases};
pub use records::{
    Chain, ChainPlace, ChangedRecord, Inserted, KeptRecord, RecordPlace, Records, SentRecords,
    Step, StepBounds, StoredRecords, Whereabouts, changed_records,
};
pub use spill_records::{SpillingGroup, spilling_groups, turn_filters};
