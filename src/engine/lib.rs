//! Query and Update: biz, key, transaction, limits, verdicts.
//!
//! Invariant: a [`Request`] holds what a front end parsed, and [`Answers`] what it has to write.
//! Both are reused, so the steady state allocates nothing.
// `cargo test NAME` builds the tests of every package. Those of the engine are in the package
// `crash`; here there are none.
#![cfg(any(not(test), feature = "crash-points"))]
#![allow(missing_docs, reason = "for the crates above; programs see what `frs` exports")]

pub mod answer;
mod call_rate;
mod edit_record;
mod exchange;
mod execute;
mod flushing;
mod former_limits;
pub mod inspect;
mod item_error;
mod item_path;
mod members;
mod move_records;
mod need;
mod outcome;
mod parked_bytes;
mod plug;
mod quotas;
mod request;
mod service;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod void_records;

pub use answer::{Answer, Answers};
pub use call_rate::{CallRate, CallRateText};
pub use edit_record::{Clearing, LimitUse, RecordError, RecordFigures, RecordName};
pub use exchange::{Exchange, Stage};
pub use execute::{RefusalSample, RefusedItem, Refuser};
pub use flushing::Flushing;
pub use former_limits::{note_former_limits, note_limits_in_force};
pub use item_error::ItemError;
pub use item_path::{ItemMoment, ItemNodes, LiveNode, StoredKey};
pub use move_records::{MoveCounts, MovePass, MoveStep};
pub use need::{Need, NeedEnd, NeedKind, NeededTogether};
pub use outcome::Outcome;
pub use parked_bytes::{
    SPARE_BYTES, WAITING_ITEM_BYTES, WAITING_LIMIT_BYTES, WAITING_WINDOW_BYTES,
};
pub use plug::{Cluster, Files, Plug, Plugged, Remote};
pub use quotas::QUOTAS_MAX;
pub use request::{Command, Item, ItemNames, ItemOptions, Request};
pub use service::{Role, Service};
pub use table::{Entry, Seen, Table, with_room};
pub use void_records::VoidRecords;

pub use frs_limit::{Details, Figures, Heard, HistorySpan, LimitFigures, List, Quota, Verdict};
