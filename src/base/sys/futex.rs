//! Sleeps on a word of shared memory, and wakes a process that sleeps there.
//!
//! Invariant: a wait ends early at any doubt. The caller checks the word again.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex;

/// Sleeps while the word is `seen`, at most `limit`. Any process can wake it. Returns early at any
/// doubt.
pub fn futex_wait(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit = futex::Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    // No PRIVATE flag: the word is shared between processes. After any error the caller checks the
    // word again.
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&limit));
}

/// Wakes one process that sleeps on the word.
pub fn futex_wake_one(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), 1);
}

/// Wakes all processes that sleep on the word.
pub fn futex_wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}
