//! Doubts about group files: syncs that failed, and syncs whose caller did not live to see the end.
//!
//! Invariant: a file that has no doubt is on disk, but for pages that the kernel knows to be
//! changed. After a page could not be written, the kernel takes it for unchanged, and the next
//! sync skips it and succeeds. So a doubt goes only after every page was written again. Processes
//! sync a file at the same time, in any order: whoever finds another number than it left takes
//! nothing away, and the file is written again once more.

use frs_base::sync::{AtomicU64, Ordering};

use super::Runtime;
use crate::file::layout::runtime as at;

impl Runtime {
    fn doubts_word(&self, index: usize) -> &AtomicU64 {
        self.region.word(Self::entry(index) + at::FILE_DOUBTS)
    }

    /// How many doubts there are about a registered file.
    pub fn doubts(&self, index: usize) -> u64 {
        self.doubts_word(index).load(Ordering::Relaxed)
    }

    /// Doubts that a registered file is on disk.
    pub fn doubt(&self, index: usize) {
        self.doubts_word(index).fetch_add(1, Ordering::Relaxed);
    }

    /// Takes all doubts away, if there are as many as there were before every page was written
    /// again.
    pub(crate) fn dispel(&self, index: usize, doubts: u64) {
        self.replace_doubts(index, doubts, 0);
    }

    /// Another number than expected is left: it counts what this process knows nothing of.
    fn replace_doubts(&self, index: usize, expected: u64, doubts: u64) {
        let word = self.doubts_word(index);
        let _ = word.compare_exchange(expected, doubts, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// There is no doubt about a file that was just registered.
    pub(super) fn forget_doubts(&self, index: usize) {
        self.region.store(Self::entry(index) + at::FILE_DOUBTS, 0);
    }

    /// Runs a sync of a registered file. The doubt comes first: a process that is killed in the
    /// sync may be the only one that the kernel tells of an error. An error is one more doubt: the
    /// first one may be gone, or about to go, by what was written before the error.
    ///
    /// # Errors
    /// The sync fails. Doubts stay.
    pub fn sync_file<E>(
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
