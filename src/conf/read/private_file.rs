//! Files that hold a secret: a token, a password, the secret of a cluster, the key of a
//! certificate.
//!
//! Invariant: nobody but root and the server can read the content of a file that is taken. The
//! file's descriptor is judged, not its path, so nobody swaps the file in between. Links are
//! followed, because Kubernetes mounts each secret as a link: what counts is the file.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use frs_base::sys::open_to_read;
use nix::unistd::{Uid, User, getegid, getgrouplist, getgroups};

/// The modes of a secret's file.
const MODES: [u32; 4] = [0o400, 0o440, 0o600, 0o640];
/// The bits of a mode that let a group in.
const GROUP: u32 = 0o070;

/// The users and groups of the server, whose files may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretReaders {
    users: Vec<u32>,
    groups: Vec<u32>,
}

impl SecretReaders {
    /// Those of this process, and of the user that a server started as root becomes. `user` is its
    /// name.
    pub fn of(user: Option<&str>) -> SecretReaders {
        let mut users = vec![0, Uid::effective().as_raw()];
        let mut groups = getgroups().unwrap_or_default();
        groups.push(getegid());
        let account = user.and_then(|name| User::from_name(name).ok().flatten());
        if let Some(account) = account {
            users.push(account.uid.as_raw());
            groups.push(account.gid);
            let name = std::ffi::CString::new(account.name).unwrap_or_default();
            groups.extend(getgrouplist(&name, account.gid).unwrap_or_default());
        }
        SecretReaders { users, groups: groups.into_iter().map(|group| group.as_raw()).collect() }
    }

    /// How others than these can read the file, or exchange its content.
    fn exposure(&self, file: &Metadata) -> Option<Exposure> {
        let (mode, owner, group) = (file.mode() & 0o7777, file.uid(), file.gid());
        if !MODES.contains(&mode) {
            Some(Exposure::Mode { mode })
        } else if !self.users.contains(&owner) {
            Some(Exposure::Owner { owner })
        } else if mode & GROUP != 0 && !self.groups.contains(&group) {
            Some(Exposure::Group { mode, group })
        } else {
            None
        }
    }
}

/// How others can read a secret's file, or exchange its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// By its mode.
    Mode {
        /// The mode.
        mode: u32,
    },
    /// It belongs to another user.
    Owner {
        /// The user.
        owner: u32,
    },
    /// Its mode lets in a group that is none of the server's.
    Group {
        /// The mode.
        mode: u32,
        /// The group.
        group: u32,
    },
}

impl Exposure {
    /// What was found.
    pub fn found(&self) -> String {
        match self {
            Exposure::Mode { mode } => format!("mode {mode:04o}"),
            Exposure::Owner { owner } => format!("the owner {owner}"),
            Exposure::Group { mode, group } => format!("mode {mode:04o} and the group {group}"),
        }
    }

    /// What was expected.
    pub fn expected(&self) -> &'static str {
        match self {
            Exposure::Mode { .. } => {
                "0400, 0440, 0600 or 0640, so that nobody but the server can read it"
            }
            Exposure::Owner { .. } => "root or the server's user",
            Exposure::Group { .. } => "a group of the server's user, or mode 0400 or 0600",
        }
    }
}

/// A secret's file cannot be read, or should not.
#[derive(Debug)]
pub(super) enum Unread {
    /// Reading failed.
    Io(io::Error),
    /// It is a directory, a pipe or the like.
    NoFile,
    /// Others can read it.
    Exposed(Exposure),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        Unread::Io(error)
    }
}

/// Reads at most `most` bytes of a secret's file.
pub(super) fn read(path: &Path, most: u64, readers: &SecretReaders) -> Result<Vec<u8>, Unread> {
    let file = open(path)?;
    match readers.exposure(&file.metadata()?) {
        Some(exposure) => Err(Unread::Exposed(exposure)),
        None => take(file, most),
    }
}

/// Reads at most `most` bytes of a file that is no secret.
pub(super) fn read_public(path: &Path, most: u64) -> Result<Vec<u8>, Unread> {
    take(open(path)?, most)
}

fn open(path: &Path) -> Result<File, Unread> {
    open_to_read(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Unread::NoFile,
        _ => Unread::Io(error),
    })
}

