//! Who changes the files of a configuration, and who must not read them in the middle of that.
//!
//! A change is written before it is known whether it is taken, and put back if it is not. Whoever
//! reads the files to put them in force by himself, a new binary, would put what was refused in
//! force: he waits until no change is on its way, and while he reads none is begun.
//!
//! Invariant: the guard ends with the process that holds it. Where the file system has no such
//! locks (some that are mounted over a network) there is none, and nothing is held up.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use frs::base::clock;

const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Held over the directory of a configuration.
#[derive(Debug)]
pub struct Guard {
    _lock: Option<Flock<File>>,
}

impl Guard {
    /// For a change; none while somebody reads.
    pub fn to_change(conf_dir: &Path) -> io::Result<Option<Guard>> {
        take(conf_dir, FlockArg::LockExclusiveNonblock)
    }

    /// To read; waits so long for a change on its way.
    ///
    /// # Errors
    /// Of kind `TimedOut` where it does not end, and those of the file system.
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
