//! Counting stores to shared memory, and dying or being stopped at one of them: for the tests of
//! crashes and of stalled holders.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::getpid;

/// Stores left until death; 0: nobody dies.
static LEFT: AtomicU64 = AtomicU64::new(0);
/// At that store it is stopped, and goes on when it is continued.
static STOPS: AtomicBool = AtomicBool::new(false);
/// Stores so far.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Called before each store to shared memory.
pub(crate) fn point() {
    SEEN.fetch_add(1, Ordering::Relaxed);
    if LEFT.load(Ordering::Relaxed) != 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        if STOPS.load(Ordering::Relaxed) {
            // To this thread: it must not run on till another one has taken the signal.
            let _ = raise(Signal::SIGSTOP);
            return;
        }
        // The process is killed as from outside: nothing of it runs any more.
        let _ = kill(getpid(), Signal::SIGKILL);
        loop {
            std::thread::park();
        }
    }
}

/// From here on this process dies at its `stores`-th store; never, if that is 0.
pub(crate) fn arm(stores: u64) {
    SEEN.store(0, Ordering::Relaxed);
    LEFT.store(stores, Ordering::Relaxed);
}

/// As [`arm`], but it is stopped there instead.
pub(crate) fn arm_stop(stores: u64) {
    STOPS.store(true, Ordering::Relaxed);
    arm(stores);
}

/// No more; how many stores there were.
pub(crate) fn disarm() -> u64 {
    LEFT.store(0, Ordering::Relaxed);
    SEEN.load(Ordering::Relaxed)
}
