//! data/lock: one master a data directory.
//!
//! Invariant: who holds a [`DataLock`] is the only master of the directory. The kernel's lock lives
//! as long as the file's description, so it ends with the process however that ends; nothing is
//! ever unlocked by hand, for a forked child shares the description and must only close it. A newly
//! started binary gets the description over its exec, so that nobody can come between.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::store::LINGERING;
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
    /// What another master handed over is not this directory's lock, or is not held.
    #[error(
        "{}: the lock that was handed over is another one: <data> needs a restart",
        path.display()
    )]
    Foreign {
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
    /// Takes the lock of a data directory and writes this process's id into it. Children of a killed
    /// master share its lock until they have ended, too: that is waited for.
    pub fn take(data_dir: &Path) -> Result<DataLock, LockError> {
        let path = path_in(data_dir);
        let begun = crate::clock::instant();
        loop {
            let taken = Self::try_take(&path);
            if let Some(lock) =
                taken.map_err(|source| LockError::Io { path: path.clone(), source })?
            {
                return Ok(lock);
            }
            let pid = std::fs::read_to_string(&path).ok().and_then(|text| parse(&text));
            let is_there = |pid: Pid| Path::new("/proc").join(pid.to_string()).exists();
            if pid.is_some_and(is_there) || begun.elapsed() > LINGERING {
                return Err(LockError::Held { pid: pid.map_or(0, Pid::as_raw), path });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn try_take(path: &Path) -> io::Result<Option<DataLock>> {
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).mode(0o644).open(path)?;
        if !sys::try_lock_range(&file, 0, 1)? {
            return Ok(None);
        }
        let lock = DataLock { file };
        lock.sign(Pid::this())?;
        Ok(Some(lock))
    }

    /// Takes the lock of a data directory over from the master that holds it, which shares it until
    /// it closes its own copy. The file names that one until the new one is [signed](DataLock::sign) in.
    pub fn adopt(fd: OwnedFd, data_dir: &Path) -> Result<DataLock, LockError> {
        let path = path_in(data_dir);
        let file = File::from(fd);
        match is_lock_of(&file, &path) {
            Ok(true) => Ok(DataLock { file }),
            Ok(false) => Err(LockError::Foreign { path }),
            Err(source) => Err(LockError::Io { path, source }),
        }
    }

    /// Writes a process's id into the file, never leaving it empty: this one's, or that of who has
    /// the lock from now on.
    pub fn sign(&self, master: Pid) -> io::Result<()> {
        let line = format!("{master}\n");
        self.file.write_all_at(line.as_bytes(), 0)?;
        self.file.set_len(line.len() as u64)
    }

    /// The description that holds the lock.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Empties the file: this master ends in order.
    pub fn give_back(self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

fn is_lock_of(file: &File, path: &Path) -> io::Result<bool> {
    let there = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        there => there?,
    };
    let ours = file.metadata()?;
    let same = (ours.dev(), ours.ino()) == (there.dev(), there.ino());
    // Another description's lock would be in the way; the one that came along is not.
    Ok(same && sys::try_lock_range(file, 0, 1)?)
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
    fn what_a_killed_masters_children_hold_is_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = DataLock::take(dir.path()).expect("free");
        let mut ended = std::process::Command::new("true").spawn().expect("it runs");
        ended.wait().expect("ended");
        held.sign(Pid::from_raw(ended.id() as i32)).expect("signed");
        let child = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(held);
        });
        let taken = DataLock::take(dir.path()).expect("free in the end");
        child.join().expect("joined");
        taken.sign(Pid::from_raw(ended.id() as i32)).expect("signed");
        DataLock::take(dir.path()).expect_err("not waited for without end");
    }

    #[test]
    fn a_lock_handed_over_stays_held_by_who_has_a_copy() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = DataLock::take(dir.path()).expect("free");
        let copy = || first.as_fd().try_clone_to_owned().expect("a copy");
        let other = tempfile::tempdir().expect("a directory");
        let others = DataLock::take(other.path()).expect("free");
        let error = DataLock::adopt(copy(), other.path()).expect_err("another directory's");
        assert!(error.to_string().contains("<data>"), "{error}");
        let second = DataLock::adopt(copy(), dir.path()).expect("the same lock");
        drop(others);
        drop(first);
        DataLock::take(dir.path()).expect_err("held by the second");
        std::fs::write(dir.path().join("lock"), "1234567890\n").expect("written");
        second.sign(Pid::this()).expect("signed");
        assert_eq!(holder(dir.path()).expect("held"), Pid::this());
        second.give_back().expect("emptied");
        let file = File::open(dir.path().join("lock")).expect("there");
        drop(DataLock::take(dir.path()).expect("free"));
        let taken = DataLock::take(dir.path()).expect("free");
        DataLock::adopt(file.into(), dir.path()).expect_err("not the one that is held");
        drop(taken);
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
