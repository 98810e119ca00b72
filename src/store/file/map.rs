//! A part of a file in memory, at an address where the kernel can use huge pages.
//!
//! Invariant: the addresses that a map has reserved are its own until it is dropped, and only the
//! file is ever mapped there. After `dont_fork`, a forked child has no part of the map.

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use frs_base::sys;
use memmap2::{Advice, MmapOptions, MmapRaw};
use nix::sys::mman::ProtFlags;

/// Bytes of a huge page where pages have 4 KiB. On machines with larger pages, [`Map::collapse`]
/// gets no huge pages.
const HUGE_BYTES: usize = 2 << 20;
/// The kernel refuses pages in use, also when another process asks for the same pages. Asking again
/// for pages that are already huge costs almost nothing.
const COLLAPSE_ATTEMPTS: u32 = 4;

/// The access that page tables are populated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageAccess {
    Read,
    Write,
}

/// A part of a file, shared with all processes that map it.
#[derive(Debug)]
pub(crate) struct Map {
    /// The reserved addresses.
    room: MmapRaw,
    /// Offset of the file's part in them.
    from: usize,
    bytes: usize,
}

impl Map {
    /// Maps `bytes` bytes of a file from an offset (a multiple of the page size) to an address that
    /// is a multiple of [`HUGE_BYTES`]. A huge page needs such an address in each process that is
    /// to use it. The room reserved before and after costs addresses but no memory.
    pub fn new(file: &File, offset: u64, bytes: usize, access: ProtFlags) -> io::Result<Map> {
        let room = bytes.checked_add(HUGE_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        // Map the file, read-only, although the rest of this map is never read. Anonymous memory
        // would count against limits (RLIMIT_DATA, overcommit).
        let room = MmapOptions::new().len(room).map_raw_read_only(file)?;
        let start = room.as_ptr().addr();
        // Less than HUGE_BYTES, so the file's part ends inside the room.
        let from = start.next_multiple_of(HUGE_BYTES) - start;
        let room = sys::map_into(room, from..from + bytes, file, offset, access)?;
        Ok(Map { room, from, bytes })
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        let start = self.room.as_mut_ptr().wrapping_byte_add(self.from);
        NonNull::new(start).expect("a map has a place")
    }

    /// Leaves the whole map out of forked children, so that it does not keep the file open there.
    pub(crate) fn dont_fork(&self) -> io::Result<()> {
        self.room.advise(Advice::DontFork)
    }

    /// Reads no page ahead: most of the file is holes, and each page read ahead would take memory.
    pub(crate) fn dont_read_ahead(&self) -> io::Result<()> {
        self.room.advise_range(Advice::Random, self.from, self.bytes)
    }

    /// Populates the page tables.
    pub(crate) fn populate(&self, access: PageAccess) -> io::Result<()> {
        let advice = match access {
            PageAccess::Read => Advice::PopulateRead,
            PageAccess::Write => Advice::PopulateWrite,
        };
        self.room.advise_range(advice, self.from, self.bytes)
    }

    /// How many whole huge pages fit into it.
    pub fn huge_pages(&self) -> usize {
        self.bytes / HUGE_BYTES
    }

    /// Asks the kernel (since Linux 6.1) to put `count` parts of [`HUGE_BYTES`], from number
    /// `first` on, into huge pages, for all processes that map the file at such an address. A
    /// process that uses such a part meanwhile waits for that part only. `WouldBlock` means that
    /// some pages stay small because they were in use at every attempt.
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

    /// Writes the dirty pages of `bytes` bytes from byte `from` on back and waits until that is
    /// done (msync).
    pub fn flush(&self, from: usize, bytes: usize) -> io::Result<()> {
        assert!(from + bytes <= self.bytes, "bytes {from}..+{bytes} of {}", self.bytes);
        self.room.flush_range(self.from + from, bytes)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
