//! Detects whether this process is a forked child of the one that made something.
//!
//! Invariant: the count changes in the child, before it runs anything else.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::libc;

static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Starts counting for [`forks`]. One call is enough.
pub fn count_forks() {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    });
}

/// The number of forks that led to this process. A child reads another number than its parent
/// stored before the fork.
#[inline]
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}
