//! A handle: one attachment to a data directory. It owns a slot, maps the configured groups, waits
//! for semaphores within a budget, and recovers the slots of dead processes.
//!
//! Invariant: all semaphore waits of one tick together last at most the lock-timeout, whichever
//! process holds the semaphores.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use frs_base::clock::Millis;
use frs_base::{clock, sys};
use frs_conf::{self as conf, Geometry};

use crate::commit::protocol::Owner;
use crate::error::Error;
use crate::file::group::{self, Group};
use crate::file::layout::runtime as layout;
use crate::file::version::Versioned;
use crate::lock::semaphore::{Semaphore, Token};
use crate::lock::waiter::Waiter;
use crate::recover::dead_slots::{Reach, recover_slot};
use crate::recover::notice::Notice;
use crate::watch::counter::{BizRow, ClientRow, Counter, Counters, GroupCounter, GroupRow, Nodes};
use crate::watch::places::{Places, SlotRequest};
use crate::watch::refused::{RefusedKey, RefusedSketches};
use crate::watch::runtime::{NamedGroup, Runtime, Slot};
use crate::watch::slot::SlotWords;

/// After a wait this long, the waiter checks whether the holder lives.
const PATIENCE: Duration = Duration::from_millis(3);
/// Maximum number of holders remembered as stalled.
const STALLED_MAX: usize = 64;

/// One attachment. It is unusable in a forked child.
#[derive(Debug)]
pub struct Handle {
    // Dropped first: groups point into the words of the runtime.
    pub(crate) groups: Vec<Group>,
    /// The number of groups that the configuration names, which come first. The others are groups
    /// that these grow out of.
    named: usize,
    /// The counter row of each group.
    group_rows: Vec<GroupRow>,
    retired: Vec<Retired>,
    pub(crate) slot: Option<Slot>,
    pub(crate) runtime: Runtime,
    live_dir: PathBuf,
    forks: u64,
    /// When the retired groups were last checked.
    retired_looked: Option<Instant>,
    lock_timeout: Duration,
    /// The rest of `lock_timeout` in this tick. It is in a `Cell`, because it changes while groups
    /// are borrowed. So a handle belongs to one thread.
    budget: Cell<Duration>,
    stalled: RefCell<Vec<Stalled>>,
    /// Log lines to write once no semaphore is held.
    notices: RefCell<Vec<Notice>>,
    /// The number of this run of this machine: the owner of the records that it changes.
    pub(crate) run: u32,
    /// Some group is mirrored.
    pub(crate) has_mirrored: bool,
}

/// A refused Update. The key is borrowed, because a copy would wait for the stores of its words.
#[derive(Debug, Clone, Copy)]
pub struct RefusedUpdate<'k> {
    /// The row of its business.
    pub row: BizRow,
    /// The number of its refuser: see [`refuser`](crate::watch::counter::refuser).
    pub refuser: usize,
    /// Its key.
    pub key: &'k RefusedKey,
}

/// A group that the configuration no longer names.
#[derive(Debug)]
struct Retired {
    /// The first generation without it.
    generation: u64,
    /// Unmapped when this is dropped.
    _group: Group,
}

/// A group of the configuration that the handle is about to take.
enum Meant {
    /// The group is mapped, at this index.
    Mapped(usize),
    /// The group was opened for this configuration.
    Opened(Box<Group>),
}

/// How a wait for a semaphore ended.
#[derive(Debug, Clone, Copy)]
struct Waited {
    is_taken: bool,
    time: Duration,
}

/// A holder that timed out. This handle does not wait for it again while it is in the same
/// transaction.
#[derive(Debug, Clone, Copy)]
struct Stalled {
    holder: Token,
    sequence: u64,
    /// Whether this tick has already checked that the holder lives.
    looked: bool,
}

/// Maximum number of notices kept until they are logged. Further notices are dropped.
const NOTICES_MAX: usize = 64;
/// Time between two checks of the retired groups.
pub const RETIRED_EVERY: Duration = Duration::from_secs(1);

impl Handle {
    /// Attaches to a data directory at any slot. Group files are in `live_dir`. No group is mapped.
    pub fn attach(data_dir: &Path, live_dir: &Path, role: u32) -> Result<Handle, Error> {
        Self::attach_at(data_dir, live_dir, SlotRequest { role, places: &Places::ALL })
    }

