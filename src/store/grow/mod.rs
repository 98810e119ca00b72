//! New files of a group beside those in force: for a group that grows, and for a migration.
//!
//! Contract: at whatever step the work is interrupted, the files tell how far it was, and the step
//! can be repeated. File 0 is renamed last. How a node moves to the new files is in
//! `commit/transaction/moving.rs`.
//!
//! | file | duty |
//! | --- | --- |
//! | `next_files` | the files that a group moves to while it serves |
//! | `staging` | drafts that replace the files of a group that is not served |

pub mod next_files;
pub mod staging;

pub use next_files::end_move;
