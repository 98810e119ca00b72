//! A part of a file in memory, at an address where the kernel can put huge pages under it.
//!
//! Invariant: the addresses that a map has reserved are its own until it is dropped, and nothing
//! but the file ever stands in them; no forked child has any of a map that is left out of it.

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use memmap2::{Advice, MmapOptions, MmapRaw};
use nix::sys::mman::ProtFlags;

use crate::base::sys;

/// A huge page where pages are 4 KiB. Others have larger ones, which [`Map::collapse`] does not
/// get.
const HUGE_BYTES: usize = 2 << 20;
/// Pages in use are refused, as they are while another process asks for the same; what is huge
/// already costs next to nothing.
const COLLAPSE_ATTEMPTS: u32 = 4;

/// What page tables are populated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageAccess {
    Read,
    Write,
}

/// A part of a file, shared with all who map it.
#[derive(Debug)]
pub(super) struct Map {
    /// The addresses that it stands in.
    room: MmapRaw,
    /// Where in them it begins.
    from: usize,
    bytes: usize,
}

impl Map {
    /// Maps `bytes` bytes of a file from an offset (a multiple of the page size) to an address that
    /// is a multiple of [`HUGE_BYTES`]: a huge page needs that, in each process that is to profit
    /// from it. What is reserved before and after costs addresses and no memory.
    pub fn new(file: &File, offset: u64, bytes: usize, access: ProtFlags) -> io::Result<Map> {
        let room = bytes.checked_add(HUGE_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        // Of the file and for reading, though nobody ever looks at what stays of it: memory of its
        // own would count against limits (RLIMIT_DATA, overcommit).
        let room = MmapOptions::new().len(room).map_raw_read_only(file)?;
        let start = room.as_ptr().addr();
        // Less than HUGE_BYTES after it, so the file's part ends inside.
        let from = start.next_multiple_of(HUGE_BYTES) - start;
        let room = sys::map_into(room, from..from + bytes, file, offset, access)?;
        Ok(Map { room, from, bytes })
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        let start = self.room.as_mut_ptr().wrapping_byte_add(self.from);
        NonNull::new(start).expect("a map has a place")
    }

    /// Leaves it out of forked children, and with it all that keeps the file open.
    pub fn dont_fork(&self) -> io::Result<()> {
        self.room.advise(Advice::DontFork)
    }

    /// Populates the page tables.
    pub fn populate(&self, access: PageAccess) -> io::Result<()> {
        let advice = match access {
            PageAccess::Read => Advice::PopulateRead,
            PageAccess::Write => Advice::PopulateWrite,
        };
        self.room.advise_range(advice, self.from, self.bytes)
    }

    /// How many whole huge pages there is room for.
    pub fn huge_pages(&self) -> usize {
        self.bytes / HUGE_BYTES
    }

    /// Has the kernel (Linux 6.1 on) gather what `count` huge pages from the one numbered `first`
    /// on hold in such, for all who map the file at such an address. Who uses one of them just then
    /// waits for that one; `WouldBlock` means that some stay small, being in use all the time.
    pub fn collapse(&self, first: usize, count: usize) -> io::Result<()> {
        assert!(first + count <= self.huge_pages(), "huge pages {first}..+{count}");
        for _ in 1..COLLAPSE_ATTEMPTS {
            match self.collapse_once(first, count) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
        self.collapse_once(first, count)
    }

    fn collapse_once(&self, first: usize, count: usize) -> io::Result<()> {
        let from = self.from + first * HUGE_BYTES;
        sys::collapse(&self.room, from..from + count * HUGE_BYTES)
    }

    /// Writes dirty pages back and waits for it (msync).
    pub fn flush(&self) -> io::Result<()> {
        self.room.flush_range(self.from, self.bytes)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
