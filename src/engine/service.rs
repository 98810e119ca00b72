//! The service: one attachment to a data directory, and the configuration in force.
//!
//! Invariant: all items of a tick are judged by the configuration that the tick has taken. If a
//! newer one cannot be taken, every item answers `store`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frs_base::clock::{self, Millis};
use frs_conf::{Conf, active};
use frs_store::{
    BizRow, Error, Handle, OwnerBell, Places, Runtime, SlotRequest, Sweep, TransactionBuffers,
    live_dir,
};

use crate::plug::{self, Cluster, Learning, Plug, Plugged};
use crate::table::{Seen, Table};
use crate::{Outcome, Role, Service};

/// A generation that the service could not take, and when it tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailedTake {
    generation: u64,
    at: Instant,
}

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
    /// configuration has a cluster, and there is no plug.
    pub fn attach(data_dir: &Path, role: Role, plug: Plugged) -> Result<Service, Error> {
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
        let has_mailboxes = conf.srv.has_mailboxes();
        let mut service = Service::over(handle, data_dir, conf, generation, plug);
        match role {
            Role::Worker if has_mailboxes => service.handle.open_mailbox(OwnerBell::Event)?,
            Role::Program | Role::Admin | Role::Envoy => {
                service.waits_by_futex = true;
                service.open_ring()?;
            }
            _ => {}
        }
        Ok(service)
    }

    /// The service over a handle that has taken the groups of this configuration.
    pub(super) fn over(
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
            scratch: Default::default(),
            buffers: TransactionBuffers::default(),
            registers: Default::default(),
            plug,
            cluster,
            waits_by_futex: false,
            waits: Default::default(),
            reports: Default::default(),
            refusals: Default::default(),
            last_row: BizRow::UNKNOWN,
            last_outcome: Outcome::Allowed,
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
    pub(super) fn set_now(&mut self, now: Millis) {
        if self.table.needs_boot_clock() {
            self.set_times(now, clock::boot_ms());
            return;
        }
        self.table.set_now(now);
        if self.table.has_remote() {
            self.begin_batch();
            if self.table.learning() != Learning::No {
                // Items may wait.
                self.table.boot_clock().set_now(clock::boot_ms());
            }
        }
    }

    /// Sets both times.
    pub(super) fn set_times(&mut self, now: Millis, boot_ms: u64) {
        self.table.set_now(now);
        self.table.boot_clock().set_now(boot_ms);
        self.begin_batch();
    }

    #[inline]
    fn begin_batch(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            cluster.begin_batch(self.handle.runtime());
            self.table.set_learning(cluster.learning());
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
    pub(super) fn take_newer(&mut self) -> bool {
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
        if !self.waits_by_futex || !self.conf.srv.has_mailboxes() {
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
    if let Some(conf) = crate::tests::simulation::conf_of(generation) {
        return Ok(conf);
    }
    if generation == 0 {
        return Err(Error::Unpublished { path: data_dir.to_path_buf() });
    }
    active::read(data_dir, generation).map_err(|error| failed(error.to_string()))
}
