//! Query and Update: biz, key, transaction, limits, verdicts.
//!
//! Invariant: a [`Request`] holds what a front end parsed, and [`Answers`] what it has to write.
//! Both are reused, so the steady state allocates nothing.
// `cargo test NAME` builds the tests of every package. Those of the engine are in the package
// `crash`; here there are none.
#![cfg(any(not(test), feature = "crash-points"))]
#![allow(missing_docs, reason = "for the crates above; programs see what `frs` exports")]

pub mod answer;
mod call_rate;
mod edit_record;
mod execute;
mod flushing;
mod former_limits;
pub mod inspect;
mod item_path;
mod members;
mod move_records;
mod need;
mod outcome;
mod parked_bytes;
mod plug;
mod quotas;
mod request;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod void_records;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use frs_base::clock::{self, Millis};
use frs_conf::{Conf, active};
use frs_store::counter::ITEM_ERRORS;
use frs_store::{
    BizRow, Error, Handle, OwnerBell, Places, ROLE_PROGRAM, Runtime, SlotRequest, Sweep,
    TransactionBuffers, live_dir,
};

use execute::{ItemWait, Refusals, Reports, RequestBuffers, Waits};

/// The reason why an item could not be judged. The item has charged nothing. The variants are in
/// order of precedence. The store counts each by its number, which never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.word())]
pub enum ItemError {
    /// `unknown-biz`: map.xml names no such business.
    UnknownBiz = 0,
    /// `bad-key`: the text is empty, too long, or not a key of the business's type.
    BadKey = 1,
    /// `bad-count`: the count is out of range.
    BadCount = 2,
    /// `bad-member`: a limit of the business notes members, and the item has none of 1 to 1024
    /// bytes.
    BadMember = 7,
    /// `bad-rate`: rate or burst of the call are out of bounds, or no limit takes them.
    BadRate = 6,
    /// `store`: the group's files failed, or the configuration in force cannot be taken.
    Store = 3,
    /// `busy`: another process held the key's semaphore for the whole lock-timeout.
    Busy = 4,
    /// `full`: the group has no room for another key.
    Full = 5,
}

impl ItemError {
    /// All errors, in the order of their numbers.
    #[doc(hidden)]
    pub const ALL: [ItemError; ITEM_ERRORS] = [
        ItemError::UnknownBiz,
        ItemError::BadKey,
        ItemError::BadCount,
        ItemError::Store,
        ItemError::Busy,
        ItemError::Full,
        ItemError::BadRate,
        ItemError::BadMember,
    ];

    /// The error's word, as the server's clients read it.
    #[inline]
    pub const fn word(self) -> &'static str {
        match self {
            ItemError::UnknownBiz => "unknown-biz",
            ItemError::BadKey => "bad-key",
            ItemError::BadCount => "bad-count",
            ItemError::BadMember => "bad-member",
            ItemError::BadRate => "bad-rate",
            ItemError::Store => "store",
            ItemError::Busy => "busy",
            ItemError::Full => "full",
        }
    }
}

pub use answer::{Answer, Answers};
pub use call_rate::{CallRate, CallRateText};
pub use edit_record::{Clearing, LimitUse, RecordError, RecordFigures, RecordName};
pub use execute::{RefusalSample, RefusedItem, Refuser};
pub use flushing::Flushing;
pub use former_limits::{note_former_limits, note_limits_in_force};
pub use item_path::{ItemMoment, ItemNodes, LiveNode, StoredKey};
pub use move_records::{MoveCounts, MovePass, MoveStep};
pub use need::{Need, NeedEnd, NeedKind, NeededTogether};
pub use outcome::Outcome;
pub use parked_bytes::{
    SPARE_BYTES, WAITING_ITEM_BYTES, WAITING_LIMIT_BYTES, WAITING_WINDOW_BYTES,
};
pub use plug::{Cluster, Files, Plug, Plugged, Remote};
pub use quotas::QUOTAS_MAX;
pub use request::{Command, Item, ItemNames, ItemOptions, Request};
pub use table::{Entry, Seen, Table, with_room};
pub use void_records::VoidRecords;

pub use frs_limit::{Details, Figures, Heard, HistorySpan, LimitFigures, List, Quota, Verdict};

