//! File maps that memmap2 does not offer: at a chosen address, in huge pages.
//!
//! Invariant: a call touches no address outside the map passed to it.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;

use memmap2::MmapRaw;
use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap};

/// Maps a file, from an offset on, into a part of the addresses that a raw map has reserved.
/// Dropping the returned map frees all of them.
///
/// # Errors
/// If the kernel refuses.
///
/// # Panics
/// If the part ends beyond the room.
pub fn map_into(
    room: MmapRaw,
    part: Range<usize>,
    file: &File,
    offset: u64,
    access: ProtFlags,
) -> io::Result<MmapRaw> {
    assert!(part.start <= part.end && part.end <= room.len(), "{part:?} of {}", room.len());
    let address = NonZeroUsize::new(room.as_ptr().addr() + part.start);
    let len = NonZeroUsize::new(part.len()).ok_or(io::ErrorKind::InvalidInput)?;
    let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
    // SAFETY: replaces only addresses of the room, as asserted. That holds also with both ends
    // rounded up to pages, because the part begins at a page or is refused. The room is a raw map
    // passed by value, so there is no reference to its former contents.
    let mapped = unsafe { mmap(address, len, access, flags, file, offset as libc::off_t) };
    match mapped {
        Ok(_) => Ok(room),
        // The kernel checks the access before it unmaps anything.
        Err(Errno::EACCES) => Err(Errno::EACCES.into()),
        Err(error) => {
            // A later failure can leave a hole (Linux before 6.12). Another thread may have mapped
            // something there by now, so the room must not be unmapped.
            std::mem::forget(room);
            Err(error.into())
        }
    }
}

/// Asks the kernel (since Linux 6.1) to put a part of a map into huge pages, for all processes that
/// map the file.
pub fn collapse(map: &MmapRaw, part: Range<usize>) -> io::Result<()> {
    assert!(part.start <= part.end && part.end <= map.len(), "{part:?} of {}", map.len());
    let start = map.as_mut_ptr().wrapping_byte_add(part.start);
    // SAFETY: inside the map, as asserted. The advice leaves its contents unchanged.
    let done = unsafe { libc::madvise(start.cast(), part.len(), libc::MADV_COLLAPSE) };
    Errno::result(done).map(drop).map_err(io::Error::from)
}
