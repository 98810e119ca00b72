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
//! | `found` | which passes there are of a group |
//! | `fault` | faults of the disk, in tests |
//! | `pass` | copies what has changed in one file |
//! | `checkpointer` | passes over all groups, for the keeper |
//! | `restore` | makes live files from checkpoints |
//! | `admit` | decides at a start what becomes of a group, and which marks are valid |

mod admit;
mod checkpointer;
mod fault;
mod file;
mod found;
mod pass;
mod restore;
#[cfg(all(test, not(loom), not(miri)))]
mod tests;

pub(super) use admit::{LiveState, Marking, admit_marks, live_state};
pub use checkpointer::{Checkpointer, GroupPass, PassRate, Unpaced};
pub use file::CheckpointFacts;
pub(super) use file::create_empty;
#[cfg(all(test, not(loom), not(miri)))]
use file::{Part, path_of};
pub(crate) use found::is_checkpoint_of_move;
pub(super) use found::{Complete, Copied, Found, find, geometry, remove};
pub use found::{checkpoint_facts, restorable};
pub use pass::{Pace, Pacer};
pub use restore::Progress;
pub(super) use restore::{Restored, restore};
