//! The store: mapped file groups that processes share, safe against kill -9.
//!
//! `prepare` makes a data directory ready. A [`Handle`] attaches to it. [`Handle::begin`] opens a
//! [`Transaction`] over one or many key-nodes. Its commit is the only way to change a node.
#![allow(missing_docs, reason = "for the crates above; programs see what `frs` exports")]

mod commit;
mod dirty;
mod doorbell;
pub mod layout;
mod orphan;
pub mod region;
pub mod semaphore;
pub mod slot;
pub mod undo_log;
mod want;
mod want_queue;
mod want_ring;

#[cfg(any(test, feature = "crash-points"))]
pub mod crash;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_wants;

#[cfg(not(loom))]
mod access;
#[cfg(not(loom))]
mod backing;
#[cfg(not(loom))]
mod checkpoint;
#[cfg(not(loom))]
pub mod counter;
#[cfg(not(loom))]
mod dirty_file;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod evict;
#[cfg(not(loom))]
mod fast_path;
#[cfg(not(loom))]
mod file_map;
#[cfg(not(loom))]
mod file_owner;
#[cfg(not(loom))]
mod file_set;
#[cfg(not(loom))]
mod file_words;
#[cfg(not(loom))]
mod flush;
#[cfg(not(loom))]
mod freeing;
#[cfg(not(loom))]
pub mod fuzzing;
#[cfg(not(loom))]
pub mod group;
#[cfg(not(loom))]
pub mod growing;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
mod incarnation;
#[cfg(not(loom))]
pub mod inspect;
#[cfg(not(loom))]
mod live;
#[cfg(not(loom))]
mod new_node;
#[cfg(not(loom))]
mod node_check;
#[cfg(not(loom))]
mod notice;
#[cfg(not(loom))]
mod pass;
#[cfg(not(loom))]
mod places;
#[cfg(not(loom))]
mod prepare;
#[cfg(not(loom))]
mod reach;
#[cfg(not(loom))]
pub mod refused;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
mod shared_bell;
#[cfg(all(any(test, feature = "crash-points"), not(loom)))]
pub mod simulated;
#[cfg(not(loom))]
mod spill_filter;
#[cfg(not(loom))]
pub mod staging;
#[cfg(not(loom))]
mod sweep;
#[cfg(not(loom))]
mod tags;
#[cfg(not(loom))]
mod transaction;
#[cfg(not(loom))]
mod verify;
#[cfg(not(loom))]
mod waiter;
#[cfg(not(loom))]
mod wants;
#[cfg(not(loom))]
mod write_back;

#[cfg(not(loom))]
pub use runtime::{ChildRole, Damage, LINGERING};
#[cfg(not(loom))]
pub use {
    access::{give_access, give_access_to_generation, give_access_to_history, give_access_to_read},
    checkpoint::{
        CheckpointFacts, Checkpointer, GroupPass, Pace, Pacer, PassRate, PassState, Progress,
        Unpaced, checkpoint_facts, restorable,
    },
    counter::{BizRow, Counter, Counters, GroupCounter, Sums},
    doorbell::{Asking, Bell, EventBell, Rest},
    error::Error,
    evict::{Judge, Rank},
    fast_path::{Keep, Lead, Moment, NodeOwner, Worked},
    file_set::path_of,
    file_words::{FileFacts, FilePlace},
    flush::Flush,
    group::Group,
    growing::end_move,
    handle::{Handle, RETIRED_EVERY, RefusedUpdate},
    incarnation::{ClusterId, HostFacts, Incarnation, check_boot_clock},
    live::{live_geometry, settled},
    pass::Pass,
    places::{Places, ROLE_PREPARE, ROLE_PROGRAM, SlotRequest},
    prepare::{
        Closed, FilesBefore, Moves, Prepared, Preparing, Unserved, check_files, close_clean,
        left_bytes, live_dir, prepare, prepare_after_fault, prepare_at_start, prepare_beside,
        prepare_with,
    },
    refused::{RefusedCount, RefusedKey, RefusedKeys, RefusedSketches, Window},
    runtime::{
        CheckpointCounts, CourierLock, MasterCounts, MasterLock, RequestedPass, Runtime,
        SlotStatus, Starts,
    },
    shared_bell::{Lying, SharedBell},
    sweep::Sweep,
    transaction::{
        FormerPlace, Full, NodeIndex, Refused, Sought, TooLarge, Transaction, TransactionBuffers,
        Wanted,
    },
    verify::{Fault, Finding, Report, Unproven},
    want::{Want, WantKind, WantResult, WantedTogether},
    want_queue::{TakenWant, WantQueue},
    want_ring::{Full as RingFull, OwnerBell, Ticket},
    wants::Wants,
};

#[cfg(not(loom))]
pub use checkpoint::is_checkpoint_of_move;
#[cfg(not(loom))]
pub(crate) use checkpoint::{CHECKPOINT_CRC, CHECKPOINT_FORMAT, CHECKPOINT_FORMER_CRC};
#[cfg(not(loom))]
pub use prepare::{recover_alone, scan_group};

#[cfg(all(any(test, feature = "testing"), not(loom)))]
pub mod testing;

/// Whether stores can be ends of a process, as tests want it. A bench must not measure that.
pub const HAS_CRASH_POINTS: bool = cfg!(any(test, feature = "crash-points"));

/// What the tests of the floors above need of the store's insides.
#[cfg(all(any(test, feature = "crash-points"), not(loom)))]
pub mod insides {
    pub use crate::checkpoint::{Part, fault, path_of as checkpoint_path};
    pub use crate::dirty::Side;
    pub use crate::file_words::{bytes_of, header_crc, words_of};
    pub use crate::orphan::pose;
}
