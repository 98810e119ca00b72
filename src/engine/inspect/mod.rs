//! Looks into the files of a data directory, live or cold, for tools and pages.
//!
//! A [`Reader`] maps the groups for reading. It takes no semaphore and delays no process. Each node
//! that it returns was written as a whole by some transaction. It reads nodes by the configuration
//! in force, or by the latest one if no server runs.

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
pub use fresh::{FreshBiz, fresh_records};
pub use migrate::{Counts, GroupPlan, Migration, Progress, Step};
pub use move_plan::{MovePlan, MoveRefusal, plan_moves};
pub use reader::{Look, Reader};
pub use record::{KeptRegister, NodePlace, NodeRecord};
pub use refused::{RefusedNode, RefusedNodes};
pub use repair::{Obstacle, Repaired, obstacles, repair, restore_overlay};
pub use stats::{FileStats, GroupStats};
pub use top::By;
pub use walk::{Skipped, Walked};

pub use frs_base::clock::now;
pub use frs_limit::{Hold, HoldState, SharedRecord};
pub use frs_store::Window;
