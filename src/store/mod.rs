//! The store: mmap file groups shared by processes, safe against kill -9.

use std::path::Path;

use crate::conf::Conf;

/// What went wrong in the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {}

/// What `prepare` found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Names of groups made anew.
    pub created: Vec<String>,
    /// Dead slots whose transactions were undone.
    pub recovered_slots: usize,
    /// Was every key-node scanned.
    pub scanned: bool,
    /// Nodes dropped, by that scan.
    pub dropped_nodes: u64,
}

/// Creates, opens and checks every group of `conf`, recovers dead slots, scans where undo logs are
/// not to be trusted. Maps groups: run by a forked child of the master, before any worker.
pub fn prepare(_conf: &Conf) -> Result<Prepared, Error> {
    todo!()
}

/// Creates missing groups of `conf` and checks the headers of the others, by file calls alone (no
/// mapping): what the master does before it publishes a new generation.
pub fn admit(_conf: &Conf) -> Result<(), Error> {
    todo!()
}

/// Flushes all files of `conf` and sets their clean marks, if no slot is attached; by file calls
/// alone. The master's last step.
pub fn close_clean(_conf: &Conf) -> Result<bool, Error> {
    todo!()
}

/// What a slot of runtime.mmap shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotStatus {
    /// 0..256.
    pub slot: u32,
    /// Process id of the owner.
    pub pid: u32,
    /// Generation of the configuration that it has acknowledged.
    pub generation: u64,
}

/// runtime.mmap, mapped: slots and the generation in force.
pub struct Runtime {}

impl Runtime {
    /// Creates it, or opens and checks it; the master's, once it holds the directory's lock.
    pub fn create_or_open(_data_dir: &Path) -> Result<Runtime, Error> {
        todo!()
    }

    /// Opens it read-only for a tool or `frs status`.
    pub fn open_for_reading(_data_dir: &Path) -> Result<Runtime, Error> {
        todo!()
    }

    /// The configuration's generation in force; 0 before the first.
    pub fn generation(&self) -> u64 {
        todo!()
    }

    /// Puts a generation in force (Release). `data/conf.active.G` must be complete.
    pub fn publish(&self, _generation: u64) {
        todo!()
    }

    /// Slots in use.
    pub fn slots(&self) -> Vec<SlotStatus> {
        todo!()
    }
}
