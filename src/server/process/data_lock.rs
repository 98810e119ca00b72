//! One master for each data directory: the lock on data/lock, which also names the master.
//!
//! Invariant: the process that holds a [`DataLock`] is the only master of the directory. The lock
//! is a write lock on a file that only the server's user may open, so that no reader of the
//! directory keeps a server out. If data/lock is removed, a second lock, on runtime.mmap, still
//! shows that a master lives. The master then writes data/lock again. The kernel keeps these locks
//! as long as the open file description, so they end with the process in every case. No code
//! unlocks them, because a forked child shares the description and must only close it. A new binary
//! inherits the description over its exec, so that no other process can take the lock in between.
//!
//! A third lock belongs to the master's process alone, and lets the kernel name the master. The
//! text of a file can name any process, so root never signals a process for that text alone.
//!
//! Earlier versions also lock the directory, and hand over that lock.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use nix::unistd::Uid;

use crate::account::Account;
use frs_base::sys;
use frs_base::sys::process::{self, Pid};
use frs_store::{self as store, LINGERING, MasterLock, Runtime};

const NAME: &str = "lock";
/// How long to wait for a lock that the processes of a dead master hold. They end within five
/// seconds.
const ORPHANS: Duration = Duration::from_secs(6);
/// A master writes its id within this time after it took the lock, or after its file was removed.
const SIGNED: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// The byte of data/lock that keeps other masters out. Earlier versions lock it, too.
const LOCK_BYTE: u64 = 0;
/// Lock byte of the master. The kernel names the process that holds it.
const MASTER_BYTE: u64 = 1;
/// The mode of data/lock. Only its writers may open it, because any reader of a file could lock it.
const FILE_MODE: u32 = 0o600;
/// A bound on the length of the file's text.
const TEXT_BYTES: u64 = 32;

/// The held lock.
#[derive(Debug)]
pub struct DataLock {
    data_dir: PathBuf,
    /// data/lock, locked.
    file: File,
    /// The lock on runtime.mmap, once the file exists and the older master has released it.
    runtime: Option<MasterLock>,
    /// The lock of an earlier version, until data/lock is locked.
    directory: Option<File>,
}

