//! A handle: one attachment to a data directory. It owns a slot, maps the groups of the
//! configuration, waits for semaphores within a budget, and recovers slots of the dead.
//!
//! Invariant: all waits of one turn together last at most the lock-timeout, whoever holds what.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::counter::Counter;
use super::error::Error;
use super::group::Group;
use super::layout::runtime as layout;
use super::runtime::{Runtime, Slot};
use super::semaphore::{Semaphore, Token};
use super::slot::{Files, Intent, Undo};
use super::transaction::Scratch;
use crate::sync::Ordering;
use crate::{clock, conf, sys};

/// A wait longer than this looks whether the holder lives.
const PATIENCE: Duration = Duration::from_millis(3);
/// Looks at a semaphore before the first sleep.
const SPINS: u32 = 100;
/// Holders remembered as stalled.
const STALLED_MAX: usize = 64;

/// One attachment; dead in a forked child.
#[derive(Debug)]
pub struct Handle {
    // Groups point into the runtime's words: they are dropped first.
    pub(super) groups: Vec<Group>,
    retired: Vec<(u64, Group)>,
    pub(super) slot: Option<Slot>,
    pub(super) runtime: Runtime,
    live_dir: PathBuf,
    forks: u64,
    lock_timeout: Duration,
    /// What is left of it in this turn.
    budget: Duration,
    stalled: Vec<Stalled>,
    pub(super) scratch: Scratch,
}

/// A holder that timed out, and where: while that semaphore still names it, it is not waited for.
#[derive(Debug, Clone, Copy)]
struct Stalled {
    holder: Token,
    group: usize,
    file: u32,
    key_node: u32,
    /// Has this turn looked whether it lives.
    looked: bool,
}

impl Handle {
    /// Attaches to a data directory, whose group files stand in `live_dir`. It has no groups yet.
    pub fn attach(data_dir: &Path, live_dir: &Path, role: u32) -> Result<Handle, Error> {
        let runtime = Runtime::open(data_dir)?;
        sys::count_forks();
        let forks = sys::forks();
        let mut recover = |slot| {
            recover_slot(&runtime, slot, &[], live_dir);
        };
        let slot = Slot::attach(&runtime, role, &mut recover)?;
        Ok(Handle {
            groups: Vec::new(),
            retired: Vec::new(),
            slot: Some(slot),
            runtime,
            live_dir: live_dir.to_path_buf(),
            forks,
            lock_timeout: Duration::ZERO,
            budget: Duration::ZERO,
            stalled: Vec::with_capacity(STALLED_MAX),
            scratch: Scratch::default(),
        })
    }

    /// Maps the groups of a configuration, in its order, and acknowledges its generation. Groups
    /// mapped already stay so; those no longer named are unmapped when every living slot has
    /// acknowledged a generation without them. A group whose files were damaged since they were
    /// prepared is quarantined: it costs its own items, not the others. On an error nothing has
    /// changed.
    pub fn take_groups(
        &mut self,
        groups: &[conf::Group],
        generation: u64,
        lock_timeout: Duration,
    ) -> Result<(), Error> {
        let mut opened = Vec::new();
        for group in groups {
            if !self.groups.iter().any(|known| known.header().name == group.name) {
                opened.push(self.open_group(group)?);
            }
        }
        let mut known: Vec<Group> = self.groups.drain(..).chain(opened).collect();
        for group in groups {
            let index = known.iter().position(|known| known.header().name == group.name);
            self.groups.push(known.swap_remove(index.expect("opened above")));
        }
        self.retired.extend(known.into_iter().map(|group| (generation, group)));
        self.stalled.clear();
        self.lock_timeout = lock_timeout;
        self.budget = lock_timeout;
        self.slot().words().set_generation(generation);
        Ok(())
    }

    fn open_group(&self, group: &conf::Group) -> Result<Group, Error> {
        match Group::open(&self.live_dir, &group.name, &self.runtime) {
            Err(error) if error.is_damage() => {
                let Some(mark) = self.runtime.find_name(&group.name) else { return Err(error) };
                tracing::error!(group = group.name, %error, "cannot be served: quarantined");
                self.runtime.mark_of(mark).fetch_or(layout::FILE_QUARANTINE, Ordering::Relaxed);
                Ok(Group::stand_in(group, mark))
            }
            opened => opened,
        }
    }

