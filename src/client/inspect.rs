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

use std::ops::{Deref, DerefMut};
use std::path::Path;

#[doc(inline)]
pub use frs_engine::inspect::{
    By, Error, FileStats, GroupStats, Hold, HoldState, KeptRegister, Look, NodePlace, NodeRecord,
    RefusedNode, RefusedNodes, SharedRecord, Skipped, Walked, Window, now,
};

/// Looks into a data directory. It takes no semaphore, and writes nothing to the files.
///
/// Opening a reader maps all groups. A program that looks often keeps its reader and calls
/// [`refresh`](frs_engine::inspect::Reader::refresh).
#[derive(Debug)]
pub struct Reader(frs_engine::inspect::Reader);

impl Reader {
    /// Opens a data directory by the configuration in force there, or by the latest one if no
    /// server runs. Leaves out a group that cannot be opened.
    ///
    /// # Errors
    /// There is no configuration, or it cannot be read.
    pub fn open(data_dir: &Path) -> Result<Reader, Error> {
        frs_engine::inspect::Reader::open(data_dir, frs_cluster::PLUG).map(Reader)
    }
}

impl Deref for Reader {
    type Target = frs_engine::inspect::Reader;

    fn deref(&self) -> &frs_engine::inspect::Reader {
        &self.0
    }
}

impl DerefMut for Reader {
    fn deref_mut(&mut self) -> &mut frs_engine::inspect::Reader {
        &mut self.0
    }
}