/// A request and room for its answers.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    /// The request.
    pub request: Request,
    /// The answers.
    pub answers: Answers,
    /// The client. Exchanges of one lane that run together run in order: an exchange does not begin
    /// while an earlier one of its lane waits.
    pub lane: usize,
    /// The progress of the exchange.
    pub stage: Stage,
    /// Milliseconds from now on after which a waiting exchange is late.
    pub wait_ms: u64,
    /// Its items that wait.
    waits: Vec<ItemWait>,
    /// It has waited: its answers may hold indices of several configurations.
    has_waited: bool,
}

/// The progress of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Not run, or run and answered.
    #[default]
    Answered,
    /// Some of its items wait for shared uses or for a record. Run it again when these have come,
    /// or when the exchange is late. The answers of its other items stay.
    Waiting,
    /// Not begun: an earlier exchange of its lane waits.
    Behind,
}

/// The kind of process that attaches. The slot stores the kind, for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Role {
    Worker = 1,
    Keeper = 2,
    /// A local program that uses the library.
    Program = 3,
    /// The admin plane, a thread of the keeper's process.
    Admin = 4,
    /// The process that alone talks to the cluster.
    Cluster = 5,
    /// The server's own frs-envoy.
    Envoy = 6,
}

const _: () = assert!(Role::Program as u32 == ROLE_PROGRAM);

/// One attachment to a data directory: the store and the configuration in force.
///
/// It belongs to one thread, and is dead in a forked child.
#[derive(Debug)]
pub struct Service {
    handle: Handle,
    data_dir: PathBuf,
    conf: Arc<Conf>,
    generation: u64,
    failed: Option<FailedTake>,
    table: Table,
    scratch: RequestBuffers,
    buffers: TransactionBuffers,
    /// Makes the cluster of each configuration. `None`: this machine stands alone.
    plug: Plugged,
    /// The cluster. `None` if the configuration has none.
    cluster: Option<Box<dyn Cluster>>,
    /// The process is a program, the admin plane or frs-envoy: its items can wait as soon as there
    /// is a cluster. The items of a worker can wait only if it has the doorbells of its master.
    waits_by_futex: bool,
    waits: Waits,
    reports: Reports,
    refusals: Refusals,
    /// The business of the last item that was counted.
    last_row: BizRow,
}

/// A generation that the service could not take, and when it tried.
#[derive(Debug, Clone, Copy)]
struct FailedTake {
    generation: u64,
    at: Instant,
}

