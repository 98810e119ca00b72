//! Opens files, allocates their blocks on the disk, and identifies their file system.
//!
//! Invariant: an open never waits for another process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;
use nix::sys::statfs::{EXT4_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, fstatfs, statfs};

/// Opens a file that must be regular, without waiting: a pipe in its place might have no other end.
pub fn open_regular(options: &std::fs::OpenOptions, path: &Path) -> io::Result<File> {
    open_of_kind(options, 0, path)
}

/// Like [`open_regular`], but no link leads to it.
pub fn open_unlinked(options: &std::fs::OpenOptions, path: &Path) -> io::Result<File> {
    open_of_kind(options, libc::O_NOFOLLOW, path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("found a link, expected a regular file"),
        _ => error,
    })
}

fn open_of_kind(options: &std::fs::OpenOptions, more: i32, path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    let flags = more | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = options.clone().custom_flags(flags).open(path)?;
    let found = match file.metadata()?.file_type() {
        kind if kind.is_file() => return Ok(file),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let words = format!("found {found}, expected a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, words))
}

/// Like [`open_regular`], for reading.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    open_regular(std::fs::OpenOptions::new().read(true), path)
}

/// Like [`open_unlinked`], in a directory that another user may write: no second name of a file
/// leads this process elsewhere either.
pub fn open_plain(options: &std::fs::OpenOptions, path: &Path) -> io::Result<File> {
    let file = open_unlinked(options, path)?;
    match is_plain(&file.metadata()?) {
        true => Ok(file),
        false => Err(io::Error::other("found a file with a second name, expected a plain file")),
    }
}

/// Whether this is a regular file without a second name. It may have been removed meanwhile.
pub fn is_plain(found: &std::fs::Metadata) -> bool {
    found.is_file() && std::os::unix::fs::MetadataExt::nlink(found) <= 1
}

/// Whether the file system of this path is in memory (tmpfs).
pub fn is_in_memory(path: &Path) -> io::Result<bool> {
    Ok(statfs(path)?.filesystem_type() == TMPFS_MAGIC)
}

/// Like `is_in_memory`, for an open file, which may have another name by now.
pub fn is_file_in_memory(file: &File) -> io::Result<bool> {
    Ok(fstatfs(file)?.filesystem_type() == TMPFS_MAGIC)
}

/// Whether a new file must be filled with zeros, because blocks that are only allocated are unsafe:
/// so on ext4. After an error, the pages in memory count their blocks as written. A later write
/// reaches the disk, but does not mark the blocks as written, so they are zeros after a loss of
/// power. An overlay may be above an ext4.
pub fn must_be_filled(file: &File) -> io::Result<bool> {
    Ok([EXT4_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC].contains(&fstatfs(file)?.filesystem_type()))
}

/// Allocates the blocks of a byte range, so that a full disk is an error now and not a SIGBUS
/// later. On a full disk, a range that already has its blocks is no error.
pub fn allocate(file: &File, start: u64, len: u64) -> io::Result<()> {
    let (from, bytes) = (start as libc::off_t, len as libc::off_t);
    match fallocate(file, FallocateFlags::empty(), from, bytes) {
        // XFS demands the same room again before it checks whether any block is missing.
        Err(Errno::ENOSPC | Errno::EDQUOT) if has_blocks(file, start, len).unwrap_or(false) => {
            Ok(())
        }
        result => result.map_err(io::Error::from),
    }
}

/// Extents requested from the kernel at once.
const EXTENTS: usize = 32;

/// `struct fiemap_extent` of linux/fiemap.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FileExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` of linux/fiemap.h, with room for extents.
#[repr(C)]
#[derive(Default)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FileExtent; EXTENTS],
}

/// `FS_IOC_FIEMAP` of linux/fs.h: `_IOWR('f', 11, struct fiemap)`. The size of that struct excludes
/// extents.
const FS_IOC_FIEMAP: u32 = 0xc020_660b;
const _: () = assert!(size_of::<Fiemap>() == 32 + 56 * EXTENTS);

/// Whether every byte of a range has a block on the disk, written or not. An error if the file
/// system cannot say.
fn has_blocks(file: &File, start: u64, len: u64) -> io::Result<bool> {
    let (mut at, end) = (start, start + len);
    while at < end {
        let mut map =
            Fiemap { start: at, length: end - at, count: EXTENTS as u32, ..Fiemap::default() };
        // SAFETY: the kernel reads the head of the struct. It writes the head and at most `count`
        // extents after it, for which there is room.
        let result =
            unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as libc::Ioctl, &raw mut map) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let before = at;
        for extent in &map.extents[..EXTENTS.min(map.mapped as usize)] {
            if extent.logical > at {
                return Ok(false);
            }
            at = at.max(extent.logical.saturating_add(extent.length));
        }
        if at == before {
            return Ok(false);
        }
    }
    Ok(true)
}