    /// Starts a turn: the lock-timeout is whole again.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.budget = self.lock_timeout;
        for stalled in &mut self.stalled {
            stalled.looked = false;
        }
        if !self.retired.is_empty() {
            self.unmap_retired();
        }
    }

    #[cold]
    fn unmap_retired(&mut self) {
        let oldest =
            self.runtime.slots().iter().filter(|slot| slot.alive).map(|s| s.generation).min();
        self.retired.retain(|(generation, _)| oldest.is_some_and(|oldest| oldest < *generation));
    }

    pub(super) fn slot(&self) -> &Slot {
        self.slot.as_ref().expect("a handle has its slot until it is dropped")
    }

    /// The shared words all handles look at.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The groups mapped, in the configuration's order.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Number of its slot.
    pub fn slot_number(&self) -> u32 {
        self.slot().number()
    }

    /// Was the process forked since it attached.
    #[inline]
    pub(super) fn is_forked(&self) -> bool {
        sys::forks() != self.forks
    }

    /// Writes dirty pages of groups on disk back and waits for it; every group is tried, the first
    /// error is returned.
    pub fn flush(&self) -> Result<(), Error> {
        let flushed: Vec<Result<(), Error>> = self
            .groups
            .iter()
            .filter(|group| !group.is_in_memory())
            .map(|group| group.flush(&self.live_dir))
            .collect();
        flushed.into_iter().collect()
    }

    /// Populates the page tables of all groups.
    pub fn prefault(&self) -> Result<(), Error> {
        self.groups.iter().try_for_each(|group| group.prefault(&self.live_dir))
    }

    /// Recovers every slot whose owner is dead; how many.
    pub fn recover_dead(&self) -> usize {
        let own = self.slot().number();
        (0..layout::SLOTS as u32)
            .filter(|&slot| slot != own && self.runtime.slot(slot).state().used)
            .filter(|&slot| !self.runtime.is_locked(slot) && self.recover(slot))
            .count()
    }

    /// Undoes this handle's own open transaction.
    #[cold]
    pub(super) fn roll_back(&self) {
        let opened = RefCell::new(Vec::new());
        let (runtime, groups, live_dir) = (&self.runtime, &self.groups[..], &self.live_dir);
        let reach = Reach { runtime, groups, live_dir, opened };
        self.slot().words().roll_back(&reach);
    }

    fn recover(&self, slot: u32) -> bool {
        let done = recover_slot(&self.runtime, slot, &self.groups, &self.live_dir);
        if done {
            self.slot().count(Counter::Recoveries);
        }
        done
    }

    /// Takes the semaphore of a key-node within what is left of the turn's lock-timeout.
    #[inline]
    pub(super) fn take(&mut self, group: usize, file: u32, key_node: u32) -> bool {
        let token = self.slot().token();
        match self.groups[group].semaphore(file, key_node).try_take(token) {
            Ok(()) => true,
            Err(_) => self.take_contended(group, file, key_node),
        }
    }

    #[cold]
    fn take_contended(&mut self, group: usize, file: u32, key_node: u32) -> bool {
        let token = self.slot().token();
        self.slot().count(Counter::SemaphoreWaits);
        for _ in 0..SPINS {
            std::hint::spin_loop();
            let semaphore = self.groups[group].semaphore(file, key_node);
            if semaphore.word() == 0 && semaphore.try_take(token).is_ok() {
                return true;
            }
        }
        if self.is_stalled(group, file, key_node) {
            self.slot().count(Counter::SemaphoreBusy);
            return false;
        }
        let (taken, waited) = self.wait(group, file, key_node, clock::instant());
        self.budget = self.budget.saturating_sub(waited);
        if !taken {
            self.slot().count(Counter::SemaphoreBusy);
        }
        taken
    }

    fn wait(&mut self, group: usize, file: u32, key_node: u32, start: Instant) -> (bool, Duration) {
        let token = self.slot().token();
        let mut look_at = PATIENCE;
        loop {
            let semaphore = self.groups[group].semaphore(file, key_node);
            let seen = semaphore.word();
            if seen == 0 {
                if semaphore.try_take_after_sleep(token).is_ok() {
                    return (true, start.elapsed());
                }
                continue;
            }
            let waited = start.elapsed();
            if waited >= self.budget {
                self.remember(seen, group, file, key_node);
                return (false, waited);
            }
            if waited >= look_at {
                look_at = waited + PATIENCE;
                if self.look_at_holder(semaphore, seen) {
                    continue;
                }
            }
            semaphore.sleep_slice(seen);
        }
    }

    /// Is the holder one that timed out before and has not moved since.
    fn is_stalled(&mut self, group: usize, file: u32, key_node: u32) -> bool {
        let seen = self.groups[group].semaphore(file, key_node).word();
        let holder = Token::of_word(seen);
        let Some(index) = self.stalled.iter().position(|known| Some(known.holder) == holder) else {
            return false;
        };
        let known = self.stalled[index];
        let held = self.groups[known.group].semaphore(known.file, known.key_node);
        if Token::of_word(held.word()) != holder {
            self.stalled.swap_remove(index);
            return false;
        }
        if !known.looked {
            self.stalled[index].looked = true;
            // It may have died since: once a turn that is looked at.
            let semaphore = self.groups[group].semaphore(file, key_node);
            if self.look_at_holder(semaphore, seen) {
                self.stalled.swap_remove(index);
                return false;
            }
        }
        true
    }

    fn remember(&mut self, seen: u32, group: usize, file: u32, key_node: u32) {
        let Some(holder) = Token::of_word(seen) else { return };
        if self.lock_timeout != Duration::ZERO && self.budget < self.lock_timeout / 2 {
            // It had no fair share of the turn's time: wait for it in the next one.
            return;
        }
        if self.stalled.len() == STALLED_MAX {
            self.stalled.remove(0);
        }
        self.stalled.push(Stalled { holder, group, file, key_node, looked: false });
    }

    /// Looks whether the holder named by `seen` lives; frees the semaphore if not. True if
    /// something was done, so that a new try is worth it.
    fn look_at_holder(&self, semaphore: Semaphore<'_>, seen: u32) -> bool {
        let Some(holder) = Token::of_word(seen) else { return true };
        let is_gone = || {
            let state = self.runtime.slot(holder.slot()).state();
            !state.used || state.epoch != holder.epoch()
        };
        // Read twice: word, state, word, state. A holder that released and detached between the
        // first two has changed the word by the third.
        if is_gone() {
            if Token::of_word(semaphore.word()) == Some(holder)
                && is_gone()
                && semaphore.release_for(holder)
            {
                self.slot().count(Counter::SemaphoreOrphans);
            }
            return true;
        }
        !self.runtime.is_locked(holder.slot()) && self.recover(holder.slot())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let slot = self.slot.take();
        if self.is_forked() {
            // The slot's map is not here, something else may stand in its place.
            std::mem::forget(slot);
        } else if let Some(slot) = slot {
            slot.detach();
        }
    }
}

