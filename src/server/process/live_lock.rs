//! One data directory for each directory of live files. LIVE/owner names the data directory that
//! the files in LIVE belong to, and the master of that directory holds a lock on LIVE/owner.
//!
//! Invariant: a server opens no file of LIVE unless LIVE/owner names its data directory. The name
//! decides even while no server runs, so live files keep their owner. The lock tells a running
//! server from one that has ended, and tells the directory of one machine from a directory with the
//! same name on another. It is a write lock on a file that only the server's user may open, so a
//! reader of the directory blocks no server.
//!
//! ```text
//! LIVE/owner   the path of the data directory
//!              its inode, and when it was made (ns), and its device
//! ```
//!
//! Two names mean the same directory if inode and birth are equal, and also path or device. A
//! directory may have moved, and the numbers of devices change when the machine restarts.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use frs_base::clock;
use frs_base::sys;
use frs_conf::Conf;
use frs_store::Runtime;

const NAME: &str = "owner";
/// The creator of the file writes the owner's name within this time.
const SIGNED: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// A bound on the length of the file, longer than any path.
const MAX_BYTES: u64 = 8192;

/// The lock on a directory of live files.
#[derive(Debug)]
pub struct LiveLock {
    file: File,
    /// False while processes of an earlier master of the same data directory still hold the lock.
    is_held: bool,
}

/// The reason why live files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LiveLockError {
    /// The files belong to another data directory.
    #[error(
        "{}: the live files here belong to the data directory {}{}, not to {}: give each data \
         directory a live= of its own; if {1} is gone or has become {3}, and no server runs there, \
         remove {4}",
        live.display(), owner.display(),
        if *.is_running { ", whose server is running" } else { "" },
        data.display(), path.display()
    )]
    Foreign {
        /// The directory of live files.
        live: PathBuf,
        /// The data directory that they belong to.
        owner: PathBuf,
        /// Whether the server of that data directory runs.
        is_running: bool,
        /// This server's data directory.
        data: PathBuf,
        /// The file that names the owner.
        path: PathBuf,
    },
    /// The directory is the data directory of another server.
    #[error(
        "{}: this is a data directory itself, and not that of this server, {}: name another one in \
         live=",
        live.display(), data.display()
    )]
    DataDirectory {
        /// The directory of live files.
        live: PathBuf,
        /// This server's data directory.
        data: PathBuf,
    },
    /// The file that names the owner has another content.
    #[error(
        "{}: found no name of a data directory: if no other server uses the directory, remove it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A data directory as LIVE/owner names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LiveOwner {
    path: PathBuf,
    inode: u64,
    /// The time of creation. 0 if the file system does not tell it.
    birth_ns: u64,
    device: u64,
}

impl LiveOwner {
    fn of(data_dir: &Path) -> io::Result<LiveOwner> {
        let path = fs::canonicalize(data_dir)?;
        let found = fs::metadata(&path)?;
        let birth = found.created().ok().and_then(|birth| birth.duration_since(UNIX_EPOCH).ok());
        let birth_ns = birth.map_or(0, |since| since.as_nanos() as u64);
        Ok(LiveOwner { path, inode: found.ino(), birth_ns, device: found.dev() })
    }

    fn is_same(&self, other: &LiveOwner) -> bool {
        self.inode == other.inode
            && self.birth_ns == other.birth_ns
            && (self.path == other.path || self.device == other.device)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let LiveOwner { path, inode, birth_ns, device } = self;
        let mut bytes = path.as_os_str().as_bytes().to_vec();
        bytes.extend(format!("\n{inode} {birth_ns} {device}\n").bytes());
        bytes
    }

    /// Returns `None` if the bytes name no directory. The path may contain line feeds.
    fn from_bytes(bytes: &[u8]) -> Option<LiveOwner> {
        let text = bytes.strip_suffix(b"\n")?;
        let end = text.iter().rposition(|&byte| byte == b'\n')?;
        let numbers = std::str::from_utf8(&text[end + 1..]).ok()?;
        let mut numbers = numbers.split(' ').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        let (inode, birth_ns, device) = (next()?, next()?, next()?);
        let path = PathBuf::from(OsString::from_vec(text[..end].to_vec()));
        Some(LiveOwner { path, inode, birth_ns, device })
    }
}

