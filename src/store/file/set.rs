//! The names of a group's files, and of the files that a growing group moves to.
//!
//! Invariant: file 0 is renamed last. So while file 0 of the next files exists, the group is
//! moving, or the last step of its move must be repeated.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Path of a group file.
pub fn path_of(live_dir: &Path, name: &str, file: u32) -> PathBuf {
    live_dir.join(format!("{name}.{file}.mmap"))
}

/// Path of a file of the group that another one moves to.
pub fn next_path_of(live_dir: &Path, name: &str, file: u32) -> PathBuf {
    live_dir.join(format!("{name}.{file}.next.mmap"))
}

/// One of the two file sets that a moving group has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSet {
    /// The files with the plain names.
    Named,
    /// The files that a group moves to. At the end of a move they get the plain names one by one.
    Next,
}

impl FileSet {
    /// The present path of a file.
    pub(crate) fn path_of(self, live_dir: &Path, name: &str, file: u32) -> PathBuf {
        let named = path_of(live_dir, name, file);
        match self {
            FileSet::Named => named,
            FileSet::Next => {
                let next = next_path_of(live_dir, name, file);
                // File 0 is renamed last.
                if file == 0 || next.exists() { next } else { named }
            }
        }
    }
}

/// Whether a group is moving, or the last step of its move was interrupted: file 0 of the next
/// files exists.
pub fn is_next_there(live_dir: &Path, name: &str) -> bool {
    let found = std::fs::symlink_metadata(next_path_of(live_dir, name, 0));
    !matches!(found, Err(error) if error.kind() == ErrorKind::NotFound)
}

/// Where a migration puts file 0 once all drafts are complete: see `grow/staging.rs`.
pub(crate) fn committed_path(live_dir: &Path, name: &str) -> PathBuf {
    path_of(live_dir, name, 0).with_extension("mmap.migrated")
}

/// Whether a draft was committed but not all of its files have their names yet.
pub fn is_unfinished(live_dir: &Path, name: &str) -> bool {
    committed_path(live_dir, name).exists()
}

/// Whether the name of file 0 of a group is taken, by a file of any kind. If so, the group is not
/// created.
pub fn is_there(live_dir: &Path, name: &str) -> bool {
    let found = std::fs::symlink_metadata(path_of(live_dir, name, 0));
    !matches!(found, Err(error) if error.kind() == ErrorKind::NotFound)
}
