//! Write locks on byte ranges of a file, owned by the open file description, or by the process, and
//! the lock of flock(2) on the whole.
//!
//! Invariant: no call waits for a lock, and a read lock of another process shows no owner.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::unistd::Pid;

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
    is_taken(fcntl(file, FcntlArg::F_OFD_SETLK(&byte_range(libc::F_WRLCK, start, len))))
}

fn is_taken(answer: nix::Result<libc::c_int>) -> io::Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Takes the lock of flock(2) without blocking. False if another description holds it. The lock
/// ends with the last copy of the description: nix's `Flock` would release it when it drops one.
pub fn try_flock(file: &File) -> io::Result<bool> {
    // SAFETY: takes two numbers. The descriptor is open, as it is borrowed.
    let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    match Errno::result(locked) {
        Ok(_) => Ok(true),
        Err(Errno::EWOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Releases a lock of [`try_lock_range`].
pub fn unlock_range(file: &File, start: u64, len: u64) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&byte_range(libc::F_UNLCK, start, len)))?;
    Ok(())
}

/// Whether another description or process holds a write lock on part of the range. A read lock does
/// not count: any process that may read the file can take one.
pub fn is_range_locked(file: &File, start: u64, len: u64) -> io::Result<bool> {
    let mut range = byte_range(libc::F_RDLCK, start, len);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut range))?;
    Ok(libc::c_int::from(range.l_type) != libc::F_UNLCK)
}

/// Takes a lock that belongs to this process and to none of its forked children. False if another
/// one holds part of the range. The lock ends with the process, or when the process closes any
/// descriptor of the file.
pub fn claim_range(file: &File, start: u64, len: u64) -> io::Result<bool> {
    is_taken(fcntl(file, FcntlArg::F_SETLK(&byte_range(libc::F_WRLCK, start, len))))
}

/// The other process that holds a lock of [`claim_range`], as the kernel says. `None` if there is
/// none, or if it is of another process namespace.
pub fn range_claimant(file: &File, start: u64, len: u64) -> io::Result<Option<Pid>> {
    let mut range = byte_range(libc::F_RDLCK, start, len);
    fcntl(file, FcntlArg::F_GETLK(&mut range))?;
    let is_locked = libc::c_int::from(range.l_type) != libc::F_UNLCK;
    Ok((is_locked && range.l_pid > 0).then(|| Pid::from_raw(range.l_pid)))
}
