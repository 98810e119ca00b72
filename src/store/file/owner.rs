//! Checks the owner of a file, and its rights to read.
//!
//! Invariant: only users who may write a file of locks may read it. Otherwise a read lock of a mere
//! reader would keep writers away.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::unistd::Uid;

use crate::error::{Error, expect, io_error};

/// The rights of group and others to write.
const FOREIGN_WRITES: u32 = 0o022;

/// The mode without all rights of group or others, where these do not include writing.
pub(crate) fn writers_of(mode: u32) -> u32 {
    let readers = [0o070, 0o007].into_iter().filter(|rights| mode & rights & FOREIGN_WRITES == 0);
    readers.fold(mode, |mode, rights| mode & !rights)
}

/// Removes the right to read a file from users who may not write it. A process that does not own
/// the file leaves it unchanged: the owner removes the right at its next start.
pub(crate) fn close_to_readers(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    let (mode, own) = (found.mode() & 0o7777, Uid::effective());
    if writers_of(mode) == mode || found.uid() != own.as_raw() {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(writers_of(mode)))
}

/// Refuses a file of another user than root or this one: its owner may have put anything into it.
pub(crate) fn expect_own(path: &Path, file: &File) -> Result<(), Error> {
    let owner = file.metadata().map_err(io_error(path, "read its owner"))?.uid();
    let own = Uid::effective().as_raw();
    match owner == 0 || owner == own {
        true => Ok(()),
        false => expect(path, "owner", format!("user {owner}"), format!("root or user {own}")),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;

    use super::*;
    use crate::Runtime;

    // Shows: readers-stop-nothing.
    #[test]
    fn nothing_else_is_closed_to_readers_in_the_place_of_a_file_of_locks() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (Runtime::path_in(dir.path()), dir.path().join("other"));
        fs::write(&other, "of somebody else").unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let refused = Runtime::open(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("found a link"), "{refused}");
        fs::rename(&other, &path).unwrap();
        Runtime::open(dir.path()).unwrap_err();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o644);
    }

    // Shows: readers-stop-nothing.
    #[test]
    fn who_may_not_write_a_file_of_locks_may_not_read_it() {
        let modes = [0o600, 0o640, 0o644, 0o660, 0o664, 0o666];
        assert_eq!(modes.map(writers_of), [0o600, 0o600, 0o600, 0o660, 0o660, 0o666]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        for mode in modes {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            close_to_readers(&file).unwrap();
            let found = fs::metadata(&path).unwrap().mode() & 0o7777;
            assert_eq!(found, writers_of(mode));
        }
    }
}
