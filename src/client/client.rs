//! Query and Update for programs: a client, its items, its verdicts.
//!
//! Invariant: the caller has nothing to maintain. Each call takes the configuration in force, reads
//! the clock once, has its own lock-timeout, and runs on an attachment that this process made.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use frs_base::sys;
use frs_conf::Conf;
use frs_engine::{Command, Exchange, Role};

use crate::attachment::{Attachment, InPlace, Moved, Origin, Parked, Patience, Take};
use crate::per_process::Pools;
use crate::{AttachError, Error, Item, Tell, Verdict, pool};

/// A program's attachment to the files of a server on the same machine.
///
/// A client queries and charges in shared memory. Its charges count together with those of all
/// other clients. One client serves all threads: share it by reference, in an
/// [`Arc`](std::sync::Arc) or in a static. Dropping the client frees its places.
///
/// # Threads
/// A client is one attachment in each process, whatever the number of threads: calls of threads
/// take turns. A call that waits for uses of a limit that several machines share leaves its
/// attachment to the others meanwhile. An attachment takes one of the places that `max-programs` of
/// srv.xml reserves for programs, so that setting counts processes. [`Client::with_places`] lets
/// calls of several threads run at once.
///
/// # Forks
/// A forked child may use its parent's client. The child's first call makes a new attachment in a
/// place of its own. The child neither uses nor releases the parent's attachments. A server that
/// forks its workers can attach before it forks. A child that makes no call takes no place.
///
/// # Server restarts
/// Calls continue to work while the server stops, is killed, or restarts: they need only the files.
/// The next call after a reload uses the new configuration. If runtime.mmap is lost or damaged, the
/// server gives it up. Calls then return [`Error::Attach`], until the first call after the server's
/// next start attaches again.
pub struct Client {
    origin: Origin,
    pub(crate) pools: Pools,
}

impl Client {
    /// Attaches to the data directory of a running server: the one that `<data dir>` of srv.xml
    /// names, by default `data`. The program must run as the server's user, or in the group that
    /// `<data mode group>` lets in.
    ///
    /// # Errors
    /// No server has prepared the directory, this user cannot write its files, or all places for
    /// programs are in use.
    pub fn attach(data_dir: impl AsRef<Path>) -> Result<Client, AttachError> {
        Client::attach_as(data_dir.as_ref(), Role::Program)
    }

