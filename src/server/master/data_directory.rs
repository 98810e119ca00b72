//! Makes the directories of `<data>`, and refuses directories that other users may write.
//!
//! Invariant: the writer of a directory decides what is served from it. So each directory belongs
//! to root or to the server's user, and no other user may write it. Exceptions are a group that
//! `<data mode>` lets write the files themselves, and the server's own group. Root makes a
//! directory only where the server's user may not, on a path that is root's alone, and names it by
//! a descriptor.

use std::ffi::CString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{Gid, Group, Uid, User};

use super::error::MasterError;
use crate::account::root_path::only_root_can_change;
use crate::account::{self, Account};
use frs_conf::{Conf, FileAccess};

/// The group and others may open files by name. Only the owner reads the directory.
const MODE: u32 = 0o711;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Makes the missing directories, and checks all of them. The caller acts as the server's user.
pub(super) fn make(conf: &Conf, account: Option<&Account>) -> Result<(), MasterError> {
    let own = Own::effective();
    each(conf, |path| {
        make_one(path, account).and_then(|()| look_at(path, &conf.srv.data.access, &own))
    })
}

/// Checks the existing directories. A server that takes over makes none: it uses those of the older
/// master, or is refused because its files name others.
pub(super) fn look(conf: &Conf) -> Result<(), MasterError> {
    look_as(conf, |_| Ok(Own::effective()))
}

/// Why a start would refuse the existing directories. It changes nothing. The user of the server is
/// known only if root starts it and a user is named; else the owner of a directory is taken for the
/// server's user.
pub(super) fn refusal(conf: &Conf) -> Option<MasterError> {
    let account = conf.srv.user.as_deref().map(Account::find).transpose().ok()?.flatten();
    look_as(conf, |path| match &account {
        Some(account) => Ok(Own::of(account)),
        None => Own::of_owner(path),
    })
    .err()
}

fn look_as(conf: &Conf, own: impl Fn(&Path) -> io::Result<Own>) -> Result<(), MasterError> {
    each(conf, |path| match path.is_dir() {
        true => look_at(path, &conf.srv.data.access, &own(path)?),
        false => Ok(()),
    })
}

/// The user that the server acts as.
struct Own {
    uid: Uid,
    groups: Vec<Gid>,
}

impl Own {
    fn effective() -> Own {
        let mut groups = nix::unistd::getgroups().unwrap_or_default();
        groups.push(Gid::effective());
        Own { uid: Uid::effective(), groups }
    }

    fn of_owner(path: &Path) -> io::Result<Own> {
        let found = std::fs::metadata(path)?;
        let (uid, gid) = (Uid::from_raw(found.uid()), Gid::from_raw(found.gid()));
        let user = account::known(User::from_uid(uid))?;
        let name = user.and_then(|user| CString::new(user.name).ok());
        let groups = name.and_then(|name| nix::unistd::getgrouplist(&name, gid).ok());
        Ok(Own { uid, groups: groups.unwrap_or_else(|| vec![gid]) })
    }

    fn of(account: &Account) -> Own {
        Own { uid: Uid::from_raw(account.uid()), groups: account.groups() }
    }
}

fn each(conf: &Conf, work: impl Fn(&Path) -> io::Result<()>) -> Result<(), MasterError> {
    let data = &conf.srv.data;
    std::iter::once(&data.dir).chain(&data.live).try_for_each(|path| {
        work(path).map_err(|source| MasterError::Directory { path: path.clone(), source })
    })
}

fn make_one(path: &Path, account: Option<&Account>) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    match (DirBuilder::new().recursive(true).mode(MODE).create(path), account) {
        (Err(error), Some(of)) if error.kind() == io::ErrorKind::PermissionDenied => {
            Account::as_root(account, || match only_root_can_change(&parent_of(path)) {
                true => make_for(path, of),
                false => Err(error),
            })
        }
        (made, _) => made,
    }
}

fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Makes a directory as root, and gives it to the account. Only root may write its parents.
fn make_for(path: &Path, account: &Account) -> io::Result<()> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "found no name of a directory");
    let name = path.file_name().ok_or_else(invalid)?;
    let parent = parent_of(path);
    DirBuilder::new().recursive(true).mode(MODE).create(&parent)?;
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let parent = OpenOptions::new().read(true).custom_flags(flags.bits()).open(parent)?;
    mkdirat(&parent, name, Mode::from_bits_retain(MODE))?;
    let made = File::from(openat(&parent, name, flags | OFlag::O_NOFOLLOW, Mode::empty())?);
    fchown(made, Some(account.uid()), Some(account.gid()))
}

