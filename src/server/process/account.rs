//! The user that a server started as root acts as.
//!
//! Invariant: a child never has a way back to root. The master has one, and uses it only to bind a
//! privileged port or to read configuration that only root may read.

use std::io;

use nix::unistd::{Gid, Uid, User};

/// The user that a server started as root becomes. The master keeps root only as its saved and real
/// user, for privileged ports and for files that only root may read. Its children give up both.
#[derive(Debug, Clone)]
pub struct Account {
    name: std::ffi::CString,
    uid: Uid,
    gid: Gid,
}

impl Account {
    /// Looks up `name`. `None` if there is no change of user (not root).
    pub fn find(name: &str) -> io::Result<Option<Account>> {
        let user = User::from_name(name)?
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such user"))?;
        let name = std::ffi::CString::new(name).map_err(io::Error::other)?;
        let root = Uid::current().is_root();
        Ok(root.then_some(Account { name, uid: user.uid, gid: user.gid }))
    }

    /// The owner of a file. `None` if there is no change of user (not root).
    pub fn of_owner(path: &std::path::Path) -> io::Result<Option<Account>> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path)?;
        let (uid, gid) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
        if uid.is_root() || !Uid::current().is_root() {
            return Ok(None);
        }
        // A user without a name is in no other groups.
        let name = User::from_uid(uid)?.map_or_else(String::new, |user| user.name);
        let name = std::ffi::CString::new(name).map_err(io::Error::other)?;
        Ok(Some(Account { name, uid, gid }))
    }

    /// Acts as this user from now on, until [`Account::raise`].
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

    /// Runs `act` as root if there is an account that acts as another user: some files and ports
    /// are for root only.
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

    /// Makes this user the owner of a file.
    pub fn give(&self, path: &std::path::Path) -> io::Result<()> {
        Ok(nix::unistd::chown(path, Some(self.uid), Some(self.gid))?)
    }
}
