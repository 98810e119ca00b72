//! runtime.mmap: the slots of attached handles, the register of group files, the generation of the
//! configuration in force.
//!
//! Invariant: a slot's byte lock lives exactly as long as the address space of its owner: the lock
//! was taken through the description that the owner's slot is mapped through, the map is left out of
//! forked children, and the descriptor is closed. All other maps use another description. Where maps
//! keep no description (overlayfs) a descriptor of its own stays open: a forked child keeps the lock
//! there.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::backing::Backing;
use super::counter::{Counter, Counters, GroupCounter, SlotCounts, Sums};
use super::error::{Error, expect, io_error};
use super::layout::{self, runtime as at, slot};
use super::places::Places;
use super::region::Region;
use super::semaphore::Token;
use super::slot::{SlotWords, State};
use crate::base::sync::Ordering;
use crate::base::sys;

mod look;

pub use look::Damage;

pub(super) const SLOT_BYTES: u64 = slot::WORDS as u64 * 8;
/// The part of a slot that is allocated whole: all but the rows of businesses.
const SLOT_WHOLE_BYTES: u64 = slot::BIZ_ROWS_START as u64 * 8;
pub(super) const SLOTS_START_BYTES: u64 = at::SLOTS_START as u64 * 8;

/// How long what a killed process held may stand: its locks, its sockets.
pub const LINGERING: std::time::Duration = std::time::Duration::from_secs(1);

/// Permissions of the files.
pub(crate) const FILE_MODE: u32 = 0o600;

/// runtime.mmap, mapped whole.
#[derive(Debug)]
pub struct Runtime {
    // Dropped before the region.
    _watch: Option<sys::Watch>,
    region: Region,
    backing: Backing,
    path: PathBuf,
}

/// What a used slot shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotStatus {
    /// 0..256.
    pub slot: u32,
    /// Process id of the owner.
    pub pid: u32,
    /// The owner's role, as it was attached with.
    pub role: u32,
    /// Generation of the configuration that it has acknowledged.
    pub generation: u64,
    /// Is the owner alive.
    pub alive: bool,
}

/// What a child of the master is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChildRole {
    /// The worker of this number, from 0.
    Worker(u16),
    /// The keeper.
    Keeper,
}

impl std::fmt::Display for ChildRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChildRole::Worker(number) => write!(f, "worker {number}"),
            ChildRole::Keeper => write!(f, "keeper"),
        }
    }
}

impl ChildRole {
    /// Where it stands; none: there are never so many.
    fn word(self) -> Option<usize> {
        let nth = match self {
            ChildRole::Keeper => 0,
            ChildRole::Worker(number) => 1 + usize::from(number),
        };
        (nth < at::PLACES_MAX).then_some(at::PLACES + nth)
    }
}

/// What the master counts, in words of its own: it has no slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MasterCounts {
    /// When this server, or the last one, was started; milliseconds.
    pub started_ms: u64,
    /// Workers and keepers that were replaced.
    pub restarts: [u64; 2],
    /// Reloads taken and refused.
    pub reloads: [u64; 2],
    /// When one was taken and refused last, milliseconds; 0: never.
    pub reloaded_ms: [u64; 2],
}

/// A registered group file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileEntry {
    pub group: u64,
    pub file: u32,
    pub device: u64,
    pub inode: u64,
    pub birth_ns: u64,
    pub name: String,
}

impl Runtime {
    /// How many slots there are.
    pub const SLOTS: usize = at::SLOTS;

    /// The file's path in a data directory.
    pub fn path_in(data_dir: &Path) -> PathBuf {
        data_dir.join("runtime.mmap")
    }

