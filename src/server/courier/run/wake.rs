//! How threads of the courier wake its loop.
//!
//! Invariant: a call before a sleep ends that sleep at once. Calls are not counted.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// The loop's end.
#[derive(Debug)]
pub struct Waker {
    heard: UnixStream,
    calls: UnixStream,
}

/// A thread's end.
#[derive(Debug)]
pub struct Caller(UnixStream);

impl Waker {
    /// A new one.
    pub fn new() -> io::Result<Waker> {
        let (heard, calls) = UnixStream::pair()?;
        heard.set_nonblocking(true)?;
        calls.set_nonblocking(true)?;
        Ok(Waker { heard, calls })
    }

    /// An end for a thread.
    pub fn caller(&self) -> io::Result<Caller> {
        self.calls.try_clone().map(Caller)
    }

    /// Forgets the calls so far.
    pub fn drain(&self) {
        let mut calls = [0; 256];
        while matches!((&self.heard).read(&mut calls), Ok(count) if count == calls.len()) {}
    }
}

/// To be polled for reading.
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.heard.as_fd()
    }
}

impl Caller {
    /// Wakes the loop.
    pub fn call(&self) {
        // It fails only where so many calls wait that one more wakes nobody sooner.
        let _ = (&self.0).write(&[1]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use frs::base::sys::process::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn calls_wake_until_they_are_drained() {
        let waker = Waker::new().unwrap();
        let is_called = |waker: &Waker| {
            let mut fds = [PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, Some(Duration::ZERO)).unwrap() == 1
        };
        assert!(!is_called(&waker));
        let caller = waker.caller().unwrap();
        // More than a socket holds: none of them blocks.
        (0..100_000).for_each(|_| caller.call());
        assert!(is_called(&waker));
        waker.drain();
        assert!(!is_called(&waker));
    }
}
