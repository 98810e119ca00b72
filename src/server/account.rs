//! The user that a server started as root acts as.
//!
//! Invariant: a child never has a way back to root. The master has one, and uses it only to bind a
//! privileged port or to read configuration that only root may read.

pub mod roots_way;

use std::io;

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, User};

/// What the system knows of a user or a group. An image without /etc/passwd and /etc/group knows
/// none.
pub(crate) fn known<T>(found: nix::Result<Option<T>>) -> nix::Result<Option<T>> {
    match found {
        Err(Errno::ENOENT) => Ok(None),
        found => found,
    }
}

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
        let name = known(User::from_uid(uid))?.map_or_else(String::new, |user| user.name);
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

    /// Runs `act` as the user of the account, if there is one, and is root again after it.
    pub fn as_user<T, E: From<io::Error>>(
        account: Option<&Account>,
        act: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        account.map_or(Ok(()), Account::lower)?;
        let result = act();
        account.map_or(Ok(()), Account::raise)?;
        result
    }

    /// Becomes this user for good.
    pub fn become_for_good(&self) -> io::Result<()> {
        self.raise()?;
        nix::unistd::initgroups(&self.name, self.gid)?;
        nix::unistd::setresgid(self.gid, self.gid, self.gid)?;
        Ok(nix::unistd::setresuid(self.uid, self.uid, self.uid)?)
    }

    /// Its user.
    pub fn uid(&self) -> u32 {
        self.uid.as_raw()
    }

    /// All groups of the user.
    pub fn groups(&self) -> Vec<Gid> {
        nix::unistd::getgrouplist(&self.name, self.gid).unwrap_or_else(|_| vec![self.gid])
    }

    /// Its group.
    pub fn gid(&self) -> u32 {
        self.gid.as_raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_a_list_of_users_knows_none() {
        assert_eq!(known::<User>(Err(Errno::ENOENT)), Ok(None));
        assert_eq!(known::<User>(Err(Errno::EIO)), Err(Errno::EIO));
        assert_eq!(known(Ok(Some(1))), Ok(Some(1)));
    }
}