impl LiveLock {
    /// Takes the live files of a configuration for its data directory, whose lock the caller holds.
    /// Returns `None` if the live files are in the data directory itself.
    ///
    /// # Errors
    /// The files belong to another data directory, or their owner cannot be determined.
    pub fn take(conf: &Conf) -> Result<Option<LiveLock>, LiveLockError> {
        let data = &conf.srv.data.dir;
        let live = conf.srv.data.live.as_deref().unwrap_or(data);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| LiveLockError::Io { path, source }
        };
        let own = LiveOwner::of(data).map_err(failed(data))?;
        let is_own = LiveOwner::of(live).map_err(failed(live))?.is_same(&own);
        let path = live.join(NAME);
        if is_own && !path.exists() {
            return Ok(None);
        }
        if !is_own && Runtime::path_in(live).exists() {
            return Err(LiveLockError::DataDirectory { live: live.into(), data: own.path });
        }
        let file = open(&path).map_err(failed(&path))?;
        let begun = clock::instant();
        loop {
            let is_held = sys::try_lock_range(&file, 0, 1).map_err(failed(&path))?;
            let bytes = read(&file).map_err(failed(&path))?;
            match LiveOwner::from_bytes(&bytes) {
                Some(owner) if owner == own => {}
                Some(owner) if owner.is_same(&own) && is_held => {
                    write(&path, &file, &own).map_err(failed(&path))?;
                }
                Some(owner) => {
                    return Err(LiveLockError::Foreign {
                        live: live.into(),
                        owner: owner.path,
                        is_running: !is_held,
                        data: own.path,
                        path,
                    });
                }
                None if is_held && bytes.is_empty() => {
                    write(&path, &file, &own).map_err(failed(&path))?;
                }
                // Another server may be writing the file.
                None if !is_held && clock::since(begun) < SIGNED => {
                    std::thread::sleep(LOOK_AGAIN);
                    continue;
                }
                None => return Err(LiveLockError::Damaged { path }),
            }
            return Ok(Some(LiveLock { file, is_held }));
        }
    }

    /// The reason why the live files of a configuration cannot be taken, as far as a reader can
    /// see. Changes nothing and blocks no server.
    #[must_use]
    pub fn refusal(conf: &Conf) -> Option<LiveLockError> {
        let data = &conf.srv.data.dir;
        let live = conf.srv.data.live.as_deref().unwrap_or(data);
        let path = live.join(NAME);
        let own = LiveOwner::of(data).ok();
        let is_own = |other: &LiveOwner| own.as_ref().is_some_and(|own| other.is_same(own));
        if !LiveOwner::of(live).is_ok_and(|live| is_own(&live)) && Runtime::path_in(live).exists() {
            return Some(LiveLockError::DataDirectory { live: live.into(), data: data.clone() });
        }
        let file = sys::open_to_read(&path).ok()?;
        let bytes = read(&file).ok().filter(|bytes| !bytes.is_empty())?;
        let Some(owner) = LiveOwner::from_bytes(&bytes) else {
            return Some(LiveLockError::Damaged { path });
        };
        if is_own(&owner) {
            return None;
        }
        Some(LiveLockError::Foreign {
            live: live.into(),
            owner: owner.path,
            is_running: sys::is_range_locked(&file, 0, 1).unwrap_or(false),
            data: data.clone(),
            path,
        })
    }

    /// Takes the lock if [`LiveLock::take`] could not, because processes of an earlier master of
    /// the same data directory held it.
    ///
    /// # Errors
    /// The system call fails.
    pub fn hold(&mut self) -> io::Result<()> {
        if !self.is_held {
            self.is_held = sys::try_lock_range(&self.file, 0, 1)?;
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    sys::open_plain(&options, path)
}

fn read(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Seek::rewind(&mut &*file)?;
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn write(path: &Path, file: &File, owner: &LiveOwner) -> io::Result<()> {
    let bytes = owner.to_bytes();
    // The mode is set whoever created the file, because any reader could lock it.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    // The file is never empty in between, because an empty file counts as one without an owner.
    file.write_all_at(&bytes, 0)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()?;
    // The name of the file must survive a crash of the machine if its directory does.
    path.parent().map_or(Ok(()), |live| File::open(live)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration with these directories, which it creates.
    fn conf(dir: &Path, data: &str, live: Option<&str>) -> Conf {
        let live = live.map_or(String::new(), |live| {
            fs::create_dir_all(dir.join(live)).expect("made");
            format!(" live='{}'", dir.join(live).display())
        });
        fs::create_dir_all(dir.join(data)).expect("made");
        let srv = format!("<srv><data dir='{}'{live}/></srv>", dir.join(data).display());
        let map = "<map><group name='g' files='1' key-nodes='1' node-size='64'/></map>";
        Conf::parse("srv.xml", &srv, "map.xml", map).expect("sound")
    }

    fn refused(conf: &Conf) -> String {
        LiveLock::take(conf).expect_err("refused").to_string()
    }

    // Shows: live-files.
    #[test]
    fn live_files_are_those_of_one_data_directory_whether_its_server_runs_or_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = &fs::canonicalize(dir.path()).expect("there");
        let (one, two) = (conf(dir, "one", Some("live")), conf(dir, "two", Some("live")));
        let held = LiveLock::take(&one).expect("taken").expect("of another directory");
        let names = ["one", "two", "live", "live/owner"].map(|name| dir.join(name));
        let names_all =
            |words: &str| names.iter().all(|name| words.contains(&*name.to_string_lossy()));
        let words = refused(&two);
        assert!(names_all(&words) && words.contains("whose server is running"), "{words}");
        // The next master of the same data directory, while processes of the last one end.
        let mut next = LiveLock::take(&one).expect("taken").expect("of another directory");
        assert!(!next.is_held);
        drop(held);
        next.hold().expect("taken");
        assert!(next.is_held);
        drop(next);
        let words = refused(&two);
        assert!(names_all(&words) && !words.contains("is running"), "{words}");
        let seen = LiveLock::refusal(&two).map(|refusal| refusal.to_string());
        assert_eq!((seen, LiveLock::refusal(&one).is_some()), (Some(words), false));
        // The remedy that the message names.
        fs::remove_file(dir.join("live/owner")).expect("removed");
        assert!(LiveLock::take(&two).expect("taken").is_some());
        assert!(refused(&one).contains("two"));
    }

    // Shows: live-files.
    #[test]
    fn a_data_directory_that_moves_takes_its_live_files_along_and_its_copy_does_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = &fs::canonicalize(dir.path()).expect("there");
        drop(LiveLock::take(&conf(dir, "one", Some("live"))).expect("taken"));
        fs::rename(dir.join("one"), dir.join("moved")).expect("moved");
        drop(LiveLock::take(&conf(dir, "moved", Some("live"))).expect("taken"));
        let words = refused(&conf(dir, "one", Some("live")));
        assert!(words.contains("moved") && words.contains("live/owner"), "{words}");
    }

    // Shows: live-files.
    #[test]
    fn a_data_directory_is_nobody_elses_directory_of_live_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = conf(dir.path(), "one", None);
        assert!(LiveLock::take(&own).expect("taken").is_none());
        assert!(!dir.path().join("one/owner").exists(), "it needs no name");
        fs::write(dir.path().join("one/runtime.mmap"), "").expect("written");
        let words = refused(&conf(dir.path(), "two", Some("one")));
        assert!(words.contains("a data directory itself"), "{words}");
        // The same in the other order.
        fs::remove_file(dir.path().join("one/runtime.mmap")).expect("removed");
        let _two = LiveLock::take(&conf(dir.path(), "two", Some("one"))).expect("taken");
        assert!(refused(&own).contains("whose server is running"));
    }

    // Shows: live-files.
    #[test]
    fn what_is_no_name_is_named_and_what_is_empty_is_filled() {
        let dir = tempfile::tempdir().expect("a directory");
        let one = conf(dir.path(), "one", Some("live"));
        let path = dir.path().join("live/owner");
        for bytes in ["x", "/data\n1 2\n", "\n", "/data\n1 x 3\n"] {
            fs::write(&path, bytes).expect("written");
            let words = refused(&one);
            assert!(words.contains("live/owner") && words.contains("remove it"), "{words}");
        }
        // The creator of the file died before it wrote the name.
        fs::write(&path, "").expect("written");
        assert!(LiveLock::take(&one).expect("taken").is_some());
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
    }

    #[test]
    fn any_path_is_read_as_it_was_written() {
        for path in ["/data", "/with\nline feeds\n1 2 3", "/\u{e4} \u{1f980}"] {
            let owner = LiveOwner { path: path.into(), inode: 1, birth_ns: u64::MAX, device: 0 };
            assert_eq!(LiveOwner::from_bytes(&owner.to_bytes()), Some(owner));
        }
    }
}
