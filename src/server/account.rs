//! The user that a server started as root acts as.
//!
//! Invariant: a child never has a way back to root. The master has one, and uses it only where the
//! rights of that user do not suffice: for secrets and the configuration, for directories and the
//! files of sockets, and to bind privileged addresses.

pub mod root_path;

use std::io;

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, User};

/// The entry of a user or a group in the system's lists. `None` if there is no entry, or no list,
/// as in an image without /etc/passwd and /etc/group.
pub(crate) fn known<T>(found: nix::Result<Option<T>>) -> nix::Result<Option<T>> {
    match found {
        Err(Errno::ENOENT) => Ok(None),
        found => found,
    }
}

/// The user that a server started as root becomes. The master keeps root only as its real and saved
/// user. Its children give up both.
#[derive(Debug, Clone)]
pub struct Account {
    name: std::ffi::CString,
    uid: Uid,
    gid: Gid,
}

impl Account {
    /// Looks up `name`. Returns `None` if this process is not root, so that its user does not
    /// change.
    pub fn find(name: &str) -> io::Result<Option<Account>> {
        let user = User::from_name(name)?
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such user"))?;
        let name = std::ffi::CString::new(name).map_err(io::Error::other)?;
        let root = Uid::current().is_root();
        Ok(root.then_some(Account { name, uid: user.uid, gid: user.gid }))
    }

    /// The owner of a file. Returns `None` if this process is not root, or if root owns the file,
    /// so that the user does not change.
    pub fn of_owner(path: &std::path::Path) -> io::Result<Option<Account>> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path)?;
        let (uid, gid) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
        if uid.is_root() || !Uid::current().is_root() {
            return Ok(None);
        }
        // A user without a name is in no other group.
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

    /// Runs `act` as root if there is an account, and acts as its user again afterwards.
    pub fn as_root<T, E: From<io::Error>>(
        account: Option<&Account>,
        act: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        account.map_or(Ok(()), Account::raise)?;
        let result = act();
        account.map_or(Ok(()), Account::lower)?;
        result
    }

    /// Runs `act` as the user of the account, if there is one, and acts as root again afterwards.
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

    /// The id of the user.
    pub fn uid(&self) -> u32 {
        self.uid.as_raw()
    }

    /// All groups of the user.
    pub fn groups(&self) -> Vec<Gid> {
        nix::unistd::getgrouplist(&self.name, self.gid).unwrap_or_else(|_| vec![self.gid])
    }

    /// The id of the user's primary group.
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
