//! Simulated disk faults and deaths for tests, at each step of a pass or a restore that changes a
//! file.
//!
//! Invariant: outside of tests there are no faults, and a call costs nothing.

/// Called before each write, sync, rename and removal.
#[cfg(not(any(test, feature = "crash-points")))]
#[inline(always)]
pub fn point(_: &std::path::Path) -> Result<(), crate::error::Error> {
    Ok(())
}

/// Called before each read of a restore.
#[cfg(not(any(test, feature = "crash-points")))]
#[inline(always)]
pub fn read(_: &std::path::Path) -> std::io::Result<()> {
    Ok(())
}

/// Called before a checkpoint file is opened.
#[cfg(not(any(test, feature = "crash-points")))]
#[inline(always)]
pub fn open(_: &std::path::Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(any(test, feature = "crash-points"))]
#[allow(unused_imports, reason = "the tests over real files are not run by Miri and loom")]
pub use played::{
    calls, die_at, fail_at, lack_descriptors, make_readable, make_unreadable, open, point, read,
};

#[cfg(any(test, feature = "crash-points"))]
#[allow(dead_code, reason = "the tests over real files are not run by Miri and loom")]
mod played {
    use std::cell::Cell;
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use nix::errno::Errno;
    use nix::sys::signal::{Signal, raise};

    use crate::crash;
    use crate::error::{Error, io_error};

    thread_local! {
        static CALLS: Cell<u64> = const { Cell::new(0) };
        static FAIL_AT: Cell<u64> = const { Cell::new(0) };
    }

    /// Calls left until this process dies; 0 if it does not die.
    static LEFT: AtomicU64 = AtomicU64::new(0);

    /// Files that cannot be read or opened, and the error. A restore reads with several threads.
    static UNREADABLE: Mutex<Vec<(PathBuf, Errno)>> = Mutex::new(Vec::new());

    /// Makes the `nth` call of this thread from here on fail, and all later calls. With 0 no call
    /// fails.
    pub fn fail_at(nth: u64) {
        CALLS.set(0);
        FAIL_AT.set(nth);
    }

    /// Calls since [`fail_at`].
    pub fn calls() -> u64 {
        CALLS.get()
    }

    /// Makes this process die at its `nth` call from here on. Unlike those of [`crash::arm`], the
    /// steps are those on files only.
    pub fn die_at(nth: u64) {
        LEFT.store(nth, Ordering::Relaxed);
    }

    /// Makes each read of this file by a restore fail.
    pub fn make_unreadable(path: &Path) {
        UNREADABLE.lock().unwrap().push((path.to_owned(), Errno::EIO));
    }

    /// Makes each attempt to open this file fail, as with too many open files.
    pub fn lack_descriptors(path: &Path) {
        UNREADABLE.lock().unwrap().push((path.to_owned(), Errno::EMFILE));
    }

    /// Lets the file be opened and read again.
    pub fn make_readable(path: &Path) {
        UNREADABLE.lock().unwrap().retain(|(bad, _)| bad != path);
    }

    pub fn read(path: &Path) -> io::Result<()> {
        fail(path, Errno::EIO)
    }

    pub fn open(path: &Path) -> io::Result<()> {
        fail(path, Errno::EMFILE)
    }

    fn fail(path: &Path, with: Errno) -> io::Result<()> {
        let is_bad =
            UNREADABLE.lock().unwrap().iter().any(|(bad, why)| bad == path && *why == with);
        if is_bad { Err(with.into()) } else { Ok(()) }
    }

    pub fn point(path: &Path) -> Result<(), Error> {
        // These steps also count for tests in which a process dies at any step.
        crash::point();
        if LEFT.load(Ordering::Relaxed) != 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
            let _ = raise(Signal::SIGKILL);
        }
        CALLS.set(CALLS.get() + 1);
        if FAIL_AT.get() != 0 && CALLS.get() >= FAIL_AT.get() {
            let full = io::Error::from(io::ErrorKind::StorageFull);
            return Err(io_error(path, "write the checkpoint")(full));
        }
        Ok(())
    }
}
