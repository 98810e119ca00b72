//! The user that a server started as root acts as.
//!
//! Invariant: a child never has a way back to root; the master has one, and takes it only to bind a
//! privileged port or to read configuration that root alone may read.

use std::io;

use nix::unistd::{Gid, Uid, User};

/// The user a server started as root becomes. The master keeps root only as its saved and real
/// user, for privileged ports and for files that root alone may read; its children give up all.
#[derive(Debug, Clone)]
pub struct Account {
    name: std::ffi::CString,
    uid: Uid,
    gid: Gid,
}

impl Account {
    /// Looks `name` up; none where there is nothing to drop to or from (no root).
    pub fn find(name: &str) -> io::Result<Option<Account>> {
        let user = User::from_name(name)?
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such user"))?;
        let name = std::ffi::CString::new(name).map_err(io::Error::other)?;
        let root = Uid::current().is_root();
        Ok(root.then_some(Account { name, uid: user.uid, gid: user.gid }))
    }

    /// The owner of a file; none where there is nothing to drop to or from (no root).
    pub fn of_owner(path: &std::path::Path) -> io::Result<Option<Account>> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path)?;
        let (uid, gid) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
        if uid.is_root() || !Uid::current().is_root() {
            return Ok(None);
        }
        // One without a name is in no other groups.
        let name = User::from_uid(uid)?.map_or_else(String::new, |user| user.name);
        let name = std::ffi::CString::new(name).map_err(io::Error::other)?;
        Ok(Some(Account { name, uid, gid }))
    }

    /// Acts as this user from now on; [`Account::raise`] takes it back.
    pub fn lower(&self) -> io::Result<()> {
        nix::unistd::initgroups(&self.name, self.gid)?;
        nix::unistd::setegid(self.gid)?;
        Ok(nix::unistd::seteuid(self.uid)?)
    }

    /// Acts as root again.
    pub fn raise(&self) -> io::Result<()> {
        nix::unistd::seteuid(Uid::from_raw(0))?;
        Ok(nix::unistd::setegid(Gid::from_raw(0))?)
    }

    /// Runs `act` as root, where there is an account that acts as another user: files may be for
    /// root's eyes only, and ports for root's use.
    pub fn as_root<T, E: From<io::Error>>(
        account: Option<&Account>,
        act: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        account.map_or(Ok(()), Account::raise)?;
        let result = act();
        account.map_or(Ok(()), Account::lower)?;
        result
    }

    /// Becomes this user for good.
    pub fn become_for_good(&self) -> io::Result<()> {
        self.raise()?;
        nix::unistd::initgroups(&self.name, self.gid)?;
        nix::unistd::setresgid(self.gid, self.gid, self.gid)?;
        Ok(nix::unistd::setresuid(self.uid, self.uid, self.uid)?)
    }

    /// Gives a file to this user.
    pub fn give(&self, path: &std::path::Path) -> io::Result<()> {
        Ok(nix::unistd::chown(path, Some(self.uid), Some(self.gid))?)
    }
}
