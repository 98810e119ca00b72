//! Gives the files that programs need the mode and the group that srv.xml names.
//!
//! Invariant: only a plain file with a single name is changed, through a descriptor, and never the
//! target of a link. All changes are made as the server's user, so nothing changes that this user
//! could not change.

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use frs_conf::{Conf, FileAccess, active};
use nix::fcntl::OFlag;
use nix::unistd::Group;

use super::group;
use super::owner::writers_of;
use crate::checkpoint::dirty_file;
use crate::recover::prepare::live_dir;
use crate::watch::runtime::Runtime;

/// The server's history by second and minute. Its writer locks it.
const HISTORY: &str = "history.mmap";
/// The rights of group and others to write.
const FOREIGN_WRITES: u32 = 0o022;
/// The right of a directory's group to open files in it by name.
const GROUP_ENTERS: u32 = 0o010;
/// The same right of others.
const ALL_ENTER: u32 = 0o001;
const GROUP_RIGHTS: u32 = 0o070;
const ALL_RIGHTS: u32 = 0o007;

/// The first failure, and the number of all failures.
#[derive(Debug, thiserror::Error)]
#[error("{}: {action}: {source}{}", path.display(), others(*failures))]
struct Refusal {
    path: PathBuf,
    action: String,
    source: io::Error,
    failures: usize,
}

fn others(failures: usize) -> String {
    if failures > 1 { format!(", and so for {} more", failures - 1) } else { String::new() }
}

/// Mode and group as the kernel knows them.
#[derive(Clone, Copy)]
struct Wanted {
    mode: u32,
    gid: Option<u32>,
}

/// Gives runtime.mmap, the files of all groups, and their directories the mode and group of `conf`.
/// A failure is logged, and the server goes on: it does not need these rights itself.
pub fn give_access(conf: &Conf) {
    let (data, live) = (&conf.srv.data.dir, live_dir(conf));
    give_all(conf, |wanted| {
        let mut given = vec![(data.clone(), open_directory(data, wanted))];
        if live != data {
            given.push((live.to_owned(), open_directory(live, wanted)));
        }
        let files = conf.map.groups.iter().flat_map(|group| {
            let name = &group.name;
            let named = (0..group.geometry.files).map(|file| group::path_of(live, name, file));
            let next = (0..group.geometry.files).map(|file| group::next_path_of(live, name, file));
            let all = named.chain(next);
            let dirty = all.clone().map(|path| dirty_file::path_of(&path));
            all.chain(dirty)
        });
        given.extend(files.map(|path| give(path, wanted)));
        let locked = Wanted { mode: writers_of(wanted.mode), ..wanted };
        given.extend([Runtime::path_in(data), data.join(HISTORY)].map(|path| give(path, locked)));
        given
    });
}

/// Gives a published configuration the mode and group of `conf`, without the rights to write: only
/// the server writes it. Programs read a configuration as soon as it is in force, so this call
/// comes before that.
pub fn give_access_to_generation(conf: &Conf, generation: u64) {
    let path = active::path(&conf.srv.data.dir, generation);
    give_all(conf, |Wanted { mode, gid }| {
        vec![give(path, Wanted { mode: mode & !FOREIGN_WRITES, gid })]
    });
}

/// Gives the history file, if it exists, the mode and group of `conf`. Users who may not write it
/// may not read it either, because its writer locks it.
pub fn give_access_to_history(conf: &Conf) {
    let path = conf.srv.data.dir.join(HISTORY);
    give_all(conf, |Wanted { mode, gid }| vec![give(path, Wanted { mode: writers_of(mode), gid })]);
}

fn wanted(access: &FileAccess) -> Result<Wanted, Refusal> {
    let known = access.group.as_deref().map(|name| {
        let group = Group::from_name(name).map_err(io::Error::from);
        let none = || io::Error::new(io::ErrorKind::NotFound, "this system has no such group");
        group.and_then(|group| group.ok_or_else(none)).map_err(|source| Refusal {
            path: "srv.xml".into(),
            action: format!("find the group {name} of <data>"),
            source,
            failures: 1,
        })
    });
    Ok(Wanted { mode: access.mode, gid: known.transpose()?.map(|group| group.gid.as_raw()) })
}

/// A path, and the result of giving it its mode and group.
type Given = (PathBuf, io::Result<()>);

