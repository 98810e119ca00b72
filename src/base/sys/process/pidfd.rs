//! Processes by descriptor. A descriptor never refers to a later process with the same id.
//!
//! Invariant: a signal that is sent here reaches the process that was opened, or none.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// Opens a process. The descriptor is readable once the process has ended, and an exec closes it.
pub fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers, and no address.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0u32) };
    let fd = Errno::result(opened)? as RawFd;
    // SAFETY: the kernel has just made this descriptor for this process, and no other code knows
    // it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends a signal to a process that [`pidfd_open`] has opened.
pub fn pidfd_send_signal(process: impl AsFd, signal: Signal) -> io::Result<()> {
    let fd = process.as_fd().as_raw_fd();
    let info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open, as it is borrowed. With a null info no memory is read.
    let sent = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, fd, signal as libc::c_int, info, 0u32)
    };
    Errno::result(sent).map(drop).map_err(io::Error::from)
}
