//! Descriptors: waiting for them, their limit, and those that come from another process.
//!
//! Invariant: a descriptor has one owner in this process.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::PollFd;

/// Waits until one of `fds` is ready or `timeout` is over. With None the wait has no limit. A
/// caught signal ends the wait early.
pub fn poll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    let timeout = timeout.map_or(-1, |timeout| {
        // Rounded up: the caller would repeat a wait that ends too early at full speed.
        timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32
    });
    let timeout = nix::poll::PollTimeout::try_from(timeout).map_err(io::Error::other)?;
    match nix::poll::poll(fds, timeout) {
        Ok(ready) => Ok(ready as usize),
        Err(nix::errno::Errno::EINTR) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

/// Raises the limit of open files to the hard limit. Returns that limit.
pub fn raise_file_limit() -> io::Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}

/// Removes a variable from the environment, so that no child inherits it.
pub fn take_variable(name: &str) -> io::Result<Option<OsString>> {
    let value = std::env::var_os(name);
    if value.is_some() {
        let threads = std::fs::read_dir("/proc/self/task")?.count();
        assert_eq!(threads, 1, "the environment is changed with {threads} threads");
        // SAFETY: this is the only thread (counted above), so no other one reads the environment
        // meanwhile.
        unsafe { std::env::remove_var(name) };
    }
    Ok(value)
}

/// Takes over descriptors that the starting process left open for this one: all at once, and only
/// once. From now on an exec closes them.
pub fn adopt(fds: &[RawFd]) -> io::Result<Vec<OwnedFd>> {
    static DONE: AtomicBool = AtomicBool::new(false);
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    if DONE.swap(true, Ordering::Relaxed) {
        return Err(wrong("descriptors are taken over once".to_owned()));
    }
    for (index, &fd) in fds.iter().enumerate() {
        if fd <= io::stderr().as_raw_fd() || fds[..index].contains(&fd) {
            return Err(wrong(format!("descriptor {fd} is not open, or named twice")));
        }
        // SAFETY: borrowed for this one call, which fails if the number is not open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
            .map_err(|error| wrong(format!("descriptor {fd}: {error}")))?;
    }
    // SAFETY: all are open (checked above), and each is named once. This is done only once, for
    // numbers that were open before this process opened anything. So nothing else here owns them.
    Ok(fds.iter().map(|&fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect())
}

/// Keeps a descriptor open across an exec.
pub fn pass_on(fd: BorrowedFd<'_>) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}