    /// As [`Client::attach`], for programs of the server: with another role than
    /// [`Role::Program`], in a place of the server's own processes.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn attach_as(data_dir: &Path, role: Role) -> Result<Client, AttachError> {
        // A forked child or a later call may have another working directory.
        let absolute = std::path::absolute(data_dir);
        let data_dir = absolute.unwrap_or_else(|_| data_dir.to_path_buf());
        let origin = Origin { data_dir, role };
        let first = Attachment::new(&origin, 0)?;
        let pools = Pools::new(sys::forks(), 1, first);
        Ok(Client { origin, pools })
    }

    /// The most attachments that a client can have in a process.
    pub const MOST_PLACES: usize = pool::MOST;

    /// Lets the client have up to `most` attachments in each process, at least 1 and at most
    /// [`Client::MOST_PLACES`]. A call that finds all of them in use makes another one. Each maps
    /// the group files, and takes a place of `max-programs`. When no place is free, the client
    /// works with the attachments that it has.
    pub fn with_places(mut self, most: usize) -> Client {
        self.pools.set_size(most.clamp(1, pool::MOST));
        self
    }

    /// Charges an item if its limits admit it.
    ///
    /// # Errors
    /// The item was not judged, or there is no server to attach to. Nothing was charged.
    #[inline]
    pub fn update(&self, item: Item<'_>) -> Result<Verdict, Error> {
        self.run(Command::Update, item)
    }

    /// Like [`Client::update`], but does not wait for other machines. `update` may wait for uses of
    /// a limit that several machines share, up to the `wait` of its business. This call asks for
    /// the uses, and a later call finds them. It does not wait for calls of other threads that wait
    /// for uses, either. [`Batch::try_run`](crate::Batch::try_run) is the same for several items.
    ///
    /// # Errors
    /// The same, and [`Error::WouldWait`]. Nothing was charged.
    #[inline]
    pub fn try_update(&self, item: Item<'_>) -> Result<Verdict, Error> {
        self.try_run(Command::Update, item)
    }

    /// Asks what [`Client::update`] would answer now, and charges nothing.
    ///
    /// # Errors
    /// The same as [`Client::update`].
    #[inline]
    pub fn query(&self, item: Item<'_>) -> Result<Verdict, Error> {
        self.run(Command::Query, item)
    }

    /// Like [`Client::query`], but does not wait for the cluster.
    ///
    /// # Errors
    /// The same, and [`Error::WouldWait`].
    #[inline]
    pub fn try_query(&self, item: Item<'_>) -> Result<Verdict, Error> {
        self.try_run(Command::Query, item)
    }

    /// Like [`Client::query`] or [`Client::update`], for libraries of other languages: `tell` gets
    /// the verdict without a move.
    ///
    /// # Errors
    /// The same as of [`Client::query`] or [`Client::update`].
    #[inline]
    pub fn tell(&self, command: Command, item: &Item<'_>, tell: impl Tell) -> Result<(), Error> {
        self.run_and(command, item, InPlace(tell))
    }

    /// The generation of the configuration in force, whether this client has taken it or not. 0
    /// after the server has ended.
    ///
    /// # Errors
    /// There is no server to attach to.
    pub fn published(&self) -> Result<u64, AttachError> {
        self.with(|attachment| Ok(attachment.service.handle().runtime().generation()))
    }

    /// Takes the configuration in force, as every call does. Returns its generation and the
    /// configuration.
    ///
    /// # Errors
    /// There is no server to attach to.
    pub fn in_force(&self) -> Result<(u64, Arc<Conf>), AttachError> {
        self.with(|attachment| {
            attachment.service.begin_tick();
            Ok((attachment.service.generation(), Arc::clone(attachment.service.conf())))
        })
    }

    fn run(&self, command: Command, item: Item<'_>) -> Result<Verdict, Error> {
        self.run_and(command, &item, Moved)
    }

    /// Runs an item, and takes its answer.
    #[inline(always)]
    fn run_and<T>(
        &self,
        command: Command,
        item: &Item<'_>,
        mut take: impl Take<Taken = T>,
    ) -> Result<T, Error> {
        let mut parked = None;
        let patience = Patience::Waits(&mut parked);
        // One place for the result: a verdict is large to move.
        let mut result = self.with(|one| one.run(command, item, patience, &mut take));
        if let Some(parked) = parked {
            result = take.take(&self.wait(parked));
        }
        result
    }

    fn try_run(&self, command: Command, item: Item<'_>) -> Result<Verdict, Error> {
        self.with(|one| one.run(command, &item, Patience::None, &mut Moved))
    }

    /// Waits until a call is answered. Its attachment serves others meanwhile.
    #[cold]
    pub(crate) fn wait(&self, mut parked: Box<Parked>) -> Exchange {
        parked.wait(|place, go_on| match self.pools.of(sys::forks()) {
            Ok(pool) => pool.at(place, go_on),
            Err(_) => go_on(None),
        });
        parked.exchange
    }

    /// Runs `work` on an attachment of this process.
    #[inline]
    pub(crate) fn with<T, E: From<AttachError>>(
        &self,
        work: impl FnOnce(&mut Attachment) -> Result<T, E>,
    ) -> Result<T, E> {
        match self.pools.of(sys::forks()) {
            Ok(pool) => pool.with(&self.origin, work),
            Err(error) => Err(error.into()),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("data_dir", &self.origin.data_dir).finish_non_exhaustive()
    }
}