    /// Creates it, or opens and checks it; by the master, once it holds the directory's lock. One of
    /// another boot is replaced: its undo logs tell nothing about files that went through the disk.
    pub fn create_or_open(data_dir: &Path) -> Result<Runtime, Error> {
        let path = Self::path_in(data_dir);
        if !path.exists() {
            return Self::create(&path);
        }
        let file = open_file(&path, true)?;
        let reason = match check_header(&path, &file) {
            Ok(boot) if boot == boot_id(&path)? => return Self::map(path, file),
            Ok(_) => "it is of another boot".to_string(),
            Err(Error::Mismatch { field, found, expected, .. }) => {
                format!("{field}: found {found}, expected {expected}")
            }
            Err(error) => return Err(error),
        };
        // Held until it is replaced: nobody attaches to the old one meanwhile.
        let (start, len) = Self::slots_span();
        let begun = crate::base::clock::instant();
        while !sys::try_lock_range(&file, start, len).map_err(io_error(&path, "lock its slots"))? {
            if begun.elapsed() > LINGERING {
                return Err(Error::Attached { path, reason });
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        tracing::warn!(path = %path.display(), reason, "runtime.mmap is made anew");
        let created = Self::create(&path);
        if !created.as_ref().is_err_and(Error::is_no_room) {
            return created;
        }
        // It tells nothing any more: its blocks are room for the new one.
        drop(file);
        std::fs::remove_file(&path).map_err(io_error(&path, "remove it"))?;
        Self::create(&path)
    }

    fn create(path: &Path) -> Result<Runtime, Error> {
        let draft = path.with_extension("mmap.new");
        let file = Self::write_draft(&draft).inspect_err(|_| {
            // Give the blocks back: the disk is full, or will be asked again.
            let _ = std::fs::remove_file(&draft);
        })?;
        std::fs::rename(&draft, path).map_err(io_error(path, "rename it into place"))?;
        sync_directory(path)?;
        Self::map(path.to_path_buf(), file)
    }

    fn write_draft(draft: &Path) -> Result<File, Error> {
        let file = create_draft(draft)?;
        // The slots' blocks are allocated when a handle attaches: most are never used. But the first
        // page of each is looked at by all, and in memory even a look takes a block.
        file.set_len(at::WORDS as u64 * 8).map_err(io_error(draft, "set its length"))?;
        let heads = (0..at::SLOTS as u32).map(|slot| (slot_byte(slot), layout::PAGE_BYTES as u64));
        for (start, len) in std::iter::once((0, SLOTS_START_BYTES)).chain(heads) {
            sys::allocate(&file, start, len).map_err(io_error(draft, "allocate it"))?;
        }
        let boot = boot_id(draft)?;
        let mut words = [0u64; 6];
        words[at::MAGIC] = layout::RUNTIME_MAGIC;
        words[at::VERSION] = layout::version_word();
        words[at::BOOT] = boot[0];
        words[at::BOOT + 1] = boot[1];
        words[at::CREATED] = crate::base::clock::now();
        words[at::CRC] = header_crc(&words[..at::CRC]);
        file.write_all_at(&bytes_of(&words), 0).map_err(io_error(draft, "write its header"))?;
        file.sync_all().map_err(io_error(draft, "sync it"))?;
        Ok(file)
    }

    /// Opens and checks it, for a handle.
    pub fn open(data_dir: &Path) -> Result<Runtime, Error> {
        let path = Self::path_in(data_dir);
        let file = open_file(&path, true)?;
        let [found, expected] = [check_header(&path, &file)?, boot_id(&path)?]
            .map(|[high, low]| format!("{high:016x}{low:016x}"));
        // Its undo logs tell nothing about files of another boot: a master makes it anew.
        expect(&path, "boot id", found, expected)?;
        Self::map(path, file)
    }

    /// Opens it for reading: tools.
    pub fn open_for_reading(data_dir: &Path) -> Result<Runtime, Error> {
        let path = Self::path_in(data_dir);
        let file = open_file(&path, false)?;
        check_header(&path, &file)?;
        let region =
            Region::map_for_reading(&file, at::WORDS).map_err(io_error(&path, "map it"))?;
        let watch = sys::watch_reading(region.span(), &path);
        Ok(Runtime { _watch: watch, region, backing: Backing::File(file), path })
    }

    fn map(path: PathBuf, file: File) -> Result<Runtime, Error> {
        let region = Region::map(&file, 0, at::WORDS).map_err(io_error(&path, "map it"))?;
        let watch = sys::watch_reading(region.span(), &path);
        Ok(Runtime { _watch: watch, region, backing: Backing::File(file), path })
    }

    #[cfg(test)]
    pub(super) fn played(region: Region, backing: Backing) -> Runtime {
        Runtime { _watch: None, region, backing, path: PathBuf::from("runtime.mmap") }
    }

    /// Allocates the blocks of a slot, with rows for so many businesses.
    pub(super) fn allocate_slot(&self, slot: u32, bizs: usize) -> Result<(), Error> {
        self.backing
            .allocate(slot_byte(slot), SLOT_WHOLE_BYTES)
            .and_then(|()| self.allocate_biz_rows(slot, slot::BIZ_FIRST + bizs))
            .map_err(io_error(&self.path, "allocate a slot"))
    }

    /// Allocates the blocks of a slot's first `rows` rows of businesses.
    pub(crate) fn allocate_biz_rows(&self, slot: u32, rows: usize) -> std::io::Result<()> {
        let start = slot_byte(slot) + SLOT_WHOLE_BYTES;
        let bytes = (rows.min(slot::BIZ_ROWS) * slot::BIZ_ROW_WORDS * 8) as u64;
        self.backing.allocate(start, bytes.next_multiple_of(layout::PAGE_BYTES as u64))
    }

    /// The configuration's generation in force; 0 before the first. Acquire: pairs with `publish`.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.region.word(at::GENERATION).load(Ordering::Acquire)
    }

    /// The boot that it was made in.
    pub(crate) fn boot(&self) -> [u64; 2] {
        [self.region.load(at::BOOT), self.region.load(at::BOOT + 1)]
    }

    /// Puts a generation in force. Release: its `conf.active` file is complete before; pairs with
    /// `generation`.
    pub fn publish(&self, generation: u64) {
        self.region.store_release(at::GENERATION, generation);
    }

    /// Did the last flush fail.
    pub fn flush_failed(&self) -> bool {
        self.region.load(at::FLUSH_FAILED) != 0
    }

    /// Notes what came of a flush; the keeper alone does.
    pub fn set_flush_failed(&self, failed: bool) {
        self.region.store(at::FLUSH_FAILED, u64::from(failed));
    }

    /// The slots in use, dead or alive.
    pub fn slots(&self) -> Vec<SlotStatus> {
        (0..at::SLOTS as u32)
            .filter(|&slot| self.slot(slot).state().used)
            .map(|slot| {
                let words = self.slot(slot);
                let (pid, role) = words.owner();
                let alive = self.is_locked(slot);
                SlotStatus { slot, pid, role, generation: words.generation(), alive }
            })
            .collect()
    }

    /// A slot's words.
    #[inline]
    pub fn slot(&self, slot: u32) -> SlotWords<'_> {
        SlotWords::at(&self.region, slot_base(slot))
    }

