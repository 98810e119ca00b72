//! A flush writes the groups on disk back, in parts.
//!
//! Invariant: a flush that ends without an error has written back everything stored before it
//! began, and leaves none of its files in doubt. Parts are small, because a store into a page waits
//! while the page is being written back.

#[cfg(any(test, feature = "crash-points"))]
use std::io;
#[cfg(any(test, feature = "crash-points"))]
use std::path::Path;

use super::region::Region;
use super::set::FileSet;
use super::write_back::{SyncPart, WriteBack};
use crate::error::{Error, io_error};
use crate::handle::Handle;

/// Minimum size of a part in bytes. Each part also waits for the disk's own cache.
const PART_BYTES: usize = 1 << 20;
/// Larger groups get larger parts, so that a flush has about this many parts.
const PARTS: usize = 256;

/// A flush of the groups that a handle had mapped when it began.
#[derive(Debug)]
pub struct Flush {
    /// The ids of groups that are not written back yet, the next one last.
    groups: Vec<u64>,
    /// The file of the next part, in the last of these groups.
    file: u32,
    under_way: WriteBack,
    part_bytes: usize,
    parts: usize,
    /// The first error.
    error: Option<Error>,
}

impl Flush {
    /// A flush of all groups on disk that has written nothing yet.
    pub fn new(handle: &Handle) -> Flush {
        let on_disk = || handle.groups().iter().filter(|group| !group.is_in_memory());
        let sizes = || on_disk().flat_map(|group| group.files()).map(Region::bytes);
        let all: usize = sizes().sum();
        let part_bytes = (all / PARTS).next_multiple_of(PART_BYTES).max(PART_BYTES);
        Flush {
            groups: on_disk().map(|group| group.header().id).rev().collect(),
            file: 0,
            under_way: WriteBack::default(),
            part_bytes,
            parts: sizes().map(|bytes| bytes.div_ceil(part_bytes)).sum(),
            error: None,
        }
    }

    /// Like [`Flush::new`], of the groups that others grow out of.
    pub fn of_formers(handle: &Handle) -> Flush {
        let is_former = |id| handle.formers().any(|at| handle.groups()[at].header().id == id);
        let mut flush = Flush::new(handle);
        flush.groups.retain(|&id| is_former(id));
        flush
    }

    /// Makes the flush end with an error.
    #[cfg(any(test, feature = "crash-points"))]
    pub fn fail(&mut self) {
        self.error = Some(io_error(Path::new("disk"), "flush it")(io::ErrorKind::Other.into()));
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Writes the next part back and waits for it (msync). Returns None while parts remain. After a
    /// failed part the rest of its group is skipped, and the flush goes on with the next group. A
    /// failure is noted in runtime.mmap at once.
    ///
    /// # Errors
    /// At the end, the first error of any part.
    pub fn step(&mut self, handle: &Handle) -> Option<Result<(), Error>> {
        self.step_by(handle, &mut |file, from, bytes| file.flush_part(from, bytes))
    }

    pub fn step_by(&mut self, handle: &Handle, sync: SyncPart<'_>) -> Option<Result<(), Error>> {
        if let Some(&id) = self.groups.last() {
            let is_over = self.write_part(handle, id, sync).unwrap_or_else(|error| {
                handle.runtime().set_flush_failed(true);
                self.error.get_or_insert(error);
                true
            });
            if is_over {
                (self.file, self.under_way) = (0, WriteBack::default());
                self.groups.pop();
            }
        }
        self.groups.is_empty().then(|| self.error.take().map_or(Ok(()), Err))
    }

    /// Writes the next part of a group. Returns true if it was the last one.
    fn write_part(&mut self, handle: &Handle, id: u64, sync: SyncPart<'_>) -> Result<bool, Error> {
        let position = handle.groups().iter().position(|group| group.header().id == id);
        // No answer depends on a group that is no longer there.
        let Some(index) = position else { return Ok(true) };
        let (group, file) = (&handle.groups()[index], self.file);
        let part = (self.part_bytes, sync);
        let written = self.under_way.step(group, file, handle.runtime(), part);
        let is_over = written.map_err(|error| {
            let is_next = handle.former_of(index).is_some();
            let set = if is_next { FileSet::Next } else { FileSet::Named };
            let path = set.path_of(handle.live_dir(), &group.header().name, file);
            io_error(&path, "flush it")(error)
        })?;
        if is_over {
            (self.file, self.under_way) = (file + 1, WriteBack::default());
        }
        Ok(self.file == group.geometry().files)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
