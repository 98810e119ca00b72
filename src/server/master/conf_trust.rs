//! Refuses a configuration that root reads and that another user can write.
//!
//! Invariant: the writer of srv.xml decides which files root opens and which user it becomes. So
//! for a process of root, srv.xml, its directory and all directories above belong to root, and no
//! other user may write them. Other users may create files of their own in a directory above if its
//! sticky bit is set.

use std::io;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, Statvfs, statvfs};
use nix::unistd::Uid;

use crate::account::root_path::{path_entries, writable_by_others};

/// A file or directory that other users may write, and how.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: found {found}, expected a file or directory that only root may write, because root reads \
     srv.xml; map.xml may be in a directory of the server's user: <map file=\"…\"/>",
    path.display()
)]
pub struct Untrusted {
    path: PathBuf,
    found: String,
}

/// Checks srv.xml and its whole path: the directories and the links, with the paths of these links.
/// A missing file is left to its reader.
///
/// # Errors
/// The process is root's, and another user may write a part of the path.
pub fn look(conf_dir: &Path) -> Result<(), Untrusted> {
    if !Uid::effective().is_root() {
        return Ok(());
    }
    let file = conf_dir.join("srv.xml");
    // The sticky bit counts neither for srv.xml nor for its directory.
    let mut strict: Vec<PathBuf> = conf_dir.canonicalize().into_iter().collect();
    if let Ok(file) = file.canonicalize() {
        strict.extend(file.ancestors().take(2).map(Path::to_owned));
    }
    for path in path_entries(&file) {
        look_at(&path, !strict.contains(&path))?;
    }
    Ok(())
}

fn look_at(path: &Path, is_above: bool) -> Result<(), Untrusted> {
    let refused = |found| Err(Untrusted { path: path.to_owned(), found });
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return refused(error.to_string()),
    };
    // A link is in the file system of its directory.
    let place = if found.is_symlink() { path.parent().unwrap_or(path) } else { path };
    // As in the volumes of a pod's configuration.
    let is_read_only = |fs: Statvfs| fs.flags().contains(FsFlags::ST_RDONLY);
    if statvfs(place).is_ok_and(is_read_only) {
        return Ok(());
    }
    writable_by_others(&found, is_above).map_or(Ok(()), refused)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn a_directory_that_a_link_leads_through_is_looked_at() {
        if !frs_base::testing::is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let [real, users, link] = ["real", "users", "link"].map(|name| dir.path().join(name));
        for made in [&real, &users] {
            std::fs::create_dir(made).expect("made");
        }
        look(&real).expect("srv.xml is missing: its reader says so");
        look(&dir.path().join("none")).expect("missing, too");
        std::fs::write(real.join("srv.xml"), "<srv/>").expect("written");
        look(&real).expect("root's");
        symlink("../real", users.join("conf")).expect("linked");
        symlink("users/conf", &link).expect("linked");
        for path in [&link, &users.join("conf"), &users.join("../real")] {
            look(path).expect("root's");
            chown(&users, Some(12345), None).expect("given");
            let error = look(path).expect_err("another user's").to_string();
            assert!(error.contains("users: found one of the user 12345"), "{error}");
            chown(&users, Some(0), None).expect("given");
        }
        let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o1777);
        std::fs::set_permissions(&real, open).expect("set");
        look(&real).expect_err("others may make map.xml there");
        std::fs::remove_file(real.join("srv.xml")).expect("removed");
        look(&real).expect_err("nor srv.xml");
    }
}