    /// Does a living process hold the slot (a doubt counts as yes).
    pub fn is_locked(&self, slot: u32) -> bool {
        self.backing.is_locked(slot)
    }

    /// Are slots held by living processes at all.
    pub fn is_any_locked(&self) -> bool {
        self.backing.is_any_locked()
    }

    /// Runs `work` under the slot's lock, if it is to be had at once: the owner is dead then, and
    /// nobody else recovers it. The lock is this handle's own description's, so one thread at a time.
    pub(crate) fn with_dead_slot<T>(&self, slot: u32, work: impl FnOnce() -> T) -> Option<T> {
        if !self.backing.try_lock(slot) {
            return None;
        }
        let result = work();
        if let Err(error) = self.backing.unlock(slot) {
            tracing::error!(slot, %error, "cannot unlock a recovered slot");
        }
        Some(result)
    }

    /// Runs `work` as the only one who frees semaphores in the name of a slot; none if somebody else
    /// does just now.
    pub(crate) fn with_freeing<T>(&self, slot: u32, work: impl FnOnce() -> T) -> Option<T> {
        if !self.backing.try_lock_freeing(slot) {
            return None;
        }
        let result = work();
        if let Err(error) = self.backing.unlock_freeing(slot) {
            tracing::error!(slot, %error, "cannot unlock what was locked to free semaphores");
        }
        Some(result)
    }

    /// Sum of a counter over all slots ever used.
    pub fn count(&self, counter: Counter) -> u64 {
        self.sums().count(counter)
    }

    /// Sum of a counter of groups over all of them, and over all slots ever used.
    pub fn count_of_groups(&self, counter: GroupCounter) -> u64 {
        self.sums().groups.values().map(|group| group.count(counter)).sum()
    }

