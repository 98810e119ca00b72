//! How threads of the courier wake its loop.
//!
//! Invariant: a call before a sleep ends that sleep at once. Calls are not counted. A call makes no
//! system call while the loop is awake, or if an earlier call is pending.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The loop is at work, and no thread has called since it last lay down.
const AWAKE: u8 = 0;
/// The loop sleeps, or is about to.
const ASLEEP: u8 = 1;
/// A thread has called.
const CALLED: u8 = 2;

/// The loop's end.
#[derive(Debug)]
pub struct Waker {
    receiver: UnixStream,
    /// The end for threads.
    pub caller: Arc<Caller>,
}

/// A thread's end.
#[derive(Debug)]
pub struct Caller {
    calls: UnixStream,
    state: AtomicU8,
}

impl Waker {
    /// A new pair of sockets, with the loop awake.
    pub fn new() -> io::Result<Waker> {
        let (receiver, calls) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        calls.set_nonblocking(true)?;
        Ok(Waker { receiver, caller: Arc::new(Caller { calls, state: AtomicU8::new(AWAKE) }) })
    }

    /// Notes that the loop is about to sleep. False if a thread has called since the loop last got
    /// up: then it must not sleep.
    pub fn lie_down(&self) -> bool {
        // AcqRel: partner of the swap in `call`. The next turn sees all stores before a call that
        // this sees.
        let (all, found) = (Ordering::AcqRel, Ordering::Acquire);
        self.caller.state.compare_exchange(AWAKE, ASLEEP, all, found).is_ok()
    }

    /// Notes that the loop is awake. It looks at everything in this turn.
    pub fn get_up(&self) {
        // AcqRel: partner of the swap in `call`, whose caller may have rung while the loop slept.
        self.caller.state.swap(AWAKE, Ordering::AcqRel);
    }

    /// Forgets the calls so far.
    pub fn drain(&self) {
        let mut calls = [0; 256];
        while matches!((&self.receiver).read(&mut calls), Ok(count) if count == calls.len()) {}
    }
}

/// The socket to poll for reading.
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

impl Caller {
    /// Wakes the loop.
    pub fn call(&self) {
        // AcqRel: partner of `lie_down` and `get_up`. The loop sees all stores before this call.
        if self.state.swap(CALLED, Ordering::AcqRel) == ASLEEP {
            // It fails only if so many calls are pending that another one would not wake the loop
            // sooner.
            let _ = (&self.calls).write(&[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use frs_base::sys::process::{PollFd, PollFlags, poll};

    use super::*;

    fn is_rung(waker: &Waker) -> bool {
        let mut fds = [PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, Some(Duration::ZERO)).unwrap() == 1
    }

    #[test]
    fn a_call_ends_a_sleep_and_is_rung_once() {
        let waker = Waker::new().unwrap();
        let caller = &waker.caller;
        assert!(waker.lie_down() && !is_rung(&waker));
        // More than a socket holds.
        (0..100_000).for_each(|_| caller.call());
        assert!(is_rung(&waker));
        let mut calls = [0; 256];
        waker.get_up();
        assert_eq!((&waker.receiver).read(&mut calls).unwrap(), 1);
        assert!(!is_rung(&waker) && waker.lie_down(), "the call was received");
    }

    #[test]
    fn a_call_while_the_loop_is_awake_lets_it_not_lie_down() {
        let waker = Waker::new().unwrap();
        let caller = &waker.caller;
        caller.call();
        assert!(!is_rung(&waker) && !waker.lie_down());
        waker.get_up();
        assert!(waker.lie_down());
    }

    #[test]
    fn no_call_is_lost_however_it_meets_the_sleep() {
        const CALLS: usize = 20_000;
        let waker = Waker::new().unwrap();
        let (caller, sent) = (Arc::clone(&waker.caller), Arc::new(AtomicUsize::new(0)));
        let received = Arc::new(AtomicUsize::new(0));
        let (sender, echo) = (Arc::clone(&sent), Arc::clone(&received));
        let thread = std::thread::spawn(move || {
            for nth in 1..=CALLS {
                sender.store(nth, Ordering::Relaxed);
                caller.call();
                // The next call follows when the loop has seen this one, at any moment of the loop.
                while echo.load(Ordering::Relaxed) < nth {
                    std::hint::spin_loop();
                }
            }
        });
        while received.load(Ordering::Relaxed) < CALLS {
            let is_quiet = waker.lie_down();
            if is_quiet {
                let mut fds = [PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
                let woken = poll(&mut fds, Some(Duration::from_secs(20))).unwrap();
                assert_eq!(woken, 1, "the loop received no call");
            }
            waker.get_up();
            waker.drain();
            received.store(sent.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        thread.join().unwrap();
    }
}
