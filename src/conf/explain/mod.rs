//! The meaning of a checked configuration in words and figures, for `frs check`, the log and pages.
//!
//! Invariant: everything here is computed from a checked configuration and from values that
//! describe a machine. Nothing here changes a configuration.
//!
//! | file | what it tells |
//! | --- | --- |
//! | `clients` | who may do what |
//! | `describe` | what limits allow |
//! | `promises` | what shared limits promise and cost |
//! | `warm_costs` | what records in the cluster promise and cost |
//! | `mirror_costs` | what records on peers promise and cost |
//! | [`memory_bound`] | the most memory that frs can take |
//! | `resources` | memory and file systems of this machine |
//! | [`report`] | all of these, with warnings, as `frs check` prints them |
//! | `differences` | what a reload changed |

mod clients;
mod describe;
mod differences;
pub mod memory_bound;
mod mirror_costs;
mod promises;
pub mod report;
mod resources;
mod warm_costs;

pub use describe::{biz_words, limit_words};
pub use differences::differences;
pub use resources::{DirFilesystem, Filesystem, Machine, envoy_program};
