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
