//! Sleeps on a word of shared memory, and wakes a process that sleeps there.
//!
//! Invariant: a wait ends early at any doubt. The caller checks the word again.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use nix::libc;

/// Sleeps while the word is `seen`, at most `limit`. Any process can wake it. Returns early at any
/// doubt.
pub fn futex_wait(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    };
    let word = word.as_ptr();
    // No PRIVATE flag: the word is shared between processes. After any error the caller checks the
    // word again.
    // SAFETY: the caller's reference keeps the word mapped, and `limit` lives until the call
    // returns. The kernel only reads both, the word atomically.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, seen, &raw const limit) };
}

/// Wakes one process that sleeps on the word.
pub fn futex_wake_one(word: &AtomicU32) {
    wake(word, 1);
}

/// Wakes all processes that sleep on the word.
pub fn futex_wake_all(word: &AtomicU32) {
    wake(word, i32::MAX);
}

fn wake(word: &AtomicU32, sleepers: i32) {
    // SAFETY: the kernel uses only the word's address, and the caller's reference keeps it mapped.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, sleepers) };
}
