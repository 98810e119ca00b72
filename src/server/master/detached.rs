//! A detached process: it is left to the process that adopts orphans, but is still watched.
//!
//! Invariant: it is known by a pidfd that was opened while its id could not be reused. So requests
//! and signals sent here never reach another process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use frs_base::sys::process::{
    Channel, Delivery, Exit, Forked, Pid, PollFd, PollFlags, Signal, fork, pidfd_open,
    pidfd_send_signal, poll, signal, wait_for,
};

/// A process started by [`fork_away`]. Once it has ended, its id may belong to another process.
/// Requests and signals sent here still concern this process only.
pub(super) struct DetachedProcess {
    pid: Pid,
    handle: OwnedFd,
}

/// As [`fork`], but the new process is not a child of this one. Its parent is the process that
/// adopts orphans: init or the service manager, which learns how it ends. Returns `None` in the new
/// process.
pub(super) fn fork_away() -> io::Result<Option<DetachedProcess>> {
    let (ours, theirs) = Channel::pair()?;
    match fork()? {
        Forked::Child => match fork() {
            Ok(Forked::Child) => Ok(None),
            Ok(Forked::Parent(pid)) => {
                // Only this process can reap it, so the id cannot be reused yet.
                let told = pidfd_open(pid).and_then(|handle| {
                    theirs.send(pid.to_string().as_bytes(), &[handle.as_raw_fd()])
                });
                std::process::exit(told.map_or_else(|error| status(&error, Some(pid)), |_| 0));
            }
            Err(error) => std::process::exit(status(&error, None)),
        },
        Forked::Parent(between) => {
            drop(theirs);
            match (wait_for(between)?, ours.receive()?) {
                (Exit::Status(0), Delivery::Message(pid, handles)) => {
                    let pid = std::str::from_utf8(&pid).ok().and_then(|pid| pid.parse().ok());
                    let known = pid.zip(handles.into_iter().next());
                    let detached = known
                        .map(|(pid, handle)| DetachedProcess { pid: Pid::from_raw(pid), handle });
                    detached.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
                }
                (Exit::Status(errno), _) => Err(io::Error::from_raw_os_error(errno)),
                (exit, _) => Err(io::Error::other(exit.to_string())),
            }
        }
    }
}

/// The exit status by which a failed intermediate process reports the reason.
fn status(error: &io::Error, orphan: Option<Pid>) -> i32 {
    if let Some(pid) = orphan {
        let _ = signal(pid, Signal::SIGKILL);
    }
    error.raw_os_error().unwrap_or(nix::libc::EIO)
}

impl DetachedProcess {
    /// Its id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> io::Result<bool> {
        Ok(poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], Some(Duration::ZERO))? > 0)
    }

    /// Kills it with SIGKILL and waits for its end; false if it has not ended after `bound`.
    pub fn kill(&self, bound: Duration) -> io::Result<bool> {
        match pidfd_send_signal(&self.handle, Signal::SIGKILL) {
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => return Ok(true),
            sent => sent?,
        }
        Ok(poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], Some(bound))? > 0)
    }
}

/// Readable once the process has ended.
impl AsFd for DetachedProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}
