//! The master's lock in runtime.mmap. It shows that a master lives although data/lock is gone.
//!
//! Invariant: the lock is on the file that its slots are attached to, so it is lost only together
//! with them.

use std::fs::File;
use std::io;
use std::path::Path;

use frs_base::sys;

use super::{Runtime, open_file_for_reading, try_lock_byte};
use crate::error::Error;
use crate::watch::backing::MASTER_BYTE;

/// The held lock. It ends when all copies of its description are closed.
#[derive(Debug)]
pub struct MasterLock {
    _file: File,
}

impl MasterLock {
    /// The byte that is locked.
    pub const BYTE: u64 = MASTER_BYTE;

    /// Takes the lock if no other master has it.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub fn try_take(data_dir: &Path) -> Result<Option<MasterLock>, Error> {
        let path = Runtime::path_in(data_dir);
        let locked = try_lock_byte(&path, MASTER_BYTE, "lock it for the master")?;
        Ok(locked.map(|file| MasterLock { _file: file }))
    }

    /// Whether a master has the lock. False if the file does not exist.
    ///
    /// # Errors
    /// The file cannot be opened, or its lock cannot be read.
    pub fn is_held(data_dir: &Path) -> io::Result<bool> {
        match open_file_for_reading(&Runtime::path_in(data_dir)) {
            Ok(file) => sys::is_range_locked(&file, MASTER_BYTE, 1),
            Err(Error::Io { source, .. }) if source.kind() != io::ErrorKind::NotFound => {
                Err(source)
            }
            Err(_) => Ok(false),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    // Shows: one-master.
    #[test]
    fn one_master_has_it_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(!MasterLock::is_held(dir.path()).expect("no file"));
        Runtime::create_or_open(dir.path()).expect("made");
        let lock = MasterLock::try_take(dir.path()).expect("asked").expect("free");
        assert!(MasterLock::is_held(dir.path()).expect("asked"));
        assert!(MasterLock::try_take(dir.path()).expect("asked").is_none());
        drop(lock);
        assert!(!MasterLock::is_held(dir.path()).expect("asked"));
    }
}