    /// What all slots have counted, free ones too.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        // One that was never used counted nothing, and a look at it would cost blocks.
        (0..at::SLOTS as u32)
            .filter(|&slot| self.slot(slot).state().epoch != 0)
            .for_each(|slot| sums.add(self.counters(slot)));
        sums
    }

    /// What a slot has counted, in short.
    pub fn slot_counts(&self, slot: u32) -> SlotCounts {
        self.counters(slot).short()
    }

    fn counters(&self, slot: u32) -> Counters<'_> {
        Counters::at(&self.region, slot_base(slot))
    }

    /// What the master has counted.
    pub fn master_counts(&self) -> MasterCounts {
        let pair = |start| [self.region.load(start), self.region.load(start + 1)];
        MasterCounts {
            started_ms: self.region.load(at::STARTED),
            restarts: pair(at::RESTARTS),
            reloads: pair(at::RELOADS),
            reloaded_ms: pair(at::RELOADED),
        }
    }

    /// Notes the start of a server; the master alone does.
    pub fn set_started(&self, at_ms: u64) {
        self.region.store(at::STARTED, at_ms);
    }

    /// Counts a process that died in this place and is replaced; the master alone does.
    pub fn count_restart(&self, place: ChildRole) {
        self.grow(at::RESTARTS + usize::from(place == ChildRole::Keeper));
        if let Some(word) = place.word() {
            self.region.store(word, self.region.load(word).wrapping_add(1 << 32));
        }
    }

    /// Notes who has a place; the master alone does.
    pub fn set_place(&self, place: ChildRole, pid: u32) {
        if let Some(word) = place.word() {
            let restarts = self.region.load(word) >> 32;
            self.region.store(word, u64::from(pid) | restarts << 32);
        }
    }

    /// How often who had the place of this process before was replaced; none if the master has not
    /// given it one.
    pub fn restarts_of(&self, pid: u32) -> Option<u64> {
        let words = (at::PLACES..at::PLACES + at::PLACES_MAX).map(|word| self.region.load(word));
        words.filter(|&word| word as u32 == pid).map(|word| word >> 32).next()
    }

    /// Counts a reload; the master alone does.
    pub fn count_reload(&self, is_refused: bool, now_ms: u64) {
        self.grow(at::RELOADS + usize::from(is_refused));
        self.region.store(at::RELOADED + usize::from(is_refused), now_ms);
    }

    fn grow(&self, word: usize) {
        self.region.store(word, self.region.load(word).wrapping_add(1));
    }

    fn entry(index: usize) -> usize {
        at::FILES + index * at::FILE_WORDS
    }

    /// The register's entry of a group file, if it has one.
    pub(crate) fn find_file(&self, group: u64, file: u32) -> Option<(usize, FileEntry)> {
        (0..at::FILES_MAX).find_map(|index| {
            let words = self.entry_words(index);
            let matches =
                words[1] & at::FILE_USED != 0 && words[0] == group && words[1] as u32 == file;
            matches.then(|| (index, entry_of(words)))
        })
    }

    fn entry_words(&self, index: usize) -> [u64; at::FILE_WORDS] {
        let mut words = [0; at::FILE_WORDS];
        self.region.read(Self::entry(index), &mut words);
        words
    }

    /// The identity that the register has for a file of this name and number.
    pub(crate) fn find_named(&self, name: &str, file: u32) -> Option<FileEntry> {
        (0..at::FILES_MAX)
            .map(|index| self.entry_words(index))
            .filter(|words| words[1] & at::FILE_USED != 0)
            .map(entry_of)
            .find(|entry| entry.name == name && entry.file == file)
    }

    /// Quarantines the groups whose id is meant; their names.
    pub(crate) fn quarantine_groups(&self, is_meant: impl Fn(u64) -> bool) -> Vec<String> {
        let meant = self.first_files().filter(|(_, entry)| is_meant(entry.group));
        meant
            .map(|(index, entry)| {
                self.mark_of(index).fetch_or(at::FILE_QUARANTINE, Ordering::Relaxed);
                entry.name
            })
            .collect()
    }

    /// The first file of each registered group, and its index.
    pub(crate) fn first_files(&self) -> impl Iterator<Item = (usize, FileEntry)> {
        (0..at::FILES_MAX).filter_map(|index| {
            let words = self.entry_words(index);
            let is_first = words[1] & at::FILE_USED != 0 && words[1] as u32 == 0;
            is_first.then(|| (index, entry_of(words)))
        })
    }

    /// Notes a group file, quarantined; the register's index of it.
    pub(crate) fn register_file(&self, entry: &FileEntry) -> Result<usize, Error> {
        let known = self.find_file(entry.group, entry.file).map(|(index, _)| index);
        let free =
            || (0..at::FILES_MAX).find(|&index| self.entry_words(index)[1] & at::FILE_USED == 0);
        // A file of the same name and number but another id is gone: its entry is free again.
        let stale = || {
            (0..at::FILES_MAX).find(|&index| {
                let words = self.entry_words(index);
                let found = entry_of(words);
                let used = words[1] & at::FILE_USED != 0;
                used && found.name == entry.name && found.file == entry.file
            })
        };
        let index = known.or_else(stale).or_else(free).ok_or_else(|| Error::Exhausted {
            path: self.path.clone(),
            what: "places for group files",
            limit: at::FILES_MAX,
        })?;
        let name = layout::name_words(&entry.name);
        let base = Self::entry(index);
        self.region.store(base, entry.group);
        self.region.store(base + 2, entry.device);
        self.region.store(base + 3, entry.inode);
        self.region.write(base + 4, &name);
        self.region.store(base + 8, entry.birth_ns);
        // Nobody serves from it before it is known to be sound: see `release_file`.
        let flags = at::FILE_USED | at::FILE_QUARANTINE;
        self.region.store_release(base + 1, u64::from(entry.file) | flags);
        Ok(index)
    }

    /// Frees the entries of all files of a group; nobody may be attached.
    pub(crate) fn forget_named(&self, name: &str) {
        for index in 0..at::FILES_MAX {
            let words = self.entry_words(index);
            if words[1] & at::FILE_USED != 0 && entry_of(words).name == name {
                self.region.store(Self::entry(index) + 1, 0);
            }
        }
    }

    /// Holds the locks of all slots until what it answers is dropped, so that nobody attaches; none
    /// if somebody is attached.
    pub(crate) fn keep_alone(&self) -> Result<Option<File>, Error> {
        let file = open_file(&self.path, true)?;
        let (start, len) = Self::slots_span();
        let locked = sys::try_lock_range(&file, start, len)
            .map_err(io_error(&self.path, "lock its slots"))?;
        Ok((locked && self.slots().is_empty()).then_some(file))
    }

    /// The word of a register entry that holds its quarantine bit.
    #[inline]
    pub(crate) fn mark_of(&self, index: usize) -> &crate::base::sync::AtomicU64 {
        self.region.word(Self::entry(index) + 1)
    }

    /// Is the registered file quarantined.
    #[inline]
    pub(crate) fn is_quarantined(&self, index: usize) -> bool {
        self.mark_of(index).load(Ordering::Relaxed) & at::FILE_QUARANTINE != 0
    }

    /// First byte and length of all slots: locked whole by who must be alone.
    pub(crate) fn slots_span() -> (u64, u64) {
        (SLOTS_START_BYTES, at::SLOTS as u64 * SLOT_BYTES)
    }

    /// Lifts the quarantine that a registered file begins with: it is known to be sound now.
    pub(crate) fn release_file(&self, entry: &FileEntry) {
        if let Some((index, _)) = self.find_file(entry.group, entry.file) {
            self.mark_of(index).fetch_and(!at::FILE_QUARANTINE, Ordering::Release);
        }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sees to it that a slot stays locked whose map's descriptor was closed: the descriptor to keep
    /// for that, where the map does not. None: somebody else was quicker.
    fn keep_locked(&self, slot: u32) -> Result<Option<Option<File>>, Error> {
        if self.is_locked(slot) {
            return Ok(Some(None));
        }
        let file = open_file(&self.path, true)?;
        let locked = sys::try_lock_range(&file, slot_byte(slot), 1);
        let locked = locked.map_err(io_error(&self.path, "lock a slot"))?;
        Ok(locked.then_some(Some(file)))
    }
}

