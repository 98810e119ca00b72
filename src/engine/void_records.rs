//! Clears the records of a biz that a reset has made void, in portions.
//!
//! Invariant: a key-node that another process holds is tried again until it is free. The caller
//! decides how long to wait.

use std::time::Instant;

use crate::edit_record::Clearing;
use crate::{ItemError, Service};
use frs_base::clock;

/// The progress of clearing the void records of a biz.
#[derive(Debug, Default)]
pub struct VoidRecords {
    clearing: Clearing,
    /// When a key-node was first found held, or its group not served. `None` if the last call made
    /// progress.
    held_since: Option<Instant>,
}

impl VoidRecords {
    /// Clears the next key-nodes. Returns the epoch under which all are cleared, or `None` if some
    /// are left.
    ///
    /// # Errors
    /// A key-node is held, or its group is not served. The next call tries again.
    pub fn clear_next(
        &mut self,
        service: &mut Service,
        biz: u32,
        key_nodes: u32,
    ) -> Result<Option<u64>, ItemError> {
        let begun = clock::instant();
        match service.clear_void(biz, &mut self.clearing, key_nodes, clock::now()) {
            Ok(is_done) => {
                self.held_since = None;
                if !is_done {
                    return Ok(None);
                }
                tracing::info!(biz, erased = self.clearing.erased, "erased void records");
                self.clearing = Clearing::default();
                Ok(service.epoch(biz))
            }
            Err(error) => {
                self.held_since.get_or_insert(begun);
                Err(error)
            }
        }
    }

    /// Since when no record can be cleared. `None` if the last call made progress.
    pub fn held_since(&self) -> Option<Instant> {
        self.held_since
    }
}
