//! Faults of the disk, for tests: at each call of a pass that writes or syncs.
//!
//! Invariant: outside of tests there are none, and a call costs nothing.

/// Called before each write and each sync.
#[cfg(not(test))]
#[inline(always)]
pub fn point(_: &std::path::Path) -> Result<(), crate::store::error::Error> {
    Ok(())
}

#[cfg(test)]
pub use played::{calls, fail_at, point};

#[cfg(test)]
mod played {
    use std::cell::Cell;
    use std::path::Path;

    use crate::store::error::{Error, io_error};

    thread_local! {
        static CALLS: Cell<u64> = const { Cell::new(0) };
        static FAIL_AT: Cell<u64> = const { Cell::new(0) };
    }

    /// From here on the `nth` call of this thread fails, and all behind it. 0: none.
    pub fn fail_at(nth: u64) {
        CALLS.set(0);
        FAIL_AT.set(nth);
    }

    /// Calls since [`fail_at`].
    pub fn calls() -> u64 {
        CALLS.get()
    }

    pub fn point(path: &Path) -> Result<(), Error> {
        CALLS.set(CALLS.get() + 1);
        if FAIL_AT.get() != 0 && CALLS.get() >= FAIL_AT.get() {
            let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(io_error(path, "write the checkpoint")(full));
        }
        Ok(())
    }
}
