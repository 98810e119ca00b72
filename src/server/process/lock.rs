//! One master for each data directory: the lock on the directory, and data/lock, which names the
//! master.
//!
//! Invariant: the process that holds a [`DataLock`] is the only master of the directory. The lock
//! is on the directory itself, which no process can unlink under it. data/lock is for people and
//! scripts, and is written again if it is missing. The kernel's lock lives as long as the open
//! directory's description, so it ends with the process in every case. It is never unlocked
//! explicitly, because a forked child shares the description and must only close it. A newly
//! started binary inherits the description over its exec, so that no other process can take the
//! lock in between.
//!
//! Earlier versions locked data/lock instead. It is locked too, so that neither version starts
//! beside the other. Such a version hands over data/lock.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};

use frs::base::sys;
use frs::base::sys::process::{self, Pid};
use frs::store::LINGERING;

/// How long to wait for a lock that a dead master's processes hold: they end within five seconds.
const ORPHANS: Duration = Duration::from_secs(6);
/// A master has written its id within this time after it took the lock, or after its file went
/// missing.
const SIGNED: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The held lock.
#[derive(Debug)]
pub struct DataLock {
    data_dir: PathBuf,
    /// The directory, locked.
    directory: File,
    /// data/lock, if it was opened.
    file: Option<File>,
}

/// Why the lock could not be taken or examined.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another master has the directory.
    #[error("{}: a server is running on this data directory{}", path.display(), named(*.pid))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The other master, or 0 if unknown.
        pid: i32,
    },
    /// No master has the directory.
    #[error("{}: no server is running on this data directory", path.display())]
    Free {
        /// The lock file.
        path: PathBuf,
    },
    /// The handed-over lock is not this directory's, or is not held.
    #[error(
        "{}: the inherited lock is another directory's: a changed <data> needs a restart",
        path.display()
    )]
    Foreign {
        /// The lock file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn named(pid: i32) -> String {
    if pid == 0 { String::new() } else { format!(" (process {pid})") }
}

impl DataLock {
    /// Takes the lock of a data directory and writes this process's id into its file. After a
    /// master was killed, it and its children hold the lock until the kernel has ended them; this
    /// call waits for that.
    ///
    /// # Errors
    /// Another master has the directory, or it cannot be locked.
    pub fn take(data_dir: &Path) -> Result<DataLock, LockError> {
        Self::take_within(data_dir, LINGERING, ORPHANS)
    }

    /// Waits for `living` while the master that the file names seems to live, else for `dead`.
    fn take_within(
        data_dir: &Path,
        living: Duration,
        dead: Duration,
    ) -> Result<DataLock, LockError> {
        let path = path_in(data_dir);
        let begun = frs::base::clock::instant();
        loop {
            let taken = Self::try_take(data_dir);
            if let Some(lock) =
                taken.map_err(|source| LockError::Io { path: path.clone(), source })?
            {
                return Ok(lock);
            }
            let pid = read_pid(&path).or_else(|| owner(data_dir));
            // A process with a pending SIGKILL looks alive until it receives the signal.
            let bound = if pid.is_none_or(process::is_ending) { dead } else { living };
            if frs::base::clock::since(begun) > bound {
                return Err(LockError::Held { pid: pid.map_or(0, Pid::as_raw), path });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn try_take(data_dir: &Path) -> io::Result<Option<DataLock>> {
        let directory = File::open(data_dir)?;
        if !try_lock(&directory)? {
            return Ok(None);
        }
        let file = open_file(&path_in(data_dir))?;
        if !sys::try_lock_range(&file, 0, 1)? {
            return Ok(None);
        }
        let mut lock = DataLock { data_dir: data_dir.to_owned(), directory, file: Some(file) };
        lock.sign(Pid::this())?;
        Ok(Some(lock))
    }

    /// Takes the lock of a data directory over from the master that holds it. Both share the lock
    /// until that master closes its copy. The file names that master until the new one has
    /// [signed](DataLock::sign) it.
    ///
    /// # Errors
    /// The handed-over lock is not this directory's, or is not held.
    pub fn adopt(fd: OwnedFd, data_dir: &Path) -> Result<DataLock, LockError> {
        let path = path_in(data_dir);
        match Self::try_adopt(File::from(fd), data_dir) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(LockError::Foreign { path }),
            Err(source) => Err(LockError::Io { path, source }),
        }
    }

    fn try_adopt(handed: File, data_dir: &Path) -> io::Result<Option<DataLock>> {
        let path = path_in(data_dir);
        let data_dir = data_dir.to_owned();
        if handed.metadata()?.is_dir() {
            // The path may be a link.
            let there = or_none(std::fs::metadata(&data_dir))?;
            let ours = handed.metadata()?;
            if !there.is_some_and(|there| is_same(&ours, &there)) || !try_lock(&handed)? {
                return Ok(None);
            }
            // Opened while this process has permission: later the file may belong to another user.
            let file = Some(open_file(&path)?);
            return Ok(Some(DataLock { data_dir, directory: handed, file }));
        }
        // A lock through another description would conflict. The inherited one does not.
        if !is_at(&handed, &path)? || !sys::try_lock_range(&handed, 0, 1)? {
            return Ok(None);
        }
        let directory = File::open(&data_dir)?;
        let begun = frs::base::clock::instant();
        // A process that checks the lock holds it for a moment.
        while !try_lock(&directory)? {
            if frs::base::clock::since(begun) > LINGERING {
                return Ok(None);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(Some(DataLock { data_dir, directory, file: Some(handed) }))
    }

    /// Writes a process's id into the file without ever leaving it empty: this process's, or that
    /// of the master that takes over. If the file is missing or is another one, makes a new one.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn sign(&mut self, master: Pid) -> io::Result<()> {
        let path = path_in(&self.data_dir);
        let file = match self.file.take() {
            Some(file) if is_at(&file, &path)? => file,
            _ => open_file(&path)?,
        };
        let file = self.file.insert(file);
        // Only for older versions, which hold no other lock. A process that still shares it may
        // have it.
        sys::try_lock_range(file, 0, 1)?;
        let line = line_of(master);
        file.write_all_at(line.as_bytes(), 0)?;
        file.set_len(line.len() as u64)
    }

    /// Writes this process's id into the file if it is not there. Returns whether it had to.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn keep_signed(&mut self) -> io::Result<bool> {
        let path = path_in(&self.data_dir);
        let is_ours = self.file.as_ref().is_some_and(|file| is_at(file, &path).unwrap_or(false));
        if is_ours && read_pid(&path) == Some(Pid::this()) {
            return Ok(false);
        }
        self.sign(Pid::this()).map(|()| true)
    }

    /// The description that holds the lock.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Empties the file, because this master ends in order.
    ///
    /// # Errors
    /// It cannot be emptied.
    pub fn give_back(self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.set_len(0))
    }
}

/// Locks an open directory. False if another description holds the lock.
fn try_lock(directory: &File) -> io::Result<bool> {
    match flock(directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the directory is locked, by any version. This tries a shared lock and drops it at once,
/// because no call can ask without taking one.
fn is_held(data_dir: &Path) -> io::Result<bool> {
    let not_found = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let directory = match File::open(data_dir) {
        Err(error) if not_found(&error) => return Ok(false),
        opened => opened?,
    };
    match flock(&directory, FlockOperation::NonBlockingLockShared) {
        Ok(()) => drop(directory),
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(true),
        Err(error) => return Err(error.into()),
    }
    match open_to_read(&path_in(data_dir)) {
        Err(error) if not_found(&error) => Ok(false),
        opened => sys::is_range_locked(&opened?, 0, 1),
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o644);
    // A process that may write the directory must not lead root elsewhere.
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)
}

/// Opens the file for reading, without blocking on anything that is in its place.
fn open_to_read(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)
}

/// Whether the file is the one at this path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = or_none(std::fs::symlink_metadata(path))?;
    let ours = file.metadata()?;
    Ok(there.is_some_and(|there| is_same(&ours, &there)))
}

