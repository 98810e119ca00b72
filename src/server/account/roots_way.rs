//! What leads to a path, and whether only root decides where it leads.
//!
//! Invariant: where a way is root's alone, nobody else puts a link or another directory into it, so
//! root may act by the path for somebody else.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const FOREIGN_WRITES: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// As many as the kernel follows.
const LINKS_MAX: usize = 40;

/// What leads to a path, from the root on, and what it names: no link leads to these, though some
/// may be links. It ends before what does not exist.
pub fn way_to(path: &Path) -> Vec<PathBuf> {
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

/// How somebody else than root may change what is here; `is_above`: others may make files of their
/// own in it. None: nobody may.
pub fn foreign(found: &Metadata, is_above: bool) -> Option<String> {
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

/// Whether nobody else than root may change where a directory is, or may make one in its place
/// where it is missing.
pub fn is_roots_alone(directory: &Path) -> bool {
    // The parent of a name alone is empty.
    let is_named = directory != Path::new("");
    let way = way_to(if is_named { directory } else { Path::new(".") });
    let found = |path: &PathBuf| std::fs::symlink_metadata(path).ok();
    let is_roots = |(nth, path): (usize, &PathBuf)| {
        // What is missing would be made in the last one.
        let is_above = nth + 1 < way.len();
        found(path).is_some_and(|found| foreign(&found, is_above).is_none())
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
    fn a_way_with_a_directory_of_another_user_is_not_roots_alone() {
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
            assert_eq!(is_roots_alone(&path), expected, "{}", path.display());
        }
    }
}
