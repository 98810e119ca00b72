//! A flush writes the groups on disk back, in parts.
//!
//! Invariant: a flush that ends without an error has written everything that was stored before it
//! began. A part is small, because a process that stores into a page that is being written back
//! waits for it.

use std::io;

use super::error::{Error, io_error};
use super::file_set::FileSet;
use super::handle::Handle;
use super::region::Region;

/// The least bytes of a part. Each part waits for the disk's own cache, too.
const PART_BYTES: usize = 1 << 20;
/// Larger groups have larger parts, so that all together have about this many.
const PARTS: usize = 256;

/// Writes a part of a file back: its first byte and the number of bytes.
type Write<'a> = &'a mut dyn FnMut(&Region, usize, usize) -> io::Result<()>;

/// A flush of the groups that a handle had mapped when it began.
#[derive(Debug)]
pub struct Flush {
    /// The ids of groups that are not written back yet, the next one last.
    groups: Vec<u64>,
    /// The next part, in the last one of them.
    file: usize,
    from: usize,
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
            from: 0,
            part_bytes,
            parts: sizes().map(|bytes| bytes.div_ceil(part_bytes)).sum(),
            error: None,
        }
    }

    /// How many parts it has in all.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Writes the next part back and waits for it (msync). None: there are more. A group that
    /// fails is left, and the others are tried.
    ///
    /// # Errors
    /// At the end, the first error of any part.
    pub fn step(&mut self, handle: &Handle) -> Option<Result<(), Error>> {
        self.step_by(handle, &mut |file, from, bytes| file.flush_part(from, bytes))
    }

    fn step_by(&mut self, handle: &Handle, write: Write<'_>) -> Option<Result<(), Error>> {
        if let Some(&id) = self.groups.last() {
            let is_over = self.write_part(handle, id, write).unwrap_or_else(|error| {
                self.error.get_or_insert(error);
                true
            });
            if is_over {
                (self.file, self.from) = (0, 0);
                self.groups.pop();
            }
        }
        self.groups.is_empty().then(|| self.error.take().map_or(Ok(()), Err))
    }

    /// Writes the next part of a group. Whether it was the last one.
    fn write_part(&mut self, handle: &Handle, id: u64, write: Write<'_>) -> Result<bool, Error> {
        let position = handle.groups().iter().position(|group| group.header().id == id);
        // No answer depends on a group that is no longer there.
        let Some(index) = position else { return Ok(true) };
        let group = &handle.groups()[index];
        let file = &group.files()[self.file];
        let bytes = self.part_bytes.min(file.bytes() - self.from);
        write(file, self.from, bytes).map_err(|error| {
            let is_next = handle.former_of(index).is_some();
            let set = if is_next { FileSet::Next } else { FileSet::Named };
            let path = set.path_of(handle.live_dir(), &group.header().name, self.file as u32);
            io_error(&path, "flush it")(error)
        })?;
        self.from += bytes;
        if self.from == file.bytes() {
            (self.file, self.from) = (self.file + 1, 0);
        }
        Ok(self.file == group.files().len())
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
