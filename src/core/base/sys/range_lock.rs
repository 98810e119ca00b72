//! Locks on byte ranges of a file, owned by the open file description.
//!
//! Invariant: no call waits for a lock.

use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

fn byte_range(kind: libc::c_int, start: u64, len: u64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start as libc::off_t,
        l_len: len as libc::off_t,
        l_pid: 0,
    }
}

/// Takes an open-file-description lock on a byte range without blocking. False if another
/// description holds part of it.
pub fn try_lock_range(file: &File, start: u64, len: u64) -> io::Result<bool> {
    let range = byte_range(libc::F_WRLCK, start, len);
    match fcntl(file, FcntlArg::F_OFD_SETLK(&range)) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Releases a lock of [`try_lock_range`].
pub fn unlock_range(file: &File, start: u64, len: u64) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&byte_range(libc::F_UNLCK, start, len)))?;
    Ok(())
}

/// Whether another description has locked part of the range.
pub fn is_range_locked(file: &File, start: u64, len: u64) -> io::Result<bool> {
    let mut range = byte_range(libc::F_WRLCK, start, len);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut range))?;
    Ok(libc::c_int::from(range.l_type) != libc::F_UNLCK)
}
