//! The store: mapped file groups that processes share, safe against kill -9.
//!
//! [`prepare_at_start`] makes a data directory ready. A [`Handle`] attaches to it.
//! [`Handle::begin`] opens a [`Transaction`] over one or many key-nodes. Its commit is the only way
//! to change a node.
// `cargo test NAME` builds the tests of every package. Those of the store run in `frs-store`, so
// the same files in `frs-store-crash` have none.
#![cfg(not(all(test, feature = "crash-points")))]
#![allow(missing_docs, reason = "for the crates above; programs see what `frs` exports")]

mod checkpoint;
mod commit;
mod file;
mod lock;
mod watch;

#[cfg(any(test, feature = "crash-points"))]
pub mod crash;
#[cfg(test)]
mod model;

#[cfg(not(loom))]
mod chain;
#[cfg(not(loom))]
mod error;
#[cfg(all(any(test, feature = "testing"), not(loom)))]
pub mod fuzzing;
#[cfg(not(loom))]
mod grow;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
pub mod inspect;
#[cfg(not(loom))]
mod recover;
#[cfg(all(any(test, feature = "crash-points"), not(loom)))]
pub mod simulated;
#[cfg(all(any(test, feature = "testing"), not(loom)))]
pub mod testing;
#[cfg(all(any(test, feature = "testing"), not(loom)))]
pub use {
    recover::prepare_with,
    testing::{Unpaced, prepare},
};

/// Whether tests can end a process at any store. A bench must not measure such a build.
pub const HAS_CRASH_POINTS: bool = cfg!(any(test, feature = "crash-points"));

pub use file::{layout, region};
pub use lock::semaphore;
pub use watch::slot;

#[cfg(not(loom))]
pub use {
    chain::{Judge, Life, Rank},
    checkpoint::{
        CheckpointFacts, Checkpointer, GroupPass, Pace, Pacer, PassRate, Progress,
        checkpoint_facts, is_checkpoint_of_move, restorable,
    },
    commit::{
        FormerPlace, Full, Keep, Lead, Looked, Moment, NodeIndex, NodeOwner, Refused, Sought,
        TooLarge, Transaction, TransactionBuffers, Wanted, Worked,
    },
    error::{Error, io_error},
    file::{
        FileFacts, FilePlace, Flush, Group, Version, give_access, give_access_to_generation,
        give_access_to_history, group, live_geometry, path_of, settled, version,
    },
    grow::{end_move, next_files, staging},
    handle::{Handle, RETIRED_EVERY, RefusedUpdate},
    inspect::Pass,
    recover::{
        Closed, Fault, FilesBefore, Finding, Moves, Prepared, Preparing, Report, Unproven,
        Unserved, check_files, close_clean, left_bytes, live_dir, prepare_after_fault,
        prepare_at_start, prepare_beside, recover_alone, scan_group,
    },
    watch::mailbox::{
        Asking, EventBell, Letter, LetterQueue, Mailbox, OwnerBell, Reply, Rest, SharedBell,
        TakenLetter, Ticket,
    },
    watch::{
        BizRow, ChangedPlace, ChangesFound, ChangesRead, CheckpointCounts, ChildPlace, ClientRow,
        Counter, Counters, Damage, GroupCounter, HandshakeResult, LINGERING, MailboxLock,
        MasterCounts, MasterLock, Places, ROLE_PREPARE, ROLE_PROGRAM, RefusedCount, RefusedKey,
        RefusedKeys, RefusedSketches, RequestedPass, Runtime, SlotRequest, SlotStatus, Sums, Sweep,
        Window, counter, refused,
    },
};

/// Parts of the store's insides that tests of the floors above need.
#[cfg(all(any(test, feature = "crash-points"), not(loom)))]
pub mod insides {
    pub use crate::checkpoint::dirty::Side;
    pub use crate::checkpoint::{Part, fault, path_of as checkpoint_path};
    pub use crate::file::words::{bytes_of, header_crc, words_of};
}
