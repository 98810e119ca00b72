//! Writes the files of a group back to the disk. After an error, writes the whole file again.
//!
//! Invariant: the doubts about a file are cleared only after each of its pages was written again,
//! and no sync of the file reported an error meanwhile. The kernel reports an error once to each
//! open file description, whatever part of the file is synced, so any error casts doubt on the
//! whole file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::group::{FileSet, Group};
use super::layout::PAGE_WORDS;
use super::region::Region;
use crate::error::{Error, io_error};
use crate::watch::runtime::Runtime;

/// Bytes that one call reads or writes.
const COPY_BYTES: usize = 1 << 20;

/// Writes a part of a file back: its first byte and the number of bytes.
pub(crate) type SyncPart<'a> = &'a mut dyn FnMut(&Region, usize, usize) -> io::Result<()>;

/// A file of a group that is written back in parts.
#[derive(Debug, Default)]
pub(crate) struct WriteBack {
    /// The next byte.
    from: usize,
    /// Doubts about the file before the first part. If there are any, every page is written again.
    doubts: u64,
}

impl WriteBack {
    /// Writes the next part back, and waits for it. True if it was the last one.
    pub fn step(
        &mut self,
        group: &Group,
        file: u32,
        runtime: &Runtime,
        (most_bytes, sync): (usize, SyncPart<'_>),
    ) -> io::Result<bool> {
        let region = group.file(file);
        let (from, bytes) = (self.from, most_bytes.min(region.bytes() - self.from));
        let known = runtime.find_file(group.header().id, file).map(|known| known.index);
        if from == 0 {
            self.doubts = known.map_or(0, |index| runtime.doubts(index));
        }
        if self.doubts > 0 {
            group.touch_pages(file, from, bytes);
        }
        match known {
            Some(index) => runtime.sync_file(index, || sync(region, from, bytes))?,
            // The register forgets a group whose files are removed.
            None => sync(region, from, bytes)?,
        }
        self.from += bytes;
        let is_over = self.from == region.bytes();
        if let Some(index) = known.filter(|_| is_over && self.doubts > 0) {
            runtime.dispel(index, self.doubts);
        }
        Ok(is_over)
    }
}

impl Group {
    /// Writes all files back, and waits until that is done. A file in doubt is written as a whole.
    ///
    /// # Errors
    /// Stores since the last successful write-back may not be on disk.
    pub(crate) fn write_back(
        &self,
        live_dir: &Path,
        set: FileSet,
        runtime: &Runtime,
    ) -> Result<(), Error> {
        let mut sync = Region::flush_part;
        for file in 0..self.geometry().files {
            let whole = self.file(file).bytes();
            WriteBack::default().step(self, file, runtime, (whole, &mut sync)).map_err(
                |error| {
                    let path = set.path_of(live_dir, &self.header().name, file);
                    io_error(&path, "flush it")(error)
                },
            )?;
        }
        Ok(())
    }

    /// Makes the kernel consider pages dirty, while other processes store into them.
    pub(crate) fn touch_pages(&self, file: u32, from: usize, bytes: usize) {
        let region = self.file(file);
        for page in (from / 8..(from + bytes) / 8).step_by(PAGE_WORDS) {
            let behind = page.checked_sub(PAGE_WORDS);
            // The first word of a head is used by halves.
            let is_head = behind.is_some_and(|behind| behind % self.key_node_words() == 0);
            region.touch(page + usize::from(is_head));
        }
    }
}

/// Writes every byte of a file again, by file calls. No process may store into it.
pub(crate) fn write_again(file: &File, len: u64) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < len {
        let part = &mut buffer[..COPY_BYTES.min((len - at) as usize)];
        file.read_exact_at(part, at)?;
        file.write_all_at(part, at)?;
        at += part.len() as u64;
    }
    Ok(())
}

#[cfg(all(test, not(miri)))]
mod tests;
