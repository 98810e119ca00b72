//! Checkpoints: copies of the group files in the data directory, from which a start restores groups
//! whose live files did not outlive the machine.
//!
//! Contract: a pass takes no semaphore and holds up no request. Of each file there are two
//! checkpoints, written in turns, so that a pass that breaks off leaves the other one valid. A
//! checkpoint that is cut, swapped or half written is named, and nothing is restored from it.
//!
//! | file | duty |
//! | --- | --- |
//! | `file` | the format |
//! | `tail` | where its parts behind the key-nodes are |
//! | `checks` | checksums of key-nodes, and the epochs of businesses |
//! | `catalog` | which passes there are of a group |
//! | `fault` | faults of the disk, in tests |
//! | `pass` | copies what has changed in one file |
//! | `checkpointer` | passes over all groups, for the keeper |
//! | `restore` | makes live files from checkpoints |
//! | `admit` | decides at a start what becomes of a group, and which marks are valid |

mod admit;
mod catalog;
mod checkpointer;
mod checks;
pub mod fault;
mod file;
mod pass;
mod restore;
mod tail;

pub(super) use admit::{LiveState, Marking, admit_marks, live_state};
pub use catalog::is_checkpoint_of_move;
pub(super) use catalog::{Complete, Copied, Found, find, geometry, remove};
pub use catalog::{checkpoint_facts, restorable};
pub use checkpointer::{Checkpointer, GroupPass, PassRate, Unpaced};
pub(super) use checks::{Checks, overlay};
pub(crate) use file::{
    CRC as CHECKPOINT_CRC, FORMAT_AT as CHECKPOINT_FORMAT, UNCHECKED_CRC as CHECKPOINT_FORMER_CRC,
};
pub use file::{CheckpointFacts, PassState};
pub(super) use file::{OpenCheckpoint, create_empty};
#[cfg(all(any(test, feature = "crash-points"), not(loom)))]
pub use file::{Part, path_of};
pub use pass::{Pace, Pacer};
pub use restore::Progress;
pub(super) use restore::{Restored, restore};
