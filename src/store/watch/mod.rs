//! runtime.mmap: the slots of attached processes, their counters and mailboxes, and the register of
//! group files.
//!
//! Contract: a slot is used only while its byte is locked, and only its owner writes its counters.
//! The counts of dead owners stay.
//!
//! | file | duty |
//! | --- | --- |
//! | `runtime` | its header, its register, the words of master and checkpoints |
//! | `backing` | the locks of the slots, and their blocks on the disk |
//! | `places` | which slots an attachment may take |
//! | `slot` | a slot as words: state, owner, intent list |
//! | `change_ring` | the records that a slot's owner has changed |
//! | `mailbox/` | the ring of letters of a slot, and the bells |
//! | `counter` | the counters of a slot, and their sums |
//! | `refused` | the keys that a slot has refused most |
//! | `sweep` | counts the nodes of all groups, slowly |

pub(crate) mod change_ring;
pub(crate) mod mailbox;
pub mod slot;

#[cfg(not(loom))]
pub(crate) mod backing;
#[cfg(not(loom))]
pub mod counter;
#[cfg(not(loom))]
pub(crate) mod places;
#[cfg(not(loom))]
pub mod refused;
#[cfg(not(loom))]
pub(crate) mod runtime;
#[cfg(not(loom))]
pub(crate) mod sweep;

#[cfg(not(loom))]
pub use {
    change_ring::{ChangedPlace, ChangesFound, ChangesRead},
    counter::{BizRow, ClientRow, Counter, Counters, GroupCounter, HandshakeResult, Sums},
    places::{Places, ROLE_PREPARE, ROLE_PROGRAM, SlotRequest},
    refused::{RefusedCount, RefusedKey, RefusedKeys, RefusedSketches, Window},
    runtime::{
        CheckpointCounts, ChildPlace, Damage, LINGERING, MailboxLock, MasterCounts, MasterLock,
        RequestedPass, Runtime, SlotStatus,
    },
    sweep::Sweep,
};