/// Attempts of an item or a transaction: it runs again if the generation changes.
const RETRIES: usize = 3;
/// The pause between two attempts to take such a configuration.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// The master repairs a damaged word or a lost file of the configuration in force within half of
/// this.
const SETTLED: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl Service {
    /// Attaches to a data directory that a running server has prepared, as the server's user. At
    /// most `max-programs` of srv.xml programs can be attached at once.
    ///
    /// # Errors
    /// There is no server's data, its files are damaged, or all places are taken. Or the
    /// configuration has a cluster: then a plug is needed.
    pub fn attach(data_dir: &Path, role: Role) -> Result<Service, Error> {
        Service::attach_with(data_dir, role, None)
    }

    /// The same, with a plug for the cluster that the configuration may have.
    ///
    /// # Errors
    /// As [`Service::attach`].
    pub fn attach_with(data_dir: &Path, role: Role, plug: Plugged) -> Result<Service, Error> {
        let generation = settled_generation(&Runtime::open(data_dir)?, data_dir);
        let conf = read_active(data_dir, generation)?;
        let plug_in_use = plug::needed(&conf, plug)?;
        plug_in_use.map_or(Ok(()), Plug::check)?;
        let places = &Places::of(&conf.srv);
        let request = SlotRequest { role: role as u32, places };
        let mut handle = Handle::attach_at(data_dir, live_dir(&conf), request)?;
        let lock_timeout = Duration::from_millis(conf.srv.http.lock_timeout_ms);
        handle.take_groups(&conf.map.groups, generation, lock_timeout)?;
        if conf.srv.data.prefault {
            // Not for a program: the kernel charges a huge page to the control group of the process
            // that asks.
            while role != Role::Program && handle.ask_for_huge_pages() {}
            handle.prefault()?;
        }
        let has_cluster = conf.srv.cluster.is_some();
        let mut service = Service::over(handle, data_dir, conf, generation, plug);
        match role {
            Role::Worker if has_cluster => service.handle.open_mailbox(OwnerBell::Event)?,
            Role::Program | Role::Admin | Role::Envoy => {
                service.waits_by_futex = true;
                service.open_ring()?;
            }
            _ => {}
        }
        Ok(service)
    }

    /// The service over a handle that has taken the groups of this configuration.
    fn over(
        handle: Handle,
        data_dir: &Path,
        conf: Conf,
        generation: u64,
        plug: Plugged,
    ) -> Service {
        let cluster = plug::serve(plug, &handle, &conf);
        Service {
            table: Table::new(&conf, &handle, cluster.as_deref()),
            handle,
            data_dir: data_dir.to_path_buf(),
            conf: Arc::new(conf),
            generation,
            failed: None,
            scratch: RequestBuffers::default(),
            buffers: TransactionBuffers::default(),
            plug,
            cluster,
            waits_by_futex: false,
            waits: Waits::default(),
            reports: Reports::default(),
            refusals: Refusals::default(),
            last_row: BizRow::UNKNOWN,
        }
    }

    /// The configuration in force for this handle.
    pub fn conf(&self) -> &Arc<Conf> {
        &self.conf
    }

    /// Its generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The attachment itself.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Starts a tick: all waits for semaphores in it share one lock-timeout. If there is a newer
    /// configuration, the tick takes and acknowledges it first, and the result is true.
    #[inline]
    pub fn begin_tick(&mut self) -> bool {
        let taken = self.handle.runtime().generation() != self.generation && self.take_newer();
        self.handle.begin_tick();
        taken
    }

    /// Sets the time of a batch: the wall clock's, and CLOCK_BOOTTIME if items may wait.
    #[inline]
    fn set_now(&mut self, now: Millis) {
        self.table.set_now(now);
        if self.table.is_shared() || self.table.has_remote() {
            self.set_times(now, clock::boot_ms());
        }
    }

    /// The same with both clocks read.
    fn set_times(&mut self, now: Millis, boot_ms: u64) {
        self.table.set_now(now);
        self.table.boot_clock().set_now(boot_ms);
        if let Some(cluster) = &mut self.cluster {
            cluster.begin_batch(self.handle.runtime());
        }
    }

    /// The cluster, and the runtime file. `None` if the configuration has no cluster.
    pub fn cluster(&mut self) -> Option<(&mut dyn Cluster, &Runtime)> {
        Some((&mut **self.cluster.as_mut()?, self.handle.runtime()))
    }

    /// The businesses of the configuration, prepared.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Takes the configuration in force. After a failure the service keeps the one that it has, and
    /// tries again a second later.
    #[cold]
    fn take_newer(&mut self) -> bool {
        let generation = self.handle.runtime().generation();
        if generation == 0 {
            // The server has ended cleanly: nothing new will come, and nothing may be written.
            return false;
        }
        let now = clock::instant();
        let tried =
            |failed: FailedTake| failed.generation == generation && now - failed.at < RETRY_EVERY;
        if self.failed.is_some_and(tried) {
            return false;
        }
        if generation < self.generation {
            // Generations never go back. The word is damaged, and the master will repair it.
            self.failed = Some(FailedTake { generation, at: now });
            let expected = self.generation;
            tracing::error!(found = generation, expected, "the generation in force is damaged");
            return false;
        }
        match self.take(generation) {
            Ok(()) => true,
            Err(error) => {
                self.failed = Some(FailedTake { generation, at: now });
                tracing::error!(generation, %error, "cannot take the new configuration");
                false
            }
        }
    }

    fn take(&mut self, generation: u64) -> Result<(), Error> {
        let conf = read_active(&self.data_dir, generation)?;
        plug::needed(&conf, self.plug)?;
        let lock_timeout = Duration::from_millis(conf.srv.http.lock_timeout_ms);
        self.handle.take_groups(&conf.map.groups, generation, lock_timeout)?;
        self.cluster = plug::serve(self.plug, &self.handle, &conf);
        self.table = Table::new(&conf, &self.handle, self.cluster.as_deref());
        self.conf = Arc::new(conf);
        self.generation = generation;
        if let Err(error) = self.open_ring() {
            // It can still spend what it holds.
            tracing::error!(%error, "items of this process cannot wait for the cluster");
        }
        Ok(())
    }

    /// Lets the items of a program wait, if there is a cluster.
    fn open_ring(&mut self) -> Result<(), Error> {
        if !self.waits_by_futex || self.conf.srv.cluster.is_none() {
            return Ok(());
        }
        self.handle.open_mailbox(OwnerBell::Futex)
    }

    /// Whether another generation is in force that could not be taken, so that every item answers
    /// `store`.
    pub fn is_behind(&self) -> bool {
        let generation = self.handle.runtime().generation();
        let is_refused = || self.failed.is_some_and(|failed| failed.generation == generation);
        generation != self.generation && (generation == 0 || is_refused())
    }

    /// Whether the server has given up the runtime.mmap of this attachment, so that nothing is in
    /// force any more. A new attachment may find another one.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.handle.runtime().generation() == 0
    }

    /// Asks the kernel for huge pages under the next part of the groups in memory (16 MiB or less),
    /// for all processes. False when all groups have been done once. In a server the keeper calls
    /// it. Memory that gets none stays in small pages, and works as well.
    pub fn ask_for_huge_pages(&mut self) -> bool {
        self.handle.ask_for_huge_pages()
    }

    /// Whether the last flush failed: answers may not survive a loss of power.
    pub fn flush_failed(&self) -> bool {
        self.handle.runtime().flush_failed()
    }

    /// The time since which no checkpoint could be made, in milliseconds. `None` if the last one
    /// was made, or if checkpoints are off.
    pub fn checkpoints_failing_since(&self) -> Option<u64> {
        self.conf.srv.data.checkpoint?;
        self.handle.runtime().checkpoints_failing_since()
    }

    /// Names of the groups of the configuration that are not served because their files failed.
    pub fn unserved_groups(&self) -> Vec<String> {
        let names = self.conf.map.groups.iter().map(|group| group.name.as_str());
        let unserved = names.filter(|name| {
            let index = self.handle.index_of(name);
            index.is_none_or(|index| self.handle.is_group_quarantined(index))
        });
        unserved.map(str::to_owned).collect()
    }

    /// Publishes to all processes whether a flush failed. For the keeper.
    pub fn set_flush_failed(&self, failed: bool) {
        self.handle.runtime().set_flush_failed(failed);
    }

    /// Continues a slow sweep over all nodes, and reports live nodes of keys. True when the sweep
    /// is over. For the keeper.
    pub fn sweep(
        &mut self,
        sweep: &mut Sweep,
        mut each: impl FnMut(&Seen<'_>),
        most: usize,
        now: Millis,
    ) -> bool {
        // A sweep ranks nodes by their shared limits, too.
        self.set_now(now);
        let table = &self.table;
        let mut live = |group: usize, words: &[u64]| {
            if let Some(seen) = table.seen(group, words, now) {
                each(&seen);
            }
        };
        sweep.step(&self.handle, table, &mut live, most, now)
    }

    /// Recovers every slot whose owner is dead, and returns how many. For the keeper.
    pub fn recover_dead(&mut self) -> usize {
        self.handle.recover_dead()
    }
}

/// The generation in force, once it equals the last one written. They differ for a moment while a
/// generation is being published, and for up to a second if the word was damaged, until the master
/// repairs it. The service never starts with an older generation, unless the repair takes too long.
fn settled_generation(runtime: &Runtime, data_dir: &Path) -> u64 {
    let begun = clock::instant();
    loop {
        let generation = runtime.generation();
        // A process that cannot read the directory accepts the word as it is.
        let is_settled = active::latest(data_dir).map_or(true, |last| last == Some(generation));
        if generation == 0 || is_settled || clock::since(begun) >= SETTLED {
            return generation;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn read_active(data_dir: &Path, generation: u64) -> Result<Conf, Error> {
    let failed = |message: String| Error::Configuration { path: data_dir.to_path_buf(), message };
    #[cfg(all(test, not(miri)))]
    if let Some(conf) = tests::simulation::conf_of(generation) {
        return Ok(conf);
    }
    if generation == 0 {
        return Err(Error::Unpublished { path: data_dir.to_path_buf() });
    }
    active::read(data_dir, generation).map_err(|error| failed(error.to_string()))
}
