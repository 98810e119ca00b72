//! Checkpoints: copies of the group files in the data directory, from which a start restores groups
//! whose live files did not outlive the machine.
//!
//! Contract: a pass takes no semaphore and holds up no request. Each file has two checkpoints,
//! written in turns, so that a pass that breaks off leaves the other one valid. A checkpoint that
//! is cut, swapped or half written is reported, and nothing is restored from it.
//!
//! | file | duty |
//! | --- | --- |
//! | `file` | the format |
//! | `dirty` | the marks of changed pages |
//! | `dirty_file` | the file that holds them |
//! | `tail` | where its parts behind the key-nodes are |
//! | `checks` | checksums of key-nodes, and the epochs of businesses |
//! | `catalog` | which passes there are of a group |
//! | `fault` | faults of the disk, in tests |
//! | `pass` | copies what has changed in one file |
//! | `checkpointer` | passes over all groups, for the keeper |
//! | `restore` | makes live files from checkpoints |
//! | `admit` | decides at a start what becomes of a group, and which marks are valid |

pub(crate) mod dirty;

#[cfg(not(loom))]
mod admit;
#[cfg(not(loom))]
mod catalog;
#[cfg(not(loom))]
mod checkpointer;
#[cfg(not(loom))]
mod checks;
#[cfg(not(loom))]
pub(crate) mod dirty_file;
#[cfg(not(loom))]
pub mod fault;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod pass;
#[cfg(not(loom))]
mod restore;
#[cfg(not(loom))]
mod tail;

#[cfg(all(any(test, feature = "testing"), not(loom)))]
pub(crate) use file::{
    CRC as CHECKPOINT_CRC, FORMAT_AT as CHECKPOINT_FORMAT, UNCHECKED_CRC as CHECKPOINT_FORMER_CRC,
};
#[cfg(all(any(test, feature = "crash-points"), not(loom)))]
pub use file::{Part, path_of};
#[cfg(not(loom))]
pub(crate) use {
    admit::{LiveState, Marking, admit_marks, live_state},
    catalog::{Complete, Copied, Found, find, geometry, remove},
    checks::{Checks, overlay},
    file::{OpenCheckpoint, create_empty},
    restore::{Restored, restore},
};
#[cfg(not(loom))]
pub use {
    catalog::{checkpoint_facts, is_checkpoint_of_move, restorable},
    checkpointer::{Checkpointer, GroupPass, PassRate},
    file::CheckpointFacts,
    pass::{Pace, Pacer},
    restore::Progress,
};
