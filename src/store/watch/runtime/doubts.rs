//! Doubts about group files: syncs that failed, and syncs whose caller died before the end.
//!
//! Invariant: a file without doubts is on disk, except for pages that the kernel knows to be dirty.
//! After a failed write of a page the kernel considers the page clean, so the next sync skips it
//! and succeeds. So a doubt is cleared only after every page was written again. Several processes
//! may sync a file at the same time, in any order. A process that finds another number than it left
//! clears no doubt, and the file is written once more.

use frs_base::sync::{AtomicU64, Ordering};

use super::Runtime;
use crate::file::layout::runtime as at;

impl Runtime {
    fn doubts_word(&self, index: usize) -> &AtomicU64 {
        self.region.word(Self::entry(index) + at::FILE_DOUBTS)
    }

    /// The number of doubts about a registered file.
    pub fn doubts(&self, index: usize) -> u64 {
        self.doubts_word(index).load(Ordering::Relaxed)
    }

    /// Adds a doubt about a registered file.
    pub fn doubt(&self, index: usize) {
        self.doubts_word(index).fetch_add(1, Ordering::Relaxed);
    }

    /// Clears all doubts, if their number is the same as before every page was written again.
    pub(crate) fn dispel(&self, index: usize, doubts: u64) {
        self.replace_doubts(index, doubts, 0);
    }

    /// Replaces the number of doubts. Leaves any other number than the expected one, because it
    /// counts doubts of other processes.
    fn replace_doubts(&self, index: usize, expected: u64, doubts: u64) {
        let word = self.doubts_word(index);
        let _ = word.compare_exchange(expected, doubts, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Clears the doubts about a file that was just registered.
    pub(super) fn forget_doubts(&self, index: usize) {
        self.region.store(Self::entry(index) + at::FILE_DOUBTS, 0);
    }

    /// Runs a sync of a registered file. The doubt is added before the sync, because the kernel may
    /// report an error only to this process, which may be killed in the sync. An error adds a
    /// second doubt: another process may be clearing the first one, for pages that it wrote before
    /// the error.
    ///
    /// # Errors
    /// The sync fails. The doubts stay.
    pub(crate) fn sync_file<E>(
        &self,
        index: usize,
        sync: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.doubts_word(index).fetch_add(1, Ordering::Relaxed);
        sync().inspect_err(|_| self.doubt(index))?;
        self.replace_doubts(index, before + 1, before);
        Ok(())
    }
}
