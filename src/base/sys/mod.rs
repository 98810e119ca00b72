//! Calls to the kernel and the processor, by subject: all that need unsafe code, and those that
//! several crates make in the same way.
//!
//! Invariant: only these files may contain unsafe code, and each block says why it is sound. The
//! functions they offer are safe to call.
#![allow(unsafe_code)]

mod crc;
mod fatal_signals;
mod file;
mod fork_count;
mod futex;
mod machine;
mod memory_map;
pub mod process;
mod range_lock;
mod set_once;
pub mod shared_bytes;
mod signal_chain;

pub use crc::crc32c_words;
pub use fatal_signals::{EXIT_SIGBUS, keep_terminal};
pub use fatal_signals::{Watch, watch, watch_reading};
pub use file::{
    allocate, is_file_in_memory, is_in_memory, is_plain, must_be_filled, open_plain, open_regular,
    open_to_read, open_unlinked,
};
pub use fork_count::{between_forks, count_forks, forks};
pub use futex::{futex_wait, futex_wake_all, futex_wake_one};
pub use machine::{boot_id, cpu_ms, random};
pub use memory_map::{collapse, map_into};
pub use range_lock::{claim_range, is_range_locked, range_claimant};
pub use range_lock::{try_flock, try_lock_range, unlock_range};
pub use set_once::SetOnce;
