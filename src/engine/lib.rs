//! Query and Update: biz, key, transaction, limits, verdicts.
//!
//! A [`Service`] attaches to a data directory. [`Service::run`] answers a [`Request`];
//! [`Service::run_all`] runs several [`Exchange`]s, of which some may wait for a [`Cluster`].
//! [`inspect`] looks into the files without an attachment.
//!
//! Invariant: a [`Request`] holds what a front end parsed, and [`Answers`] what it has to write.
//! Both are reused, so the steady state allocates nothing.
// `cargo test NAME` builds the tests of every package. Those of the engine run in
// `frs-engine-crash`, so the same files in `frs-engine` have none.
#![cfg(any(not(test), feature = "crash-points"))]
#![allow(missing_docs, reason = "for the crates above; programs see what `frs` exports")]

#[cfg(feature = "access")]
pub mod access;
pub mod answer;
mod edit_record;
mod exchange;
mod execute;
mod extras;
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
mod registers;
mod request;
mod service;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod void_records;

use std::path::PathBuf;
use std::sync::Arc;

use frs_conf::Conf;
use frs_store::{BizRow, Handle, ROLE_PROGRAM, TransactionBuffers};

use execute::{Refusals, Reports, RequestBuffers, Waits};
use registers::RegisterBuffers;
use service::FailedTake;

pub use answer::{Answer, Answers};
pub use edit_record::{Clearing, LimitUse, RecordError, RecordFigures, RecordName};
pub use exchange::{Exchange, Stage};
pub use execute::{RefusalSample, RefusedItem, Refuser};
pub use extras::Extras;
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
pub use plug::{Cluster, Files, Learning, Plug, Plugged, Remote};
pub use quotas::QUOTAS_MAX;
pub use registers::{EXPECTED_REGISTERS, MAX_REGISTERS, RegisterError, RegisterScan, Registers};
pub use request::{Command, Grant, Item, ItemNames, ItemOptions, Request};
pub use table::{Entry, Seen, Table, with_room};
pub use void_records::VoidRecords;

pub use frs_conf::{CallRate, CallWindow};
pub use frs_limit::{
    AnswerAge, CallNumbers, Details, Figures, HistorySpan, LimitFigures, List, Mark, Noted, Quota,
    Register, RegisterValue, Verdict,
};

/// The kind of process that attaches. The slot stores the kind, for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A worker of the server, which serves its clients.
    Worker = 1,
    /// The keeper of the server's files.
    Keeper = 2,
    /// A local program that uses the library.
    Program = 3,
    /// The admin plane, a thread of the keeper's process.
    Admin = 4,
    /// The process that alone talks to the cluster.
    Cluster = 5,
    /// The server's own frs-envoy.
    Envoy = 6,
}

const _: () = assert!(Role::Program as u32 == ROLE_PROGRAM);

/// One attachment to a data directory: the store and the configuration in force.
///
/// It belongs to one thread, and is dead in a forked child.
#[derive(Debug)]
pub struct Service {
    handle: Handle,
    data_dir: PathBuf,
    conf: Arc<Conf>,
    generation: u64,
    failed: Option<FailedTake>,
    table: Table,
    scratch: RequestBuffers,
    buffers: TransactionBuffers,
    registers: RegisterBuffers,
    /// Makes the cluster of each configuration. `None`: this machine stands alone.
    plug: Plugged,
    /// The cluster. `None` if the configuration has none.
    cluster: Option<Box<dyn Cluster>>,
    /// The process is a program, the admin plane or frs-envoy: its items can wait as soon as there
    /// is a cluster. The items of a worker can wait only if it has the doorbells of its master.
    waits_by_futex: bool,
    waits: Waits,
    reports: Reports,
    refusals: Refusals,
    /// The business of the last item that was counted.
    last_row: BizRow,
    /// The outcome of the last transaction of registers.
    last_outcome: Outcome,
}

/// Attempts of an item or a transaction: it runs again if the generation changes.
const RETRIES: usize = 3;