/// Checks that only users who may change the records can put files into a directory.
fn look_at(path: &Path, access: &FileAccess, of: &Own) -> io::Result<()> {
    let found = std::fs::metadata(path)?;
    let own = of.uid.as_raw();
    let refused = |words: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
    if found.uid() != 0 && found.uid() != own {
        return refused(format!(
            "found a directory of the user {}, expected one of root or of the server's user \
             ({own}): whoever owns it could replace the files",
            found.uid()
        ));
    }
    let is_open = found.mode() & OTHERS_WRITE != 0
        || found.mode() & GROUP_WRITES != 0 && !may_write(&found, access, of)?;
    if is_open {
        return refused(format!(
            "found the mode {:04o} of group {}, expected one that only its owner may write: others \
             could replace the files",
            found.mode() & 0o7777,
            found.gid()
        ));
    }
    Ok(())
}

/// Whether the group of a directory may write it: because `<data mode group>` permits it, or
/// because it is a group of the server's user without other known members.
fn may_write(found: &Metadata, access: &FileAccess, own: &Own) -> io::Result<bool> {
    let named = access.group.as_deref().map(Group::from_name).transpose()?.flatten();
    let is_meant = named.is_none_or(|group| group.gid.as_raw() == found.gid());
    if access.mode & GROUP_WRITES != 0 && is_meant {
        return Ok(true);
    }
    let gid = Gid::from_raw(found.gid());
    if !own.groups.contains(&gid) {
        return Ok(false);
    }
    let user = account::known(User::from_uid(own.uid))?.map(|user| user.name);
    let group = account::known(Group::from_gid(gid))?;
    // An image without accounts has no such file.
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_others_own = is_group_of_another(&accounts, gid, own.uid);
    Ok(!is_others_own && group.is_none_or(|group| is_alone(&group.mem, user.as_deref())))
}

/// Whether a group is the primary group of another account, whose membership the group does not
/// list: as `users` in many systems. Lines are `name:password:uid:gid:…`.
fn is_group_of_another(accounts: &str, gid: Gid, own: Uid) -> bool {
    accounts.lines().any(|line| {
        let mut numbers = line.split(':').skip(2).map(|number| number.parse::<u32>().ok());
        let (uid, first) = (numbers.next().flatten(), numbers.next().flatten());
        first == Some(gid.as_raw()) && uid.is_some_and(|uid| uid != own.as_raw() && uid != 0)
    })
}

/// Whether a group has no other member than this user.
fn is_alone(members: &[String], user: Option<&str>) -> bool {
    members.iter().all(|member| Some(member.as_str()) == user)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    // Shows: readers-stop-nothing.
    #[test]
    fn only_a_directory_that_nobody_else_writes_is_served_from() {
        let dir = tempfile::tempdir().expect("a directory");
        let of_mode = |mode: u32, access: &FileAccess| {
            std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode)).expect("set");
            look_at(dir.path(), access, &Own::effective()).map_err(|error| error.to_string())
        };
        let own = FileAccess::OWN;
        let open = FileAccess { mode: 0o660, group: None };
        for mode in [0o700, 0o711, 0o755, 0o750] {
            assert_eq!(of_mode(mode, &own), Ok(()), "{mode:o}");
        }
        assert_eq!(of_mode(0o770, &open), Ok(()), "who may change the records");
        for mode in [0o777, 0o1777, 0o702] {
            let error = of_mode(mode, &open).expect_err("others write it");
            assert!(error.contains(&format!("found the mode {mode:04o}")), "{error}");
        }
    }

    #[test]
    fn the_first_group_of_another_account_is_not_the_servers_own() {
        const ACCOUNTS: &str =
            "root:x:0:100::/:/bin/sh\nfrs:x:99:100:a:b\n+::::::\neve:x:7:101::/:\n";
        let is_of =
            |gid, own| is_group_of_another(ACCOUNTS, Gid::from_raw(gid), Uid::from_raw(own));
        assert!(!is_of(100, 99), "root may write anyway");
        assert!(is_of(100, 7) && is_of(101, 99) && !is_of(102, 99));
    }

    #[test]
    fn a_group_that_the_system_does_not_name_is_the_servers_own() {
        if !frs_base::testing::is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let of_group = |gid: u32| {
            std::os::unix::fs::chown(dir.path(), None, Some(gid)).expect("given");
            let mode = PermissionsExt::from_mode(0o2775);
            std::fs::set_permissions(dir.path(), mode).expect("set");
            look_at(dir.path(), &FileAccess::OWN, &Own::effective()).is_ok()
        };
        let own = nix::unistd::getgroups().expect("groups");
        let nameless = (60_000..).map(Gid::from_raw).find(|gid| !own.contains(gid));
        assert!(!of_group(nameless.expect("one").as_raw()), "another's");
        let named = |name: &str| vec![name.to_owned()];
        assert!(is_alone(&[], None) && is_alone(&named("frs"), Some("frs")));
        assert!(!is_alone(&named("other"), Some("frs")) && !is_alone(&named("frs"), None));
    }

    #[test]
    fn what_is_missing_is_made() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("one/two");
        make_one(&path, None).expect("made");
        look_at(&path, &FileAccess::OWN, &Own::effective()).expect("its own");
        make_one(&path, None).expect("there");
    }
}