/// Recovers a slot if its owner is dead and its lock is to be had at once.
fn recover_slot(runtime: &Runtime, slot: u32, groups: &[Group], live_dir: &Path) -> bool {
    let done = runtime.with_dead_slot(slot, || {
        let words = runtime.slot(slot);
        let state = words.state();
        if !state.used {
            return false;
        }
        let (pid, _) = words.owner();
        let reach = Reach { runtime, groups, live_dir, opened: RefCell::new(Vec::new()) };
        let undone = words.phase();
        let freed = words.recover(slot, &reach);
        tracing::info!(slot, dead_pid = pid, undone_words = undone, freed, "slot recovered");
        true
    });
    done.unwrap_or(false)
}

/// How a recoverer reaches group files: those it has, others by the register.
struct Reach<'a> {
    runtime: &'a Runtime,
    groups: &'a [Group],
    live_dir: &'a Path,
    opened: RefCell<Vec<(u64, Option<Group>)>>,
}

impl Reach<'_> {
    fn with<T>(&self, id: u64, work: impl FnOnce(&Group) -> T) -> Option<T> {
        if let Some(group) = self.groups.iter().find(|group| group.header().id == id) {
            // Its pages may be gone. What is half written there is scanned before it is served.
            let reachable = !self.runtime.is_quarantined(group.mark());
            return reachable.then(|| work(group));
        }
        let mut opened = self.opened.borrow_mut();
        let index = opened.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
            opened.push((id, self.open(id)));
            opened.len() - 1
        });
        opened[index].1.as_ref().map(work)
    }

    fn open(&self, id: u64) -> Option<Group> {
        let (index, entry) = self.runtime.find_file(id, 0)?;
        match Group::open(self.live_dir, &entry.name, self.runtime) {
            Ok(group) if group.header().id == id => Some(group),
            Ok(_) => None,
            Err(error) => {
                // What was half written there stays: the group is not served from before a scan.
                tracing::error!(group = entry.name, %error, "cannot recover: quarantined");
                let mark = self.runtime.mark_of(index);
                mark.fetch_or(layout::FILE_QUARANTINE, Ordering::Relaxed);
                None
            }
        }
    }
}

impl Files for Reach<'_> {
    fn restore(&self, undo: &Undo) {
        self.with(undo.group, |group| {
            let in_bounds = undo.file < group.geometry().files
                && undo.at >= super::layout::PAGE_WORDS as u64
                && (undo.at as usize) < group.file(undo.file).len();
            if in_bounds {
                group.file(undo.file).store(undo.at as usize, undo.old);
            }
        });
    }

    fn release_for(&self, intent: &Intent, dead: Token) -> bool {
        self.with(intent.group, |group| {
            group.has(intent.file, intent.key_node)
                && group.semaphore(intent.file, intent.key_node).release_for(dead)
        })
        .unwrap_or(false)
    }
}
