//! data/lock: one master a data directory.
//!
//! Invariant: who holds a [`DataLock`] is the only master of the directory. The kernel's lock lives
//! as long as the file's description, so it ends with the process however that ends; nothing is
//! ever unlocked by hand, for a forked child shares the description and must only close it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::sys;
use crate::sys::process::Pid;

/// The lock, held.
#[derive(Debug)]
pub struct DataLock {
    file: File,
}

/// Why the lock was not taken, or nothing could be learnt of it.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another master has the directory.
    #[error("{}: a server is running on this data directory (process {pid})", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The other master; 0 while it has not yet written that down.
        pid: i32,
    },
    /// No master has the directory.
    #[error("{}: no server is running on this data directory", path.display())]
    Free {
        /// The lock file.
        path: PathBuf,
    },
    /// A call to the kernel failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl DataLock {
    /// Takes the lock of a data directory and writes this process's id into it.
    pub fn take(data_dir: &Path) -> Result<DataLock, LockError> {
        let path = path_in(data_dir);
        Self::try_take(&path)
            .map_err(|source| LockError::Io { path: path.clone(), source })?
            .ok_or_else(|| {
                let pid = std::fs::read_to_string(&path).ok().and_then(|text| parse(&text));
                LockError::Held { pid: pid.map_or(0, Pid::as_raw), path }
            })
    }

    fn try_take(path: &Path) -> io::Result<Option<DataLock>> {
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).mode(0o644).open(path)?;
        if !sys::try_lock_range(&file, 0, 1)? {
            return Ok(None);
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Some(DataLock { file }))
    }

    /// Empties the file: this master ends in order.
    pub fn give_back(self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

/// The master that holds the lock of a data directory.
pub fn holder(data_dir: &Path) -> Result<Pid, LockError> {
    let path = path_in(data_dir);
    let found = look(&path).map_err(|source| LockError::Io { path: path.clone(), source })?;
    match found {
        Some(pid) => Ok(pid),
        None => Err(LockError::Free { path }),
    }
}

fn look(path: &Path) -> io::Result<Option<Pid>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A master that has just taken the lock writes its id at once: look again, not for ever.
    for _ in 0..1000 {
        if !sys::is_range_locked(&file, 0, 1)? {
            return Ok(None);
        }
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text)?;
        if let Some(pid) = parse(&text) {
            return Ok(Some(pid));
        }
        std::thread::yield_now();
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it is locked, but holds no process id"))
}

fn parse(text: &str) -> Option<Pid> {
    text.strip_suffix('\n')?.parse().ok().filter(|&pid| pid > 0).map(Pid::from_raw)
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_learns_the_firsts_pid() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(matches!(holder(dir.path()), Err(LockError::Free { .. })));
        let lock = DataLock::take(dir.path()).expect("free");
        let me = std::process::id() as i32;
        assert_eq!(holder(dir.path()).expect("held").as_raw(), me);
        match DataLock::take(dir.path()) {
            Err(LockError::Held { pid, .. }) => assert_eq!(pid, me),
            other => panic!("{other:?}"),
        }
        lock.give_back().expect("emptied");
        assert!(matches!(holder(dir.path()), Err(LockError::Free { .. })));
        DataLock::take(dir.path()).expect("free again");
    }

    #[test]
    fn what_a_dead_master_left_is_no_lock() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("lock"), "12345\n").expect("written");
        assert!(matches!(holder(dir.path()), Err(LockError::Free { .. })));
        DataLock::take(dir.path()).expect("free");
    }

    #[test]
    fn only_a_whole_line_is_an_id() {
        assert_eq!(parse("123\n"), Some(Pid::from_raw(123)));
        for text in ["", "12", "-1\n", "0\n", "x\n", "1\n2\n"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