fn take(file: File, most: u64) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn readers() -> SecretReaders {
        SecretReaders::of(None)
    }

    /// A file with the content `secret`.
    fn secret() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "secret").unwrap();
        (dir, path)
    }

    fn exposure(path: &Path, readers: &SecretReaders) -> Option<Exposure> {
        match read(path, 100, readers) {
            Ok(bytes) => {
                assert_eq!(bytes, b"secret");
                None
            }
            Err(Unread::Exposed(exposure)) => Some(exposure),
            Err(other) => panic!("{other:?}"),
        }
    }

    // Shows: secret-files.
    #[test]
    fn a_file_that_nobody_else_can_read_is_taken_and_any_other_mode_refused() {
        let (_dir, path) = secret();
        // Root reads any file. For other users the owner must be able to.
        for mode in 0..0o10000 {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let expected = (!MODES.contains(&mode)).then_some(Exposure::Mode { mode });
            if mode & 0o400 != 0 {
                assert_eq!(exposure(&path, &readers()), expected, "{mode:04o}");
            }
        }
        let found = Exposure::Mode { mode: 0o644 };
        assert_eq!(found.found(), "mode 0644");
        for mode in MODES {
            assert!(found.expected().contains(&format!("{mode:04o}")), "{mode:04o}");
        }
    }

    // Shows: secret-files.
    #[test]
    fn owner_and_group_are_those_of_the_server() {
        let (_dir, path) = secret();
        let (owner, group) = (Uid::effective().as_raw(), getegid().as_raw());
        let all = readers();
        assert!(all.users.contains(&0) && all.users.contains(&owner));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert_eq!(exposure(&path, &all), None);
        let strangers = SecretReaders { users: vec![owner + 1], ..all.clone() };
        assert_eq!(exposure(&path, &strangers), Some(Exposure::Owner { owner }));
        let others = SecretReaders { groups: vec![group + 1], ..all };
        assert_eq!(exposure(&path, &others), Some(Exposure::Group { mode: 0o640, group }));
        // The group does not matter where it may not read.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(exposure(&path, &others), None);
    }

    // Shows: secret-files.
    #[test]
    fn the_user_that_root_becomes_may_own_it_and_its_groups_may_read_it() {
        let (_dir, path) = secret();
        let Some(user) = User::from_name("nobody").ok().flatten() else { return };
        if !frs_base::testing::is_root() {
            return;
        }
        let [owner, group] = [user.uid.as_raw(), user.gid.as_raw()];
        chown(&path, Some(owner), Some(group)).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o440)).unwrap();
        assert_eq!(exposure(&path, &readers()), Some(Exposure::Owner { owner }));
        let readers = SecretReaders::of(Some("nobody"));
        assert_eq!(exposure(&path, &readers), None);
        // As Kubernetes mounts a secret with fsGroup.
        chown(&path, Some(0), Some(group)).unwrap();
        assert_eq!(exposure(&path, &readers), None);
        chown(&path, Some(0), Some(54_321)).unwrap();
        let found = Some(Exposure::Group { mode: 0o440, group: 54_321 });
        assert_eq!(exposure(&path, &readers), found);
    }

    // Shows: secret-files.
    #[test]
    fn a_secret_of_a_pod_is_a_link_to_the_file() {
        let (dir, path) = secret();
        let volume = dir.path().join("volume");
        std::fs::create_dir_all(volume.join("..2026")).unwrap();
        std::fs::rename(&path, volume.join("..2026/token")).unwrap();
        symlink("..2026", volume.join("..data")).unwrap();
        symlink("..data/token", volume.join("token")).unwrap();
        let set = |mode| {
            let at = volume.join("..2026/token");
            std::fs::set_permissions(at, PermissionsExt::from_mode(mode)).unwrap();
            exposure(&volume.join("token"), &readers())
        };
        assert_eq!(set(0o440), None);
        assert_eq!(set(0o444), Some(Exposure::Mode { mode: 0o444 }));
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let (dir, path) = secret();
        assert!(matches!(read(dir.path(), 1, &readers()), Err(Unread::NoFile)));
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(matches!(read(&pipe, 1, &readers()), Err(Unread::NoFile)));
        let Err(Unread::Io(error)) = read(&dir.path().join("none"), 1, &readers()) else {
            panic!("read")
        };
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(read(&path, 3, &readers()).unwrap(), b"sec");
    }
}