/// `None`: nothing exists there.
fn or_none(found: io::Result<Metadata>) -> io::Result<Option<Metadata>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The master that holds the lock of a data directory.
///
/// # Errors
/// No master holds it, or its id cannot be found.
pub fn holder(data_dir: &Path) -> Result<Pid, LockError> {
    let path = path_in(data_dir);
    match look(data_dir) {
        Ok(Some(pid)) => Ok(pid),
        Ok(None) => Err(LockError::Free { path }),
        Err(source) => Err(LockError::Io { path, source }),
    }
}

fn look(data_dir: &Path) -> io::Result<Option<Pid>> {
    let begun = frs::base::clock::instant();
    while is_held(data_dir)? {
        if let Some(pid) = read_pid(&path_in(data_dir)).or_else(|| owner(data_dir)) {
            return Ok(Some(pid));
        }
        if frs::base::clock::since(begun) > SIGNED {
            let message = "the directory is locked, but no process can be named that locked it";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(None)
}

/// The process that the file names.
fn read_pid(path: &Path) -> Option<Pid> {
    let mut text = String::new();
    open_to_read(path).ok()?.take(32).read_to_string(&mut text).ok()?;
    parse(&text)
}

/// The holder of the lock, if the file does not name it. Searches the processes that this one may
/// examine. Of a master and its children, it is the master.
fn owner(data_dir: &Path) -> Option<Pid> {
    let directory = std::fs::metadata(data_dir).ok()?;
    let numbers = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let holders: Vec<i32> = pids.filter(|&pid| holds(pid, &directory)).collect();
    let parent = |pid: &&i32| process::parent_of(Pid::from_raw(**pid)).map(Pid::as_raw);
    let first = holders.iter().find(|pid| parent(pid).is_none_or(|pid| !holders.contains(&pid)));
    first.copied().map(Pid::from_raw)
}

/// Whether a process holds the lock of a directory, by one of its descriptors.
fn holds(pid: i32, directory: &Metadata) -> bool {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.flatten().any(|entry| {
        let there = std::fs::metadata(entry.path());
        let is_it = there.is_ok_and(|there| is_same(&there, directory));
        let number = entry.file_name();
        let info =
            || std::fs::read_to_string(Path::new(&format!("/proc/{pid}/fdinfo")).join(number));
        // "lock:\t1: FLOCK  ADVISORY  WRITE …": a lock of this very description.
        let is_lock = |line: &str| line.starts_with("lock:") && line.contains("FLOCK");
        is_it && info().is_ok_and(|info| info.lines().any(is_lock))
    })
}

fn line_of(pid: Pid) -> String {
    format!("{pid}\n")
}

fn parse(text: &str) -> Option<Pid> {
    text.strip_suffix('\n')?.parse().ok().filter(|&pid| pid > 0).map(Pid::from_raw)
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("lock")
}

#[cfg(test)]
mod tests;
