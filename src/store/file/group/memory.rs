//! The pages of a group in memory: huge pages, and populated page tables.

use super::{Group, path_of};
use crate::error::{Error, io_error};
use crate::file::map::PageAccess;
use std::path::Path;

/// Huge pages of one request: 16 MiB. A request takes 10 to 90 ms, and four times as long where
/// other processes use the pages all the time.
const HUGE_AT_ONCE: usize = 8;

impl Group {
    /// Whether its files are in memory. Such files are not flushed.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// Asks for huge pages under the next part of its files, if they are in memory. On disk, each
    /// changed word would write 2 MiB back. False once it has asked for all parts. If the kernel
    /// refuses, the pages stay small; that is no error.
    pub fn ask_for_huge_pages(&mut self) -> bool {
        let in_file = self.files[0].huge_pages();
        let in_all = in_file * self.files.len();
        if !self.in_memory || self.huge_asked >= in_all {
            return false;
        }
        let (file, first) = (self.huge_asked / in_file, self.huge_asked % in_file);
        let count = HUGE_AT_ONCE.min(in_file - first);
        self.huge_asked += count;
        if let Err(error) = self.files[file].collapse(first, count) {
            let group = &self.header.name;
            tracing::debug!(group, file, first, %error, "the kernel made no huge pages");
            if error.kind() != std::io::ErrorKind::WouldBlock {
                // No free memory in such pieces, or an older kernel: it would refuse further
                // requests too.
                self.huge_asked = in_all;
            }
        }
        true
    }

    /// Populates its page tables.
    pub fn prefault(&self, live_dir: &Path) -> Result<(), Error> {
        let access = if self.in_memory { PageAccess::Write } else { PageAccess::Read };
        for (index, region) in self.files.iter().enumerate() {
            let path = path_of(live_dir, &self.header.name, index as u32);
            region.populate(access).map_err(io_error(&path, "prefault it"))?;
        }
        Ok(())
    }
}
