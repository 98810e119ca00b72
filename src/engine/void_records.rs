//! The records of a biz that a reset has made void, cleared piece by piece.
//!
//! Invariant: a key-node that is held is tried again until it is not. How long to be patient is the
//! caller's.

use std::time::Instant;

use crate::edit_record::Clearing;
use crate::{ItemError, Service};
use frs_base::clock;

/// How far the void records of a biz are cleared.
#[derive(Debug, Default)]
pub struct VoidRecords {
    clearing: Clearing,
    /// Since when a key-node is held, or its group is not served.
    held_since: Option<Instant>,
}

impl VoidRecords {
    /// Clears the next key-nodes. Some: all are cleared, under this epoch.
    ///
    /// # Errors
    /// A key-node is held, or its group is not served. The next call tries it again.
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

    /// Since when nothing can be cleared. None: it goes on.
    pub fn held_since(&self) -> Option<Instant> {
        self.held_since
    }
}