/// Gives files the mode and group of `conf`, and logs a failure.
fn give_all(conf: &Conf, give: impl FnOnce(Wanted) -> Vec<Given>) {
    let access = &conf.srv.data.access;
    let refusal = |given: Vec<Given>| {
        let failures = given.iter().filter(|(_, result)| result.is_err()).count();
        given.into_iter().find_map(|(path, result)| {
            let (mode, source) = (access.mode, result.err()?);
            let group = access.group.as_ref().map(|name| format!(" and to the group {name}"));
            let group = group.unwrap_or_default();
            let action = format!("cannot open it to the mode {mode:04o}{group}");
            Some(Refusal { path, action, source, failures })
        })
    };
    if let Some(error) = wanted(access).map_or_else(Some, |wanted| refusal(give(wanted))) {
        tracing::warn!(
            %error,
            "mode or group of <data> is not in force: programs of other users may not attach (the \
             server's user must own the files and be in the group)"
        );
    }
}

fn give(path: PathBuf, wanted: Wanted) -> Given {
    let result = give_file(&path, wanted);
    (path, result)
}

/// Gives a file its mode and group. Does nothing if there is no such file.
fn give_file(path: &Path, Wanted { mode, gid }: Wanted) -> io::Result<()> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() != 1 {
        return Err(io::Error::other("found a link or no plain file, expected a plain file"));
    }
    if let Some(gid) = gid.filter(|gid| *gid != found.gid()) {
        fchown(&file, None, Some(gid))?;
    }
    if found.mode() & 0o7777 != mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Lets users enter a directory if they may open its files. They need not list it.
fn open_directory(path: &Path, Wanted { mode, gid }: Wanted) -> io::Result<()> {
    let directory = OFlag::O_DIRECTORY.bits();
    let opened = OpenOptions::new().read(true).custom_flags(directory).open(path)?;
    let found = opened.metadata()?;
    let was = found.mode() & 0o7777;
    let is_for = |rights: u32| mode & rights != 0;
    let (mut rights, mut given) = (was, None);
    if is_for(ALL_RIGHTS) {
        rights |= ALL_ENTER;
    }
    if is_for(GROUP_RIGHTS) && rights & ALL_ENTER == 0 {
        match gid.filter(|gid| *gid != found.gid()) {
            // The rights of the former group are not those of the new one.
            Some(gid) => {
                given = Some(gid);
                rights = rights & !GROUP_RIGHTS | GROUP_ENTERS;
            }
            None => rights |= GROUP_ENTERS,
        }
    }
    if let Some(gid) = given {
        fchown(&opened, None, Some(gid))?;
    }
    if rights != was {
        opened.set_permissions(Permissions::from_mode(rights))?;
    }
    Ok(())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;

    use super::*;

    const OPEN: Wanted = Wanted { mode: 0o660, gid: None };

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    // Shows: other-users-attach.
    #[test]
    fn a_plain_file_gets_its_mode_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, hard] = ["file", "link", "hard"].map(|name| dir.path().join(name));
        assert!(give_file(&file, OPEN).is_ok(), "there is none");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o4600)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(give_file(&link, OPEN).is_err());
        assert_eq!(mode(&file), 0o4600);
        give_file(&file, OPEN).unwrap();
        assert_eq!(mode(&file), 0o660);
        give_file(&file, Wanted { mode: 0o600, gid: None }).unwrap();
        assert_eq!(mode(&file), 0o600);
        fs::hard_link(&file, &hard).unwrap();
        assert!(give_file(&file, OPEN).is_err());
        assert!(give_file(dir.path(), OPEN).is_err());
        assert_eq!(mode(&file), 0o600);
    }

    // Shows: other-users-attach.
    #[test]
    fn a_directory_gets_the_right_to_enter_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let opened = |was: u32, wanted: u32| {
            fs::set_permissions(dir.path(), Permissions::from_mode(was)).unwrap();
            open_directory(dir.path(), Wanted { mode: wanted, gid: None }).unwrap();
            mode(dir.path())
        };
        assert_eq!(opened(0o700, 0o600), 0o700);
        assert_eq!(opened(0o700, 0o660), 0o710);
        assert_eq!(opened(0o700, 0o666), 0o701);
        assert_eq!(opened(0o711, 0o660), 0o711);
        assert_eq!(opened(0o750, 0o640), 0o750);
        assert_eq!(opened(0o755, 0o666), 0o755);
    }
}
