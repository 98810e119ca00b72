//! Errors of the store. Each error names the place, the found value and the expected one.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The action that failed.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A file's header or length is wrong.
    #[error("{}: {field}: found {found}, expected {expected}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// The field of its header, or its length.
        field: &'static str,
        /// The value in the file.
        found: String,
        /// The correct value.
        expected: String,
    },
    /// The geometry of existing files differs from the configuration's.
    #[error(
        "group {group}: {field}: the files have {found}, map.xml says {expected}; stop the server \
         and run: frs-inspect migrate DATA --conf DIR"
    )]
    Geometry {
        /// The group.
        group: String,
        /// The setting.
        field: &'static str,
        /// Its value in the files.
        found: String,
        /// Its value in map.xml.
        expected: String,
    },
    /// A migration was interrupted after the new files were written.
    #[error(
        "group {group}: its migration is not complete: stop the server and run again: frs-inspect \
         migrate DATA --conf DIR"
    )]
    Unfinished {
        /// The group.
        group: String,
    },
    /// The group moves to another geometry than map.xml's.
    #[error(
        "group {group}: it is moving to {field}=\"{moving}\", map.xml says {expected}: a second \
         change waits until it has moved; write the first one back"
    )]
    Moving {
        /// The group.
        group: String,
        /// The setting.
        field: &'static str,
        /// Its value in the files that it moves to.
        moving: String,
        /// Its value in map.xml.
        expected: String,
    },
    /// A file of a finished group is missing.
    #[error(
        "group {group}: file 0 is there, {} is missing: put it back, or remove the group's files",
        missing.display()
    )]
    Missing {
        /// The group.
        group: String,
        /// The missing file.
        missing: PathBuf,
    },
    /// Too many handles, or too many files.
    #[error("{}: all {limit} {what} are taken", path.display())]
    Exhausted {
        /// The file.
        path: PathBuf,
        /// The resource that is used up.
        what: &'static str,
        /// The available number.
        limit: usize,
    },
    /// As many programs are attached as `max-programs` allows.
    #[error(
        "{}: all {most} places for programs are taken: end one, or raise max-programs of <data> in \
         srv.xml",
        path.display()
    )]
    Programs {
        /// runtime.mmap.
        path: PathBuf,
        /// The number of places.
        most: u32,
    },
    /// runtime.mmap cannot be created again while processes are attached to it.
    #[error("{}: {reason}, and a process is still attached: stop it first", path.display())]
    Attached {
        /// runtime.mmap.
        path: PathBuf,
        /// The reason why it must be created again.
        reason: String,
    },
    /// A mapped file failed, or recovery could not open it.
    #[error("group {group} is quarantined: its files must be checked by a restart")]
    Quarantined {
        /// The group.
        group: String,
    },
    /// A page of a file cannot be read. That ended the process that scanned it.
    #[error(
        "group {group}: a part of a file cannot be read (the log line about SIGBUS names it): \
         check its disk"
    )]
    Unreadable {
        /// The group.
        group: String,
    },
    /// A file in doubt cannot be written again while a process may store into it.
    #[error(
        "{}: a part of it could not be written to the disk before, and it is not written again \
         while a process is attached",
        path.display()
    )]
    InDoubt {
        /// The file.
        path: PathBuf,
    },
    /// A process holds a key-node for so long that no checkpoint can be made.
    #[error(
        "group {group}: no checkpoint: key-node {key_node} of file {file} is held{} for a long time: \
         is that process stopped?",
        slot.map_or(String::new(), |slot| format!(" by the owner of slot {slot}"))
    )]
    Held {
        /// The group.
        group: String,
        /// The file.
        file: u32,
        /// The key-node.
        key_node: u32,
        /// The slot that its semaphore names.
        slot: Option<u32>,
    },
    /// A group has no complete checkpoint.
    #[error(
        "group {group}: no checkpoint of it is complete{}{}",
        if why.is_empty() { "" } else { ": " },
        why.join("; ")
    )]
    NoCheckpoint {
        /// The group.
        group: String,
        /// The damage of each checkpoint.
        why: Vec<String>,
    },
    /// A group has no live files, and none of its checkpoints is complete.
    #[error(
        "group {group}: its live files are not there, and no checkpoint is complete: {}; put a \
         checkpoint back, or start with --accept-loss, which begins with an empty group",
        why.join("; ")
    )]
    Lost {
        /// The group.
        group: String,
        /// The damage of each checkpoint.
        why: Vec<String>,
    },
    /// A group without live files has a complete checkpoint, but the other checkpoint, which may be
    /// newer, is damaged.
    #[error(
        "group {group}: its live files are not there, and a checkpoint is damaged that may be the \
         newest: {why}; put it back, or start with --accept-loss, which restores checkpoint {number}"
    )]
    NewestDamaged {
        /// The group.
        group: String,
        /// The damage of the other checkpoint.
        why: String,
        /// The number of the complete pass.
        number: u64,
    },
    /// The disk cannot read a checkpoint.
    #[error(
        "group {group}: {}: cannot read the checkpoint: {source}; check its disk, or start with \
         --accept-loss, which takes the checkpoint before, or begins with an empty group",
        path.display()
    )]
    UnreadableCheckpoint {
        /// The group.
        group: String,
        /// The file of the checkpoint.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// No server has published a configuration, or the last one has ended cleanly.
    #[error("{}: no configuration was published: is the server running?", path.display())]
    Unpublished {
        /// The data directory.
        path: PathBuf,
    },
    /// The published configuration cannot be used.
    #[error("{}: {message}", path.display())]
    Configuration {
        /// The data directory.
        path: PathBuf,
        /// The fault.
        message: String,
    },
    /// The process was forked after the handle was made.
    #[error("this handle was attached before a fork: attach again in the child")]
    Forked,
}