    /// Like [`Handle::attach`], at one of the slots reserved for its role.
    pub fn attach_at(
        data_dir: &Path,
        live_dir: &Path,
        request: SlotRequest<'_>,
    ) -> Result<Handle, Error> {
        let runtime = Runtime::open(data_dir)?;
        Self::attach_by(runtime, Vec::new(), live_dir, |runtime, recover| {
            Slot::attach(runtime, request, recover)
        })
    }

    /// Attaches with the slot that `take_slot` returns. Dead slots are recovered with the groups
    /// that are already mapped.
    pub(crate) fn attach_by(
        runtime: Runtime,
        groups: Vec<Group>,
        live_dir: &Path,
        take_slot: impl FnOnce(&Runtime, &mut dyn FnMut(u32)) -> Result<Slot, Error>,
    ) -> Result<Handle, Error> {
        sys::count_forks();
        let forks = sys::forks();
        let mut notices = Vec::with_capacity(NOTICES_MAX);
        let mut recover = |slot| {
            recover_slot(&runtime, slot, &groups, live_dir, &mut notices);
        };
        let slot = take_slot(&runtime, &mut recover)?;
        slot.words().set_retired(0);
        let recoveries = notices.iter().filter(|n| matches!(n, Notice::Recovery { .. })).count();
        (0..recoveries).for_each(|_| slot.count(Counter::Recoveries));
        notices.drain(..).for_each(|notice| notice.log(&groups));
        Ok(Handle {
            named: groups.len(),
            groups,
            group_rows: Vec::new(),
            retired: Vec::new(),
            retired_looked: None,
            slot: Some(slot),
            runtime,
            live_dir: live_dir.to_path_buf(),
            forks,
            lock_timeout: Duration::ZERO,
            budget: Cell::new(Duration::ZERO),
            stalled: RefCell::new(Vec::with_capacity(STALLED_MAX)),
            notices: RefCell::new(notices),
            run: 0,
            has_mirrored: false,
        })
    }

    /// Maps the groups of a configuration and acknowledges its generation. The groups that it names
    /// come first, then the groups that these grow out of. A group already mapped stays mapped if
    /// its files are still the registered ones. A group that is no longer needed is unmapped when
    /// no process is in a transaction of a generation with it. A group with damaged files is left
    /// out and quarantined. On any other error nothing has changed.
    pub fn take_groups(
        &mut self,
        groups: &[conf::Group],
        generation: u64,
        lock_timeout: Duration,
    ) -> Result<(), Error> {
        let (mut meant, mut formers) = (Vec::new(), Vec::new());
        for configured in groups {
            let name = &configured.name;
            let Some(NamedGroup { id, former }) = self.named_group(configured)? else {
                // The group was never prepared: opening it gives the error.
                meant.push(self.open_if_sound(name, None)?);
                continue;
            };
            let pair = (self.mapped_or_opened(name, id)?, former);
            let (group, former) = match pair {
                (Some(group), Some(former)) => match self.mapped_or_opened(name, former)? {
                    Some(former) => (Some(group), Some(former)),
                    // Without the former group, nodes that have not moved would start again from 0.
                    None => (None, None),
                },
                (group, _) => (group, None),
            };
            meant.push(group);
            formers.extend(former);
        }
        let meant: Vec<Meant> = meant.into_iter().flatten().collect();
        self.named = meant.len();
        let mut old: Vec<Option<Group>> =
            std::mem::take(&mut self.groups).into_iter().map(Some).collect();
        let mut take = |meant| match meant {
            Meant::Mapped(index) => old.get_mut(index).and_then(Option::take),
            Meant::Opened(group) => Some(*group),
        };
        self.groups = meant.into_iter().chain(formers).filter_map(&mut take).collect();
        self.run = self.runtime.run();
        self.has_mirrored = false;
        for (index, group) in self.groups.iter_mut().enumerate() {
            let is_former = index >= self.named;
            group.set_former(is_former);
            let is_of = |configured: &&conf::Group| configured.name == group.header().name;
            let is_mirrored = groups.iter().find(is_of).is_some_and(|one| one.mirror_ms.is_some());
            self.has_mirrored |= is_mirrored;
            group.set_versioned(match (is_mirrored, is_former) {
                (false, _) => Versioned::No,
                (true, false) => Versioned::Yes,
                (true, true) => Versioned::Kept,
            });
        }
        if self.has_mirrored {
            self.runtime.allocate_changes(self.slot().number())?;
        }
        let retired = old.into_iter().flatten();
        self.retired.extend(retired.map(|group| Retired { generation, _group: group }));
        self.tell_retired();
        let counters = self.slot().counters();
        let row = |group: &Group| counters.group_row(&group.header().name);
        self.group_rows = self.groups.iter().map(row).collect();
        self.lock_timeout = lock_timeout;
        self.budget.set(lock_timeout);
        self.slot().words().set_generation(generation);
        Ok(())
    }

