//! Counting stores to shared memory, and dying at one of them: for the crash tests.

use std::sync::atomic::{AtomicU64, Ordering};

/// Stores left until death; 0: nobody dies.
static LEFT: AtomicU64 = AtomicU64::new(0);
/// Stores so far.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Called before each store to shared memory.
pub(crate) fn point() {
    SEEN.fetch_add(1, Ordering::Relaxed);
    if LEFT.load(Ordering::Relaxed) != 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        // The process is killed as from outside: nothing of it runs any more.
        let _ = nix::sys::signal::kill(nix::unistd::getpid(), nix::sys::signal::Signal::SIGKILL);
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

/// No more; how many stores there were.
pub(crate) fn disarm() -> u64 {
    LEFT.store(0, Ordering::Relaxed);
    SEEN.load(Ordering::Relaxed)
}