/// The slot of a handle: its own map, whose lock tells that the owner lives.
#[derive(Debug)]
pub(crate) struct Slot {
    region: Region,
    number: u32,
    token: Token,
    /// Holds the lock where the map does not.
    _lock: Option<File>,
}

impl Slot {
    /// Takes a free slot of those that are for `role`, recovering dead ones by `recover` on the
    /// way. One that the disk has no room for is passed over: another has its blocks already.
    pub(crate) fn attach(
        runtime: &Runtime,
        (role, places): (u32, &Places),
        recover: &mut dyn FnMut(u32),
    ) -> Result<Slot, Error> {
        let mut full = None;
        for number in places.order(role, |slot| runtime.slot(slot).state()) {
            match Self::try_attach(runtime, number, role, recover) {
                Ok(Some(slot)) => return Ok(slot),
                Ok(None) => {}
                Err(error) if error.is_no_room() => full = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(full.unwrap_or_else(|| places.exhausted(role, runtime)))
    }

    fn try_attach(
        runtime: &Runtime,
        number: u32,
        role: u32,
        recover: &mut dyn FnMut(u32),
    ) -> Result<Option<Slot>, Error> {
        let path = &runtime.path;
        if runtime.slot(number).state().used {
            if runtime.is_locked(number) {
                return Ok(None);
            }
            recover(number);
        }
        let file = open_file(path, true)?;
        let byte = slot_byte(number);
        // Mapped before it is locked, so that a fork by another thread finds little to inherit.
        let region = Region::map(&file, byte, slot::WORDS).map_err(io_error(path, "map a slot"))?;
        region.dont_fork().map_err(io_error(path, "keep a slot from forked children"))?;
        if !sys::try_lock_range(&file, byte, 1).map_err(io_error(path, "lock a slot"))? {
            return Ok(None);
        }
        if runtime.slot(number).state().used {
            // Somebody took it and died since: the next round finds it.
            return Ok(None);
        }
        runtime.allocate_slot(number, 0)?;
        drop(file);
        let Some(lock) = runtime.keep_locked(number)? else { return Ok(None) };
        let words = SlotWords::at(&region, 0);
        let epoch = Token::next_epoch(words.state().epoch);
        // Those of the owner before are closed.
        Counters::at(&region, 0).set_open(0);
        words.claim((std::process::id(), role), epoch);
        Ok(Some(Slot::of_parts(region, number, epoch, lock)))
    }

    pub(super) fn of_parts(region: Region, number: u32, epoch: u32, lock: Option<File>) -> Slot {
        Slot { region, number, token: Token::new(number, epoch), _lock: lock }
    }

    /// Its words.
    #[inline]
    pub(crate) fn words(&self) -> SlotWords<'_> {
        SlotWords::at(&self.region, 0)
    }

    /// What its owner writes into semaphores.
    #[inline]
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Its counters.
    #[inline]
    pub(crate) fn counters(&self) -> Counters<'_> {
        Counters::at(&self.region, 0)
    }

