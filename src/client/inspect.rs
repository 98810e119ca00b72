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

#[doc(inline)]
pub use frs_engine::inspect::{
    By, Error, FileStats, GroupStats, LeaseRecord, Look, NodePlace, NodeRecord, Reader,
    RefusedNode, RefusedNodes, Skipped, Walked, Window, now,
};
