//! Looks into the files of a data directory, live or cold, for tools and pages.
//!
//! A [`Reader`] maps the groups for reading. It takes no semaphore and delays no process. Each node
//! that it returns was written as a whole by some transaction. It reads nodes by the configuration
//! in force, or by the latest one if no server runs.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use frs::inspect::{self, By, Look, Reader};
//!
//! # fn main() -> Result<(), frs::inspect::Error> {
//! let mut reader = Reader::open(Path::new("data"))?;
//! let now = inspect::now();
//! if let Look::At(node) = reader.node("login", "alice", now)? {
//!     println!("{} of {}", node.limits[0].figures.used, node.limits[0].figures.max);
//! }
//! for node in reader.top("login", 20, By::Used, now)? {
//!     println!("{} {} {}", node.key, node.used(), node.last_use_ms);
//! }
//! # Ok(())
//! # }
//! ```

mod copy_nodes;
mod decode;
mod error;
mod fresh;
mod migrate;
mod move_plan;
mod reader;
mod record;
mod refused;
mod repair;
mod stats;
#[cfg(test)]
mod tests;
mod top;
mod walk;

pub use error::Error;
#[doc(hidden)]
pub use fresh::{FreshBiz, fresh_records};
#[doc(hidden)]
pub use migrate::{Counts, GroupPlan, Migration, Progress, Step};
#[doc(hidden)]
pub use move_plan::{MovePlan, MoveRefusal, plan_moves};
pub use reader::{Look, Reader};
pub use record::{LeaseRecord, NodePlace, NodeRecord};
pub use refused::{RefusedNode, RefusedNodes};
#[doc(hidden)]
pub use repair::{Obstacle, Repaired, obstacles, repair, restore_overlay};
pub use stats::{FileStats, GroupStats};
pub use top::By;
pub use walk::{Skipped, Walked};

pub use crate::base::clock::now;
pub use crate::store::Window;