    /// The registered group that a configuration uses. If two groups have the name, but the group
    /// does not move in this configuration, then the move has not begun yet or has ended: the
    /// geometry tells which. A group of unreadable geometry is preferred to one of another
    /// geometry.
    fn named_group(&self, configured: &conf::Group) -> Result<Option<NamedGroup>, Error> {
        let named = self.runtime.named_groups(&configured.name);
        let &[next, former, ..] = &named[..] else { return Ok(named.first().copied()) };
        if configured.moving.is_some() {
            return Ok(Some(next));
        }
        let mut unread = None;
        for group in [former, next] {
            let alone = NamedGroup { former: None, ..group };
            match self.geometry_of(&configured.name, group.id) {
                Ok(geometry) if geometry == configured.geometry => return Ok(Some(alone)),
                Ok(_) => {}
                Err(error) if error.is_transient() => return Err(error),
                Err(_) => unread = Some(alone),
            }
        }
        Ok(Some(unread.unwrap_or(NamedGroup { former: None, ..next })))
    }

    fn geometry_of(&self, name: &str, id: u64) -> Result<Geometry, Error> {
        if let Some(mapped) = self.groups.iter().find(|mapped| mapped.header().id == id) {
            return Ok(*mapped.geometry());
        }
        #[cfg(any(test, feature = "crash-points"))]
        if let Some(shared) = self.runtime.shared() {
            return shared.open(id, &self.runtime).map(|group| *group.geometry());
        }
        group::open_files_with_id(&self.live_dir, name, id).map(|open| open.header.geometry)
    }

    /// The group with this id: the mapped one, or newly opened. None if its files are damaged.
    fn mapped_or_opened(&self, name: &str, id: u64) -> Result<Option<Meant>, Error> {
        let is_it = |group: &Group| group.header().id == id && group.is_registered(&self.runtime);
        match self.groups.iter().position(is_it) {
            Some(index) => Ok(Some(Meant::Mapped(index))),
            None => self.open_if_sound(name, Some(id)),
        }
    }

    /// Opens a group. None if its files are damaged: it is then quarantined, and its items answer
    /// `store`. If only this process lacks the permission to open them, the items answer `store` in
    /// this process only.
    fn open_if_sound(&self, name: &str, id: Option<u64>) -> Result<Option<Meant>, Error> {
        let opened = match id {
            Some(id) => Group::open_id(&self.live_dir, name, id, &self.runtime),
            None => Group::open(&self.live_dir, name, &self.runtime),
        };
        match opened {
            Ok(group) => Ok(Some(Meant::Opened(Box::new(group)))),
            Err(error) if error.is_transient() => Err(error),
            Err(error) => {
                tracing::error!(group = name, %error, "the group is not served");
                if let Some(id) = id.filter(|_| !error.is_denied()) {
                    self.runtime.quarantine_groups(|group| group == id);
                }
                Ok(None)
            }
        }
    }

    /// Starts a tick with the full lock-timeout.
    #[inline]
    pub fn begin_tick(&mut self) {
        self.budget.set(self.lock_timeout);
        if !self.stalled.get_mut().is_empty() || !self.retired.is_empty() {
            self.look_around();
        }
        if !self.notices.get_mut().is_empty() {
            self.log_notices();
        }
    }

