//! The way to a path, and whether only root can change where it leads.
//!
//! Invariant: if a way is root's alone, no other user can put a link or another directory into it.
//! So root may use the path on behalf of another user.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const FOREIGN_WRITES: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// The most links that the kernel follows in a path.
const LINKS_MAX: usize = 40;

/// The directories and links on the way to a path, from the root on, and the file it leads to. Each
/// entry is a path without links before its last part. The list ends before the first entry that
/// does not exist.
pub fn path_entries(path: &Path) -> Vec<PathBuf> {
    let names = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut rest = std::path::absolute(path).map(|path| names(&path)).unwrap_or_default();
    let (mut way, mut at, mut links) = (Vec::new(), PathBuf::from("/"), 0);
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = if name == "." { at.clone() } else { at.join(name) };
        let Ok(found) = std::fs::symlink_metadata(&next) else { break };
        way.push(next.clone());
        if !found.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        match std::fs::read_link(&next) {
            Ok(target) if links <= LINKS_MAX => rest.extend(names(&target)),
            _ => break,
        }
    }
    way
}

/// The reason why a user other than root can change an entry. `None` if no other user can.
/// `is_above` marks a directory above the target, in which a sticky bit suffices: others can then
/// create only entries of their own.
pub fn writable_by_others(found: &Metadata, is_above: bool) -> Option<String> {
    let mode = found.mode();
    if found.uid() != 0 {
        Some(format!("one of the user {}", found.uid()))
    } else if !found.is_symlink() && mode & FOREIGN_WRITES != 0 && !(is_above && mode & STICKY != 0)
    {
        Some(format!("the mode {:04o}", mode & 0o7777))
    } else {
        None
    }
}

/// Whether only root can change where a directory leads, or create the directory if it is missing.
pub fn only_root_can_change(directory: &Path) -> bool {
    // The parent of a bare name is empty.
    let is_named = directory != Path::new("");
    let way = path_entries(if is_named { directory } else { Path::new(".") });
    let found = |path: &PathBuf| std::fs::symlink_metadata(path).ok();
    let is_roots = |(nth, path): (usize, &PathBuf)| {
        // A missing directory would be created in the last entry.
        let is_above = nth + 1 < way.len();
        found(path).is_some_and(|found| writable_by_others(&found, is_above).is_none())
    };
    !way.is_empty() && way.iter().enumerate().all(is_roots)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    // Shows: roots-way.
    #[test]
    fn another_user_can_change_a_path_through_a_directory_of_their_own() {
        if !frs_base::testing::is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let [roots, users, open] = ["roots", "users", "open"].map(|name| dir.path().join(name));
        [&roots, &users, &open].iter().for_each(|made| std::fs::create_dir(made).expect("made"));
        chown(&users, Some(12345), None).expect("given");
        std::fs::set_permissions(&open, Permissions::from_mode(0o1777)).expect("set");
        std::fs::create_dir(open.join("roots")).expect("made");
        symlink(&roots, users.join("link")).expect("linked");
        for (path, expected) in [
            (roots.clone(), true),
            (roots.join("none"), true),
            (roots.join("none/data"), true),
            (users.clone(), false),
            (users.join("none"), false),
            (users.join("link"), false),
            (users.join("link/data"), false),
            (open.clone(), false),
            (open.join("none"), false),
            (open.join("roots"), true),
        ] {
            assert_eq!(only_root_can_change(&path), expected, "{}", path.display());
        }
    }
}
