//! Locks the files of a configuration against reading in the middle of a change.
//!
//! A change is written before it is known whether the master accepts it, and undone if not. A new
//! binary reads the files to put them in force; in the middle of a change it would put a rejected
//! configuration in force. So it waits until no change is in progress, and while it reads, none
//! begins.
//!
//! Invariant: the guard ends with the process that holds it. On a file system without such locks
//! (as some network file systems are) there is no guard, and nothing waits.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use frs::base::clock;

const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The guard of a configuration's directory.
#[derive(Debug)]
pub struct Guard {
    _lock: Option<Flock<File>>,
}

impl Guard {
    /// For a change. `None` while another process reads or changes.
    pub fn to_change(conf_dir: &Path) -> io::Result<Option<Guard>> {
        take(conf_dir, FlockArg::LockExclusiveNonblock)
    }

    /// For reading. Waits at most `patience` for a change in progress.
    ///
    /// # Errors
    /// `TimedOut` if the change does not end, and those of the file system.
    pub fn to_read(conf_dir: &Path, patience: Duration) -> io::Result<Guard> {
        let until = clock::instant() + patience;
        loop {
            if let Some(guard) = take(conf_dir, FlockArg::LockSharedNonblock)? {
                return Ok(guard);
            }
            if clock::instant() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

fn take(conf_dir: &Path, how: FlockArg) -> io::Result<Option<Guard>> {
    match Flock::lock(File::open(conf_dir)?, how) {
        Ok(lock) => Ok(Some(Guard { _lock: Some(lock) })),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err(_) => Ok(Some(Guard { _lock: None })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changes_or_many_read() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let soon = Duration::from_millis(20);
        let change = Guard::to_change(dir).unwrap().expect("nobody reads");
        assert!(Guard::to_change(dir).unwrap().is_none());
        let error = Guard::to_read(dir, soon).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(change);
        let readers = [Guard::to_read(dir, soon).unwrap(), Guard::to_read(dir, soon).unwrap()];
        assert!(Guard::to_change(dir).unwrap().is_none());
        drop(readers);
        assert!(Guard::to_change(dir).unwrap().is_some());
        assert!(Guard::to_change(&dir.join("none")).is_err());
    }
}
