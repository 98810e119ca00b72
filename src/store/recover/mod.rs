//! Recovery: of slots whose process died, and of files before a start serves them.
//!
//! Contract: an undo log is replayed only over the files that it was written for, in the boot that
//! it was written in. Every other group is scanned whole before it is served, unless it carries
//! the mark of a clean end.
//!
//! | file | duty |
//! | --- | --- |
//! | `dead_slots` | recovers the slots of dead processes |
//! | `prepare` | makes a data directory ready at a start or a reload, and closes it clean |
//! | `verify` | checks and repairs every key-node of a group |
//! | `notice` | events for the log, kept until no semaphore is held |

pub(crate) mod dead_slots;
pub(crate) mod notice;
pub(crate) mod prepare;
pub(crate) mod verify;

#[cfg(any(test, feature = "testing"))]
pub use prepare::prepare_with;
pub use prepare::{
    Closed, FilesBefore, Moves, Prepared, Preparing, Unserved, check_files, close_clean,
    left_bytes, live_dir, prepare_after_fault, prepare_at_start, prepare_beside, recover_alone,
    scan_group,
};
pub use verify::{Fault, Finding, Report, Unproven};