    #[cold]
    fn look_around(&mut self) {
        let (runtime, stalled) = (&self.runtime, self.stalled.get_mut());
        stalled.retain(|known| known.stands_still(runtime));
        for stalled in stalled {
            stalled.looked = false;
        }
        let now = clock::instant();
        let due = self.retired_looked.is_none_or(|last| now - last >= RETIRED_EVERY);
        if due && !self.retired.is_empty() {
            self.retired_looked = Some(now);
            let runtime = &self.runtime;
            self.retired.retain(|group| !runtime.has_settled(group.generation));
            self.tell_retired();
        }
    }

    /// Whether it has groups mapped that its configuration no longer names. Then a tick is due
    /// within [`RETIRED_EVERY`].
    pub fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    fn tell_retired(&self) {
        self.slot().words().set_retired(self.retired.len() as u64);
    }

    #[cold]
    fn log_notices(&mut self) {
        let groups = &self.groups;
        self.notices.get_mut().drain(..).for_each(|notice| notice.log(groups));
    }

    /// Keeps a notice until no semaphore is held, then logs it.
    pub(crate) fn note(&self, notice: Notice) {
        let mut notices = self.notices.borrow_mut();
        if notices.len() < NOTICES_MAX {
            notices.push(notice);
        }
    }

    /// Index of the group of this name, if it is mapped.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.groups[..self.named].iter().position(|group| group.header().name == name)
    }

    /// Index of the group that the group with this index grows out of.
    pub fn former_of(&self, index: usize) -> Option<usize> {
        if index >= self.named {
            return None;
        }
        let name = &self.groups[index].header().name;
        let mut formers = self.groups[self.named..].iter();
        formers.position(|group| group.header().name == *name).map(|at| self.named + at)
    }

    /// Indexes of the groups that others grow out of.
    pub fn formers(&self) -> std::ops::Range<usize> {
        self.named..self.groups.len()
    }

    pub(crate) fn slot(&self) -> &Slot {
        self.slot.as_ref().expect("a handle has its slot until it is dropped")
    }

    /// The counters of its slot. None in a forked child, which does not have the map of the slot.
    #[inline]
    pub fn counters(&self) -> Option<Counters<'_>> {
        if self.is_forked() {
            return None;
        }
        self.slot.as_ref().map(Slot::counters)
    }

    /// Counts one event of the group with this index.
    pub(crate) fn count_at(&self, group: usize, counter: GroupCounter) {
        let row = self.group_rows.get(group).copied().unwrap_or(GroupRow::OTHERS);
        self.slot().counters().add_to_group(row, counter, 1);
    }

    /// Counts events of a group that need not be mapped.
    pub(crate) fn count_of_group(&self, name: &str, counter: GroupCounter, by: u64) {
        let counters = self.slot().counters();
        counters.add_to_group(counters.group_row(name), counter, by);
    }

    /// Stores the findings of a sweep over the group with this index.
    pub fn set_nodes(&self, group: usize, nodes: &Nodes) {
        if let (Some(counters), Some(&row)) = (self.counters(), self.group_rows.get(group))
            && row != GroupRow::OTHERS
        {
            counters.set_nodes(row, nodes);
        }
    }

    /// The counter rows of these businesses. A business is counted with all others if no row is
    /// left, or if the disk has no room for a row.
    pub fn biz_rows(&self, ids: &[u32]) -> Vec<BizRow> {
        let Some(counters) = self.counters() else { return vec![BizRow::OTHERS; ids.len()] };
        let slot = self.slot().number();
        counters.biz_rows(ids, |rows| match self.runtime.allocate_biz_rows(slot, rows) {
            Ok(()) => rows,
            Err(error) => {
                tracing::warn!(%error, "no row is left for new businesses: counted as others");
                0
            }
        })
    }

    /// The counter rows of these clients, by their names. A client is counted with all others if no
    /// row is left, or if the disk has no room for a row. There are no rows in a forked child, or
    /// if the disk has no room for any.
    pub fn client_rows(&self, names: &[&str]) -> Vec<ClientRow> {
        let Some(counters) = self.counters() else { return Vec::new() };
        let slot = self.slot().number();
        counters.client_rows(names, |rows| match self.runtime.allocate_client_rows(slot, rows) {
            Ok(()) => rows,
            Err(error) => {
                tracing::warn!(%error, "no row is left for new clients: counted as others");
                0
            }
        })
    }

    /// Counts a refused Update in the row of its business, and its key in a sketch. If the disk has
    /// no room for a sketch, the key is in none.
    pub fn count_refusal(
        &self,
        refusal: &RefusedUpdate<'_>,
        sketches: &mut RefusedSketches,
        now: Millis,
    ) {
        let Some(counters) = self.counters() else { return };
        counters.count_refusal(refusal.row, refusal.refuser);
        let slot = self.slot().number();
        sketches.count(counters, refusal.key, now, |sketch| {
            self.runtime.allocate_sketch(slot, sketch).is_ok()
        });
    }

    /// The shared words that all handles read.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The mapped groups: first those that the configuration names, then the groups that these grow
    /// out of.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The directory of the group files.
    pub(crate) fn live_dir(&self) -> &Path {
        &self.live_dir
    }

    /// Whether the process was forked since it attached.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        sys::forks() != self.forks
    }

    /// Asks for huge pages under the next part of the groups in memory, at most 16 MiB. False once
    /// it has asked for all parts of all groups.
    pub fn ask_for_huge_pages(&mut self) -> bool {
        self.groups.iter_mut().any(Group::ask_for_huge_pages)
    }

    /// Populates the page tables of all served groups. Quarantines and skips a group if a file of
    /// it fails.
    pub fn prefault(&self) -> Result<(), Error> {
        let served = self.groups.iter().filter(|group| !self.runtime.is_quarantined(group.mark()));
        for group in served {
            match group.prefault(&self.live_dir) {
                Err(error) if error.is_of_a_page() => {
                    tracing::error!(group = group.header().name, %error, "the group is not served");
                    self.runtime.quarantine_groups(|id| id == group.header().id);
                }
                result => result?,
            }
        }
        Ok(())
    }

    /// Recovers every slot whose owner is dead. Returns their number.
    pub fn recover_dead(&mut self) -> usize {
        let own = self.slot().number();
        let recovered = (0..layout::SLOTS as u32)
            .filter(|&slot| slot != own && self.runtime.slot(slot).state().used)
            .filter(|&slot| !self.runtime.is_locked(slot) && self.recover(slot))
            .count();
        self.log_notices();
        recovered
    }

    fn recover(&self, slot: u32) -> bool {
        let mut notices = Vec::new();
        let done = recover_slot(&self.runtime, slot, &self.groups, &self.live_dir, &mut notices);
        notices.into_iter().for_each(|notice| self.note(notice));
        if done {
            self.slot().count(Counter::Recoveries);
        }
        done
    }

    /// Waits for a semaphore that was not free, for at most the rest of the tick's lock-timeout.
    #[cold]
    fn take_contended(&self, semaphore: Semaphore<'_>) -> bool {
        self.slot().count(Counter::SemaphoreWaits);
        // Before any look, because a stalled holder is not waited for at all.
        if self.is_stalled(semaphore) {
            self.slot().count(Counter::SemaphoreBusy);
            return false;
        }
        let mut waiter = Waiter::new();
        if waiter.look_awhile(semaphore, self.slot().token()).is_none() {
            return true;
        }
        let waited = self.wait(waiter, semaphore, clock::instant());
        self.budget.set(self.budget.get().saturating_sub(waited.time));
        if !waited.is_taken {
            self.slot().count(Counter::SemaphoreBusy);
        }
        waited.is_taken
    }

    fn wait(&self, mut waiter: Waiter, semaphore: Semaphore<'_>, start: Instant) -> Waited {
        let token = self.slot().token();
        let (mut look_at, mut has_looked) = (PATIENCE, false);
        loop {
            let found = waiter.look_awhile(semaphore, token);
            let waited = clock::instant() - start;
            let Some(seen) = found else { return Waited { is_taken: true, time: waited } };
            let is_over = waited >= self.budget.get();
            // Check at least once, even if the time is short: some semaphores are freed only by a
            // check.
            let is_due = if is_over { !has_looked } else { waited >= look_at };
            if seen != 0 && is_due {
                (look_at, has_looked) = (waited + PATIENCE, true);
                if self.look_at_holder(semaphore, seen) {
                    continue;
                }
            }
            if is_over {
                self.remember(seen, waited);
                return Waited { is_taken: false, time: waited };
            }
            if seen == 0 {
                continue;
            }
            semaphore.sleep_slice(seen);
            waiter.wakes();
        }
    }

    /// Whether the holder timed out before and has not moved since.
    fn is_stalled(&self, semaphore: Semaphore<'_>) -> bool {
        let seen = semaphore.word();
        let holder = Token::of_word(seen);
        let mut stalled = self.stalled.borrow_mut();
        let Some(index) = stalled.iter().position(|known| Some(known.holder) == holder) else {
            return false;
        };
        let mut moved = !stalled[index].stands_still(&self.runtime);
        if !moved && !stalled[index].looked {
            stalled[index].looked = true;
            // The holder may have died since. Check this once a tick.
            moved = self.look_at_holder(semaphore, seen);
        }
        if moved {
            stalled.swap_remove(index);
        }
        !moved
    }

    /// Remembers the holder that `seen` names, if `waited` is at least half of the lock-timeout.
    fn remember(&self, seen: u32, waited: Duration) {
        let Some(holder) = Token::of_word(seen) else { return };
        if waited < self.lock_timeout / 2 {
            return;
        }
        let mut stalled = self.stalled.borrow_mut();
        if stalled.len() == STALLED_MAX {
            stalled.remove(0);
        }
        let sequence = self.runtime.slot(holder.slot()).sequence();
        stalled.push(Stalled { holder, sequence, looked: false });
    }

    /// Checks whether the holder named by `seen` lives, and frees the semaphore if not. Returns
    /// true if anything was changed, so that a retry is worthwhile.
    fn look_at_holder(&self, semaphore: Semaphore<'_>, seen: u32) -> bool {
        let Some(holder) = Token::of_word(seen) else {
            if semaphore.free_unowned() {
                self.slot().count(Counter::SemaphoreOrphans);
            }
            return true;
        };
        let is_gone = || {
            let state = self.runtime.slot(holder.slot()).state();
            !state.used || state.epoch != holder.epoch()
        };
        // Read twice: word, state, word, state. If the holder released and detached between the
        // first two, the third differs.
        if is_gone() {
            if Token::of_word(semaphore.word()) == Some(holder)
                && is_gone()
                && semaphore.release_for(holder)
            {
                self.slot().count(Counter::SemaphoreOrphans);
            }
            return true;
        }
        if self.runtime.is_locked(holder.slot()) {
            return self.free_orphan(semaphore, holder);
        }
        self.recover(holder.slot())
    }
}

