//! data/change: keeps the files of a configuration from being read in the middle of a change.
//!
//! A change is written before the master accepts or rejects it, and undone if rejected. A new
//! binary reads the files to put them in force. In the middle of a change it could put a rejected
//! configuration in force. So it waits until no change is in progress, and no change begins while
//! it reads.
//!
//! Invariant: the guard ends with the process that holds it. The guard is a write lock on a file
//! that only the server's user may open. A lock on the directory of the configuration would not do,
//! because any reader could hold it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use frs_base::{clock, sys};

const LOOK_AGAIN: Duration = Duration::from_millis(2);
const NAME: &str = "change";

/// The guard of the files of a configuration.
#[derive(Debug)]
pub struct ConfGuard {
    _locked: File,
}

impl ConfGuard {
    /// Guards a change. Returns `None` while another process reads or changes the files.
    ///
    /// # Errors
    /// The file cannot be made or locked.
    pub fn to_change(data_dir: &Path) -> io::Result<Option<ConfGuard>> {
        let file = open(data_dir)?;
        Ok(sys::try_lock_range(&file, 0, 1)?.then_some(ConfGuard { _locked: file }))
    }

    /// Guards a reading. Waits at most `patience` for a change in progress.
    ///
    /// # Errors
    /// `TimedOut` if the change does not end, and those of the file system.
    pub fn to_read(data_dir: &Path, patience: Duration) -> io::Result<ConfGuard> {
        let until = clock::instant() + patience;
        loop {
            if let Some(guard) = Self::to_change(data_dir)? {
                return Ok(guard);
            }
            if clock::instant() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Opens the file. The caller acts as the server's user, so that user owns a new file, and a link
/// leads nowhere.
fn open(data_dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    sys::open_plain(&options, &data_dir.join(NAME))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn one_changes_or_reads() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let soon = Duration::from_millis(20);
        let change = ConfGuard::to_change(dir).unwrap().expect("nobody reads");
        assert!(ConfGuard::to_change(dir).unwrap().is_none());
        let error = ConfGuard::to_read(dir, soon).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(change);
        let reader = ConfGuard::to_read(dir, soon).unwrap();
        assert!(ConfGuard::to_change(dir).unwrap().is_none());
        drop(reader);
        assert!(ConfGuard::to_change(dir).unwrap().is_some());
        assert!(ConfGuard::to_change(&dir.join("none")).is_err());
    }

    // Shows: readers-stop-nothing.
    #[test]
    fn a_readers_lock_on_the_directory_or_the_file_stops_no_change() {
        let dir = tempfile::tempdir().unwrap();
        let reader = File::open(dir.path()).unwrap();
        assert!(sys::try_flock(&reader).unwrap());
        assert!(ConfGuard::to_change(dir.path()).unwrap().is_some());
        let mode = std::fs::metadata(dir.path().join(NAME)).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600, "no reader opens it");
    }
}
