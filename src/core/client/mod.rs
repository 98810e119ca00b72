//! Query and Update for programs: a client, its items, its verdicts.
//!
//! Invariant: nothing is left for the caller to keep in order. Each call takes the configuration in
//! force, reads the clock once, has a lock-timeout of its own, and runs on an attachment that this
//! process has made.

mod attachment;
mod batch;
mod error;
mod item;
mod per_process;
mod pool;
#[cfg(test)]
mod tests;
mod verdict;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::base::sys;
use crate::service::Command;
use attachment::Attachment;
use per_process::Pools;

pub use batch::{Answers, Batch};
pub use error::{AttachError, Error};
pub use item::{Biz, Item, Key};
pub use verdict::Verdict;

/// A program's attachment to the files of a server on the same machine.
///
/// It asks and charges in shared memory, and its charges count with everybody else's. One client
/// serves all threads: share it by reference, in an [`Arc`](std::sync::Arc), or in a static.
/// Dropping it gives its places back.
///
/// # Threads
/// A client begins with one attachment. A call that finds all of them in use makes one more, up to
/// the number of processors and at most 8; beyond that it waits for one. Each attachment maps the
/// group files, and takes one of the places that `max-programs` of srv.xml grants to programs. When
/// no place is left, the client works with the attachments that it has.
///
/// # Forks
/// A forked child may use the client of its parent. Its first call attaches anew, in places of its
/// own; the parent's attachments are neither used nor released. A server that forks its workers can
/// attach before it forks, and a child that never asks takes no place.
///
/// # The server
/// Calls go on while the server ends, is killed, and is started again: the files are all that they
/// need. The next call after a reload works with the new configuration. When the server gives its
/// runtime.mmap up because the file is lost or damaged, calls answer [`Error::Attach`]; the first
/// call after the next start attaches anew.
pub struct Client {
    data_dir: PathBuf,
    pools: Pools,
}

impl Client {
    /// Attaches to the data directory of a running server: what `<data dir>` of srv.xml names,
    /// `data` where it names nothing. The program runs as the server's user.
    ///
    /// # Errors
    /// No server has prepared the directory, this user may not write its files, or all places for
    /// programs are taken.
    pub fn attach(data_dir: impl AsRef<Path>) -> Result<Client, AttachError> {
        let data_dir = data_dir.as_ref();
        // A child, or a later call, may work in another directory.
        let absolute = std::path::absolute(data_dir);
        let data_dir = absolute.unwrap_or_else(|_| data_dir.to_path_buf());
        let first = Attachment::new(&data_dir)?;
        let pools = Pools::new(sys::forks(), pool::size(), first);
        Ok(Client { data_dir, pools })
    }

    /// Charges an item, if its limits admit it.
    ///
    /// # Errors
    /// The item was not judged, or there is no server to attach to: nothing was charged.
    #[inline]
    pub fn update(&self, item: Item<'_>) -> Result<Verdict, Error> {
        self.run(Command::Update, item)
    }

    /// Asks what [`Client::update`] would answer now; nothing is charged.
    ///
    /// # Errors
    /// As [`Client::update`].
    #[inline]
    pub fn query(&self, item: Item<'_>) -> Result<Verdict, Error> {
        self.run(Command::Query, item)
    }

    /// Begins a batch: several items in one call.
    pub fn batch(&self) -> Batch<'_> {
        Batch::new(self)
    }

    fn run(&self, command: Command, item: Item<'_>) -> Result<Verdict, Error> {
        self.with(|attachment| attachment.run(command, &item).map_err(Error::Item))?
    }

    /// Runs `work` on an attachment of this process.
    #[inline]
    fn with<T>(&self, work: impl FnOnce(&mut Attachment) -> T) -> Result<T, AttachError> {
        self.pools.of(sys::forks())?.with(&self.data_dir, work)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}