    /// Counts one.
    #[inline]
    pub(crate) fn count(&self, counter: Counter) {
        self.counters().count(counter);
    }

    /// Gives the slot back.
    pub(crate) fn detach(&self) {
        self.words().set_state(State { used: false, epoch: self.token.epoch() });
    }
}

pub(super) const fn slot_base(slot: u32) -> usize {
    at::SLOTS_START + slot as usize * slot::WORDS
}

pub(super) const fn slot_byte(slot: u32) -> u64 {
    slot_base(slot) as u64 * 8
}

fn entry_of(words: [u64; at::FILE_WORDS]) -> FileEntry {
    FileEntry {
        group: words[0],
        file: words[1] as u32,
        device: words[2],
        inode: words[3],
        birth_ns: words[8],
        name: layout::name_of([words[4], words[5], words[6], words[7]]).unwrap_or_default(),
    }
}

fn open_file(path: &Path, write: bool) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    sys::open_regular(options.read(true).write(write), path).map_err(io_error(path, "open it"))
}

fn boot_id(path: &Path) -> Result<[u64; 2], Error> {
    sys::boot_id().map_err(io_error(path, "read this boot's id"))
}

/// Creates a file that is not there. One that is left of a writer that died goes first: it may be
/// another user's, or a link to a file that is not ours.
pub(crate) fn create_draft(path: &Path) -> Result<File, Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io_error(path, "remove what was left of it")(error));
        }
        _ => {}
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
        .map_err(io_error(path, "create it"))
}

/// The boot it was made in, if the header is whole.
fn check_header(path: &Path, file: &File) -> Result<[u64; 2], Error> {
    let len = file.metadata().map_err(io_error(path, "read its length"))?.len();
    expect(path, "length", len, at::WORDS as u64 * 8)?;
    let mut bytes = [0u8; 48];
    file.read_exact_at(&mut bytes, 0).map_err(io_error(path, "read its header"))?;
    let words = words_of(&bytes);
    expect(path, "magic", words[at::MAGIC], layout::RUNTIME_MAGIC)?;
    expect(path, "version and layout", words[at::VERSION], layout::version_word())?;
    expect(path, "header CRC", words[at::CRC], header_crc(&words[..at::CRC]))?;
    Ok([words[at::BOOT], words[at::BOOT + 1]])
}

/// CRC-32 of header words.
pub(crate) fn header_crc(words: &[u64]) -> u64 {
    u64::from(crc32fast::hash(&bytes_of(words)))
}

/// Words as the bytes that stand in a file.
pub(crate) fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The words of a file's bytes.
pub(crate) fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .map(|chunk| u64::from_le_bytes(chunk.try_into().expect("chunks of 8")))
        .collect()
}

/// Makes renames in the directory of `path` last.
pub(crate) fn sync_directory(path: &Path) -> Result<(), Error> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(io_error(directory, "sync the directory"))
}