/// A handle that is not forked, as the owner of a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attached<'h> {
    pub(crate) handle: &'h Handle,
    token: Token,
    words: SlotWords<'h>,
}

impl<'h> Attached<'h> {
    #[inline(always)]
    pub(crate) fn of(handle: &'h Handle) -> Attached<'h> {
        let slot = handle.slot();
        Attached { handle, token: slot.token(), words: slot.words() }
    }
}

impl Owner for Attached<'_> {
    #[inline(always)]
    fn slot(&self) -> SlotWords<'_> {
        self.words
    }

    #[inline(always)]
    fn take(&self, semaphore: Semaphore<'_>) -> bool {
        semaphore.try_take(self.token).is_ok() || self.handle.take_contended(semaphore)
    }

    fn roll_back(&self) {
        let reach = Reach::new(&self.handle.runtime, &self.handle.groups);
        self.words.roll_back(&reach);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let slot = self.slot.take();
        if self.is_forked() {
            // This child does not have the slot's map. Its address may hold something else.
            std::mem::forget(slot);
        } else if let Some(slot) = slot {
            slot.detach();
        }
    }
}

impl Stalled {
    /// Whether the same owner is still in the same transaction.
    fn stands_still(&self, runtime: &Runtime) -> bool {
        let words = runtime.slot(self.holder.slot());
        words.state().epoch == self.holder.epoch() && words.sequence() == self.sequence
    }
}