/// The reason why the lock could not be taken or examined.
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
    /// The handed-over lock belongs to another directory, or is not held.
    #[error(
        "{}: the inherited lock is another directory's: a changed <data> needs a restart",
        path.display()
    )]
    Foreign {
        /// The lock file.
        path: PathBuf,
    },
    /// The lock on runtime.mmap could not be taken.
    #[error(transparent)]
    Runtime(#[from] store::Error),
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The error of a system call about the lock of this directory.
fn failed(data_dir: &Path) -> impl FnOnce(io::Error) -> LockError {
    let path = path_in(data_dir);
    move |source| LockError::Io { path, source }
}

fn named(pid: i32) -> String {
    if pid == 0 { String::new() } else { format!(" (process {pid})") }
}

impl DataLock {
    /// Takes the lock of a data directory and writes the id of this process into its file. A killed
    /// master and its children hold the lock until the kernel has ended them, and this call waits
    /// for that.
    ///
    /// # Errors
    /// Another master has the directory, or it cannot be locked.
    pub fn take(data_dir: &Path) -> Result<DataLock, LockError> {
        Self::take_within(data_dir, LINGERING, ORPHANS)
    }

    /// Waits for `living` while the master that the file names seems alive, else for `dead`.
    fn take_within(
        data_dir: &Path,
        living: Duration,
        dead: Duration,
    ) -> Result<DataLock, LockError> {
        let begun = frs_base::clock::instant();
        loop {
            if let Some(lock) = Self::try_take(data_dir).map_err(failed(data_dir))? {
                return Ok(lock);
            }
            let path = path_in(data_dir);
            let named = claimant(&path).or_else(|| read_pid(&path));
            let pid = named.or_else(|| proven_holder(data_dir));
            // A process with a pending SIGKILL seems alive until it receives the signal.
            let bound = if pid.is_none_or(process::is_ending) { dead } else { living };
            if frs_base::clock::since(begun) > bound {
                return Err(LockError::Held { pid: pid.map_or(0, Pid::as_raw), path });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn try_take(data_dir: &Path) -> io::Result<Option<DataLock>> {
        let path = path_in(data_dir);
        let file = open_file(&path)?;
        // A file that was removed or replaced meanwhile keeps no other master out.
        let is_taken = sys::try_lock_range(&file, LOCK_BYTE, 1)? && is_at(&file, &path)?;
        if !is_taken || MasterLock::is_held(data_dir)? {
            return Ok(None);
        }
        let data_dir = data_dir.to_owned();
        let mut lock = DataLock { data_dir, file, runtime: None, directory: None };
        lock.sign(Pid::this())?;
        Ok(Some(lock))
    }

    /// Takes the lock on runtime.mmap as well, once the file exists. From then on, removing
    /// data/lock lets no second master in.
    ///
    /// # Errors
    /// Another master has it, or it cannot be locked.
    pub fn hold_runtime(&mut self) -> Result<(), LockError> {
        let begun = frs_base::clock::instant();
        // The start may have created the file anew.
        self.runtime = None;
        loop {
            self.runtime = MasterLock::try_take(&self.data_dir)?;
            if self.runtime.is_some() {
                return Ok(());
            }
            if frs_base::clock::since(begun) > ORPHANS {
                let pid = proven_holder(&self.data_dir).filter(|pid| *pid != Pid::this());
                let path = Runtime::path_in(&self.data_dir);
                return Err(LockError::Held { pid: pid.map_or(0, Pid::as_raw), path });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Takes over the lock of a data directory from the master that holds it. Both share the lock
    /// until that master closes its copy. The file names that master until the new one
    /// [signs](DataLock::sign) it.
    ///
    /// # Errors
    /// The handed-over lock belongs to another directory, or is not held.
    pub fn adopt(fd: OwnedFd, data_dir: &Path) -> Result<DataLock, LockError> {
        let adopted = Self::try_adopt(File::from(fd), data_dir).map_err(failed(data_dir))?;
        adopted.ok_or_else(|| LockError::Foreign { path: path_in(data_dir) })
    }

    fn try_adopt(handed: File, data_dir: &Path) -> io::Result<Option<DataLock>> {
        let path = path_in(data_dir);
        let data_dir = data_dir.to_owned();
        if handed.metadata()?.is_dir() {
            // The path may be a link.
            let there = or_none(std::fs::metadata(&data_dir))?;
            let ours = handed.metadata()?;
            if !there.is_some_and(|there| is_same(&ours, &there)) || !sys::try_flock(&handed)? {
                return Ok(None);
            }
            // The older master holds the lock on this file until it ends.
            let file = open_file(&path)?;
            return Ok(Some(DataLock { data_dir, file, runtime: None, directory: Some(handed) }));
        }
        // A lock through another description would conflict. A lock through the inherited one does
        // not.
        if !is_at(&handed, &path)? || !sys::try_lock_range(&handed, LOCK_BYTE, 1)? {
            return Ok(None);
        }
        Ok(Some(DataLock { data_dir, file: handed, runtime: None, directory: None }))
    }

    /// Writes a process id into the file without ever leaving it empty: that of this process, or of
    /// the master that takes over. If the file is missing or was replaced, creates it anew.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn sign(&mut self, master: Pid) -> io::Result<()> {
        let path = path_in(&self.data_dir);
        if !is_at(&self.file, &path)? {
            self.file = open_file(&path)?;
        }
        self.take_lock_byte()?;
        if master == Pid::this() {
            sys::claim_range(&self.file, MASTER_BYTE, 1)?;
        }
        let line = line_of(master);
        self.file.write_all_at(line.as_bytes(), 0)?;
        self.file.set_len(line.len() as u64)
    }

    /// Takes the lock that an older master may have held until now.
    fn take_lock_byte(&mut self) -> io::Result<()> {
        if sys::try_lock_range(&self.file, LOCK_BYTE, 1)? {
            self.directory = None;
        }
        Ok(())
    }

    /// Writes the id of this process into the file if the file does not name it. Returns whether it
    /// had to.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn keep_signed(&mut self) -> io::Result<bool> {
        let is_ours = is_at(&self.file, &path_in(&self.data_dir)).unwrap_or(false);
        // The file is read through this descriptor, because closing another one would release the
        // lock that names the process.
        let was_signed = is_ours && signed(&self.file) == Some(Pid::this());
        if was_signed {
            self.take_lock_byte()?;
            sys::claim_range(&self.file, MASTER_BYTE, 1)?;
        } else {
            self.sign(Pid::this())?;
        }
        // The lock on runtime.mmap is not taken earlier, because the start must examine the file
        // first. On a full disk, the start may have to create the file anew, and the old file keeps
        // its blocks while it is open.
        if self.runtime.is_none() {
            // The check of that file reports its faults.
            self.runtime = MasterLock::try_take(&self.data_dir).unwrap_or(None);
        }
        Ok(!was_signed)
    }

    /// The description that holds the lock.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_ref().unwrap_or(&self.file).as_fd()
    }

    /// Empties the file, because this master ends in order.
    ///
    /// # Errors
    /// The file cannot be emptied.
    pub fn give_back(self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

/// Gives data/lock to the account. Earlier versions created it as root. Gives away only a file that
/// can be such a lock.
///
/// # Errors
/// The file cannot be examined or given away.
pub fn give_file(data_dir: &Path, account: &Account) -> Result<(), LockError> {
    give(data_dir, account).map_err(failed(data_dir))
}

fn give(data_dir: &Path, account: &Account) -> io::Result<()> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    // A missing file or a link is refused when it is opened to be locked.
    let Ok(directory) = open(data_dir, flags | OFlag::O_DIRECTORY, Mode::empty()) else {
        return Ok(());
    };
    let directory = File::from(directory);
    // The account may make this path lead to another directory, but it owns only its own.
    if directory.metadata()?.uid() != account.uid() {
        return Ok(());
    }
    let Ok(file) = openat(&directory, NAME, flags, Mode::empty()) else { return Ok(()) };
    let file = File::from(file);
    let found = file.metadata()?;
    let is_roots = sys::is_plain(&found) && found.uid() == 0;
    let mut text = String::new();
    if !is_roots || file.try_clone()?.take(TEXT_BYTES).read_to_string(&mut text).is_err() {
        return Ok(());
    }
    if text.is_empty() || parse(&text).is_some() {
        fchown(&file, Some(account.uid()), Some(account.gid()))?;
    }
    Ok(())
}

/// Whether a master of any version holds the directory.
fn is_held(data_dir: &Path) -> io::Result<bool> {
    let is_locked = match open_to_read(&path_in(data_dir))? {
        Some(file) => sys::is_range_locked(&file, LOCK_BYTE, 1)?,
        None => false,
    };
    Ok(is_locked || MasterLock::is_held(data_dir)?)
}

/// Opens the file to lock and write it. Sets a mode that lets only writers open it.
fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
    let file = sys::open_plain(&options, path)?;
    if file.metadata()?.mode() & 0o7777 != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Opens the file for reading, without blocking on another kind of file in its place. Returns
/// `None` if the file is missing or a link, which could lead to a file that another program locks.
fn open_to_read(path: &Path) -> io::Result<Option<File>> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => return Ok(None),
        opened => or_none(opened)?,
    };
    let Some(file) = file else { return Ok(None) };
    Ok(sys::is_plain(&file.metadata()?).then_some(file))
}

/// Whether the file is the one at this path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = or_none(std::fs::symlink_metadata(path))?;
    let ours = file.metadata()?;
    Ok(there.is_some_and(|there| is_same(&ours, &there)))
}

/// `None` if nothing exists there.
fn or_none<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The master that holds the lock of a data directory, as named by the kernel.
///
/// # Errors
/// No master holds the lock, or the master cannot be found.
pub fn holder(data_dir: &Path) -> Result<Pid, LockError> {
    let found = look(data_dir).map_err(failed(data_dir))?;
    found.ok_or_else(|| LockError::Free { path: path_in(data_dir) })
}

fn look(data_dir: &Path) -> io::Result<Option<Pid>> {
    let begun = frs_base::clock::instant();
    while is_held(data_dir)? {
        if let Some(pid) = proven_holder(data_dir) {
            return Ok(Some(pid));
        }
        if frs_base::clock::since(begun) > SIGNED {
            let message = "the directory is locked, but no process can be named that locked it";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(None)
}

/// The process that holds the lock. The text of the file alone counts only if this process is not
/// root's: then it can signal only processes of its own user.
fn proven_holder(data_dir: &Path) -> Option<Pid> {
    let path = path_in(data_dir);
    if let Some(pid) = claimant(&path) {
        return Some(pid);
    }
    // The master is of an earlier version, or its file was removed.
    let locks = [(path.clone(), LOCK_BYTE), (Runtime::path_in(data_dir), MasterLock::BYTE)];
    let locks: Vec<LockPlace> = locks.iter().filter_map(LockPlace::of).collect();
    let named = read_pid(&path);
    let is_proven = |pid: &Pid| locks.iter().any(|lock| lock.is_held_by(pid.as_raw()));
    named
        .filter(is_proven)
        .or_else(|| owner(&locks))
        .or_else(|| named.filter(|_| !Uid::effective().is_root()))
}

/// The master that the kernel names by data/lock.
fn claimant(path: &Path) -> Option<Pid> {
    sys::range_claimant(&open_to_read(path).ok()??, MASTER_BYTE, 1).ok()?
}

/// The process that an open file names.
fn signed(file: &File) -> Option<Pid> {
    let mut bytes = [0; TEXT_BYTES as usize];
    let read = file.read_at(&mut bytes, 0).ok()?;
    parse(std::str::from_utf8(&bytes[..read]).ok()?)
}

/// The process that the file names.
fn read_pid(path: &Path) -> Option<Pid> {
    signed(&open_to_read(path).ok()??)
}

/// The holder of one of these locks. Searches the processes that this process may examine. Prefers
/// the master to its children.
fn owner(locks: &[LockPlace]) -> Option<Pid> {
    let numbers = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_holder = |pid: &i32| locks.iter().any(|lock| lock.is_held_by(*pid));
    let holders: Vec<i32> = pids.filter(is_holder).collect();
    let parent = |pid: &&i32| process::parent_of(Pid::from_raw(**pid)).map(Pid::as_raw);
    let first = holders.iter().find(|pid| parent(pid).is_none_or(|pid| !holders.contains(&pid)));
    first.copied().map(Pid::from_raw)
}

/// A byte of a file that a master locks.
struct LockPlace {
    file: Metadata,
    byte: u64,
}

impl LockPlace {
    fn of((path, byte): &(PathBuf, u64)) -> Option<LockPlace> {
        let file = std::fs::symlink_metadata(path).ok().filter(sys::is_plain)?;
        Some(LockPlace { file, byte: *byte })
    }

    /// Whether a descriptor of a process holds the lock.
    fn is_held_by(&self, pid: i32) -> bool {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        entries.flatten().any(|entry| {
            let is_it =
                std::fs::metadata(entry.path()).is_ok_and(|there| is_same(&there, &self.file));
            let number = entry.file_name();
            let info =
                || std::fs::read_to_string(Path::new(&format!("/proc/{pid}/fdinfo")).join(number));
            is_it && info().is_ok_and(|info| info.lines().any(|line| self.is_shown_by(line)))
        })
    }

    /// Whether a line of fdinfo shows this lock: `lock: 1: OFDLCK ADVISORY WRITE -1 PLACE 0 0`.
    fn is_shown_by(&self, line: &str) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["lock:", _, "OFDLCK", _, "WRITE", _, _, first, last] = words[..] else { return false };
        let first = first.parse().unwrap_or(u64::MAX);
        (first..=last.parse().unwrap_or(u64::MAX)).contains(&self.byte)
    }
}

fn line_of(pid: Pid) -> String {
    format!("{pid}\n")
}

fn parse(text: &str) -> Option<Pid> {
    text.strip_suffix('\n')?.parse().ok().filter(|&pid| pid > 0).map(Pid::from_raw)
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

#[cfg(test)]
mod tests;
