//! What a checked configuration means, in words and figures: for `frs check`, the log and pages.
//!
//! Invariant: everything here is computed of a checked configuration and of values that describe a
//! machine. Nothing here changes a configuration.
//!
//! | file | what it says |
//! | --- | --- |
//! | `describe` | what limits allow |
//! | `promises` | what limits that machines share promise, and what they cost |
//! | `warm` | what records in the cluster promise and cost |
//! | [`memory_bound`] | the most memory that frs can take |
//! | `resources` | memory and file systems of this machine |
//! | [`report`] | all of that, with warnings, as `frs check` prints it |
//! | `differences` | what a reload has changed |

mod describe;
mod differences;
pub mod memory_bound;
mod promises;
pub mod report;
mod resources;
mod warm;

pub use describe::{biz_words, limit_words};
pub use differences::differences;
pub use resources::{DirFilesystem, Filesystem, Machine, envoy_program};