impl Error {
    /// Whether the same call may succeed later: this process or machine lacks something, and the
    /// files are not known to be wrong.
    pub(crate) fn is_transient(&self) -> bool {
        const LACKS: [Errno; 5] =
            [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::EINTR, Errno::EAGAIN];
        match self {
            Error::Io { source, .. } | Error::UnreadableCheckpoint { source, .. } => {
                source.raw_os_error().is_some_and(|code| LACKS.contains(&Errno::from_raw(code)))
            }
            Error::Exhausted { .. } | Error::Programs { .. } => true,
            _ => false,
        }
    }

    /// Whether this process lacks the permission. Another process may have it.
    pub(crate) fn is_denied(&self) -> bool {
        let Error::Io { source, .. } = self else { return false };
        source.kind() == io::ErrorKind::PermissionDenied
    }

    /// Whether the files of one group are wrong. That affects only this group. A geometry that
    /// differs from map.xml, or an interrupted migration, does not count: the operator who caused
    /// it must repair it.
    pub(crate) fn is_of_files(&self) -> bool {
        match self {
            Error::Io { .. } | Error::UnreadableCheckpoint { .. } => !self.is_transient(),
            Error::Mismatch { .. }
            | Error::Missing { .. }
            | Error::Quarantined { .. }
            | Error::Lost { .. }
            | Error::NewestDamaged { .. }
            | Error::Unreadable { .. } => true,
            _ => false,
        }
    }

    /// Whether the file failed at a page of its map.
    pub(crate) fn is_of_a_page(&self) -> bool {
        const FAILS: [Errno; 3] = [Errno::EFAULT, Errno::EIO, Errno::EHWPOISON];
        let Error::Io { source, .. } = self else { return false };
        source.raw_os_error().is_some_and(|code| FAILS.contains(&Errno::from_raw(code)))
    }

    /// Whether the disk is full, or the user's quota is used up.
    pub fn is_no_room(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        let Error::Io { source, .. } = self else { return false };
        matches!(source.kind(), StorageFull | QuotaExceeded)
    }
}

/// Wraps the error of a call on a path.
pub fn io_error(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { path, action, source }
}

/// Compares a field with its correct value.
pub(crate) fn expect<T: PartialEq + std::fmt::Display>(
    path: &Path,
    field: &'static str,
    found: T,
    expected: T,
) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Mismatch {
        path: path.to_path_buf(),
        field,
        found: found.to_string(),
        expected: expected.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: unopenable-group.
    #[test]
    fn what_this_process_lacks_is_transient_and_what_the_files_lack_costs_their_group() {
        let error = |code: Errno| {
            io_error(Path::new("g.0.mmap"), "open it")(io::Error::from_raw_os_error(code as i32))
        };
        for code in [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::EINTR, Errno::EAGAIN] {
            assert!(error(code).is_transient() && !error(code).is_of_files(), "{code}");
        }
        for code in [
            Errno::ENOENT,
            Errno::EIO,
            Errno::EISDIR,
            Errno::EACCES,
            Errno::EPERM,
            Errno::ELOOP,
            Errno::ENXIO,
            Errno::ENODEV,
            Errno::EROFS,
            Errno::EUCLEAN,
        ] {
            assert!(!error(code).is_transient() && error(code).is_of_files(), "{code}");
        }
        let all = Error::Exhausted { path: "r".into(), what: "slots", limit: 256 };
        assert!(all.is_transient() && !all.is_of_files());
        let unfinished = Error::Unfinished { group: "g".into() };
        assert!(!unfinished.is_transient() && !unfinished.is_of_files());
    }
}
