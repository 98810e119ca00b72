//! Maps of files that memmap2 does not offer: at a chosen address, in huge pages.
//!
//! Invariant: a call touches no address outside the map that it was given.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;

use memmap2::MmapRaw;
use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap};

/// Maps a file, from an offset on, into a part of the addresses that a raw map has reserved; all of
/// them are given back with it.
///
/// # Errors
/// What the kernel has against it.
///
/// # Panics
/// If the part ends behind the room.
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
    // SAFETY: takes the place of addresses of the room alone, as was asserted; also with both ends
    // rounded up to pages, for it begins at one or is refused. The room is a raw map, handed over:
    // there is no reference to what stood there.
    let mapped = unsafe { mmap(address, len, access, flags, file, offset as libc::off_t) };
    match mapped {
        Ok(_) => Ok(room),
        // The access is looked at before anything is taken away.
        Err(Errno::EACCES) => Err(Errno::EACCES.into()),
        Err(error) => {
            // What fails later can leave a hole (Linux before 6.12), where another thread may have
            // mapped something by now: that is not given back.
            std::mem::forget(room);
            Err(error.into())
        }
    }
}

/// Has the kernel (Linux 6.1 on) gather a part of a map in huge pages, for all who map the file.
pub fn collapse(map: &MmapRaw, part: Range<usize>) -> io::Result<()> {
    assert!(part.start <= part.end && part.end <= map.len(), "{part:?} of {}", map.len());
    let start = map.as_mut_ptr().wrapping_byte_add(part.start);
    // SAFETY: inside the map, as was asserted; the advice leaves what stands there as it is.
    let done = unsafe { libc::madvise(start.cast(), part.len(), libc::MADV_COLLAPSE) };
    Errno::result(done).map(drop).map_err(io::Error::from)
}
