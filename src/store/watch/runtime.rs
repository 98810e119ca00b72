//! runtime.mmap: the slots of attached handles, the register of group files, and the generation of
//! the configuration in force.
//!
//! Invariant: a slot's byte lock lives exactly as long as the address space of its owner. The lock
//! is taken through the file description that the owner's slot is mapped through, the map is left
//! out of forked children, and the descriptor is closed. All other maps use another description.
//! Where maps keep no description (overlayfs), a separate descriptor stays open; there a forked
//! child keeps the lock.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use frs_base::clock::Millis;
use frs_base::sync::{Ordering, fence};
use frs_base::sys;

use super::backing::{Backing, SlotLock};
use super::counter::{Counters, ExtensionWords, SlotCounts, Sums};
use super::refused::{RefusedKeys, RefusedSums, Window};
use super::slot::{SlotOwner, SlotWords};
use crate::error::{Error, expect, io_error};
use crate::file::layout::runtime::{SLOTS_START_BYTES, slot_base, slot_byte};
use crate::file::layout::{self, runtime as at};
use crate::file::owner;
use crate::file::region::Region;
use crate::file::words::{FileFacts, FilePlace, bytes_of, create_whole, header_crc, words_of};

mod attach;
mod changes;
mod checkpoints;
mod doubts;
mod extension;
mod files;
mod kept_words;
mod lineage;
mod mailboxes;
mod master;
mod master_lock;
mod probe;

pub(crate) use attach::{Slot, SlotBlocks};
pub use checkpoints::{CheckpointCounts, RequestedPass};
pub(crate) use files::{FileEntry, NamedGroup, Pairing, Registered};
pub use mailboxes::MailboxLock;
pub use master::{ChildPlace, MasterCounts};
pub use master_lock::MasterLock;
pub use probe::Damage;

/// How long locks and sockets of a killed process may remain.
pub const LINGERING: std::time::Duration = std::time::Duration::from_secs(1);

/// The mapped runtime.mmap.
#[derive(Debug)]
pub struct Runtime {
    // Dropped before the region.
    _watch: Option<sys::Watch>,
    region: Region,
    backing: Backing,
    path: PathBuf,
}

/// The status of a used slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotStatus {
    /// 0..256.
    pub slot: u32,
    /// Process id of the owner.
    pub pid: u32,
    /// The role that the owner attached with.
    pub role: u32,
    /// Generation of the configuration that the owner has acknowledged.
    pub generation: u64,
    /// Whether the owner is alive. A dead owner counts as alive while its slot is being recovered.
    pub alive: bool,
    /// The number of groups that the owner has mapped, although its configuration no longer names
    /// them.
    pub retired: u64,
}

/// Bytes of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteSpan {
    pub start: u64,
    pub len: u64,
}

impl Runtime {
    /// The number of slots.
    pub const SLOTS: usize = at::SLOTS;

    /// The file's path in a data directory.
    pub fn path_in(data_dir: &Path) -> PathBuf {
        data_dir.join("runtime.mmap")
    }

    /// Creates the file, or opens and checks it. The master calls it once it holds the directory's
    /// lock. A file of another boot is replaced: its undo logs are not valid for files that were
    /// read back from the disk. Its kept words stay, because tools need them before the next
    /// configuration is published.
    pub fn create_or_open(data_dir: &Path) -> Result<Runtime, Error> {
        let path = Self::path_in(data_dir);
        if !path.exists() {
            return Self::create(&path);
        }
        let file = open_file(&path)?;
        owner::expect_own(&path, &file)?;
        let reason = match check_header(&path, &file) {
            Ok(boot) if boot == boot_id(&path)? => return Self::map(path, file),
            Ok(_) => "it is of another boot".to_string(),
            Err(Error::Mismatch { field, found, expected, .. }) => {
                format!("{field}: found {found}, expected {expected}")
            }
            Err(error) => return Err(error),
        };
        // The lock is held until the file is replaced, so that no process attaches to the old file
        // meanwhile.
        let ByteSpan { start, len } = Self::slots_span();
        let begun = frs_base::clock::instant();
        while !sys::try_lock_range(&file, start, len).map_err(io_error(&path, "lock its slots"))? {
            if frs_base::clock::since(begun) > LINGERING {
                return Err(Error::Attached { path, reason });
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let kept = Self::open_for_reading(data_dir).ok().and_then(|old| old.kept_words());
        tracing::warn!(path = %path.display(), reason, "created runtime.mmap again");
        let mut created = Self::create(&path);
        if created.as_ref().is_err_and(Error::is_no_room) {
            // The old file is useless now. Free its blocks for the new one.
            drop(file);
            std::fs::remove_file(&path).map_err(io_error(&path, "remove it"))?;
            created = Self::create(&path);
        }
        let created = created?;
        if let Some(kept) = kept {
            created.keep_words(kept);
        }
        Ok(created)
    }

    fn create(path: &Path) -> Result<Runtime, Error> {
        let draft = path.with_extension("mmap.new");
        let file = create_whole(path, &draft, |file| Self::write_draft(&draft, file))?;
        Self::map(path.to_path_buf(), file)
    }

    fn write_draft(draft: &Path, file: &File) -> Result<(), Error> {
        // A slot's blocks are allocated when a handle attaches, because most slots are never used.
        // But all processes read the first page of each slot, and in memory even a read takes a
        // block.
        file.set_len(at::WORDS as u64 * 8).map_err(io_error(draft, "set its length"))?;
        let first_page = |slot| ByteSpan { start: slot_byte(slot), len: layout::PAGE_BYTES as u64 };
        let first_pages = (0..at::SLOTS as u32).map(first_page);
        let header = ByteSpan { start: 0, len: SLOTS_START_BYTES };
        for ByteSpan { start, len } in std::iter::once(header).chain(first_pages) {
            sys::allocate(file, start, len).map_err(io_error(draft, "allocate it"))?;
        }
        let boot = boot_id(draft)?;
        let mut words = [0u64; at::CRC + 1];
        words[at::MAGIC] = layout::RUNTIME_MAGIC;
        words[at::VERSION] = layout::runtime_version_word();
        words[at::BOOT] = boot[0];
        words[at::BOOT + 1] = boot[1];
        words[at::CREATED] = frs_base::clock::now();
        let id: [u64; 2] = sys::random().map_err(io_error(draft, "draw its id"))?;
        words[at::ID..at::CRC].copy_from_slice(&id);
        words[at::CRC] = header_crc(&words[..at::CRC]);
        file.write_all_at(&bytes_of(&words), 0).map_err(io_error(draft, "write its header"))?;
        file.sync_all().map_err(io_error(draft, "sync it"))?;
        // Parsing this header gives the same values.
        debug_assert!(check_header(draft, file).is_ok_and(|read| read == boot));
        Ok(())
    }

    /// Opens and checks it, for a handle.
    pub fn open(data_dir: &Path) -> Result<Runtime, Error> {
        let path = Self::path_in(data_dir);
        let file = open_file(&path)?;
        let [found, expected] = [check_header(&path, &file)?, boot_id(&path)?]
            .map(|[high, low]| format!("{high:016x}{low:016x}"));
        // Its undo logs are not valid for files of another boot. The master creates the file again.
        expect(&path, "boot id", found, expected)?;
        Self::map(path, file)
    }

    /// Opens it for reading only, for tools.
    pub fn open_for_reading(data_dir: &Path) -> Result<Runtime, Error> {
        let path = Self::path_in(data_dir);
        let file = open_file_for_reading(&path)?;
        check_header(&path, &file)?;
        let region =
            Region::map_for_reading(&file, at::WORDS).map_err(io_error(&path, "map it"))?;
        region.dont_read_ahead().map_err(io_error(&path, "map it"))?;
        let watch = sys::watch_reading(region.span(), &path);
        Ok(Runtime { _watch: watch, region, backing: Backing::File(file), path })
    }

    fn map(path: PathBuf, file: File) -> Result<Runtime, Error> {
        let region = Region::map(&file, 0, at::WORDS).map_err(io_error(&path, "map it"))?;
        region.dont_read_ahead().map_err(io_error(&path, "map it"))?;
        let watch = sys::watch_reading(region.span(), &path);
        Ok(Runtime { _watch: watch, region, backing: Backing::File(file), path })
    }

    #[cfg(any(test, feature = "crash-points"))]
    pub(crate) fn played(region: Region, backing: Backing) -> Runtime {
        Runtime { _watch: None, region, backing, path: PathBuf::from("runtime.mmap") }
    }

    /// The shared words of the simulation that this runtime belongs to.
    #[cfg(any(test, feature = "crash-points"))]
    pub(crate) fn shared(&self) -> Option<&std::sync::Arc<crate::simulated::Shared>> {
        match &self.backing {
            Backing::Played(played) => Some(&played.shared),
            Backing::File(_) => None,
        }
    }

    /// The generation of the configuration in force; 0 before the first. Acquire: pairs with
    /// `publish`.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.region.word(at::GENERATION).load(Ordering::Acquire)
    }

    /// The boot that the file was created in.
    pub fn boot(&self) -> [u64; 2] {
        [self.region.load(at::BOOT), self.region.load(at::BOOT + 1)]
    }

    /// The properties by which this file differs from every other one.
    pub fn file_facts(&self) -> Result<FileFacts, Error> {
        let place = FilePlace::of(self.backing.file());
        let id = [self.region.load(at::ID), self.region.load(at::ID + 1)];
        Ok(FileFacts { id, place: place.map_err(io_error(&self.path, "read its inode"))? })
    }

    /// Puts a generation in force. Release: its `conf.active` file is complete before this; pairs
    /// with `generation`.
    pub fn publish(&self, generation: u64) {
        self.region.store_release(at::GENERATION, generation);
    }

    /// Whether the last flush failed.
    pub fn flush_failed(&self) -> bool {
        self.region.load(at::FLUSH_FAILED) != 0
    }

    /// Stores the result of a flush. Only the keeper calls it.
    pub fn set_flush_failed(&self, failed: bool) {
        self.region.store(at::FLUSH_FAILED, u64::from(failed));
    }

    /// The slots in use, dead or alive.
    pub fn slots(&self) -> Vec<SlotStatus> {
        (0..at::SLOTS as u32)
            .filter(|&slot| self.slot(slot).state().used)
            .map(|slot| {
                let words = self.slot(slot);
                let SlotOwner { pid, role } = words.owner();
                let alive = self.is_locked(slot);
                let (generation, retired) = (words.generation(), words.retired());
                SlotStatus { slot, pid, role, generation, alive, retired }
            })
            .collect()
    }

    /// Whether no process is in a transaction of a generation older than this published one: each
    /// slot in use has acknowledged the generation, or announces nothing. A slot whose attachment
    /// is under way has acknowledged nothing, so the caller must wait for it.
    ///
    /// SeqCst: an owner announces, takes semaphores by compare-exchange, and then reads the
    /// generation; here the generation was stored before the announcements are read. Where the
    /// compare-exchange is no full barrier, a transaction that is just beginning may be missed.
    /// Then it reads the new generation under its semaphores, as every transaction does.
    pub fn has_settled(&self, generation: u64) -> bool {
        fence(Ordering::SeqCst);
        let is_settled = |slot: SlotWords<'_>| {
            let seen = slot.generation();
            !slot.state().used || seen >= generation || seen != 0 && slot.is_idle()
        };
        (0..at::SLOTS as u32).all(|slot| is_settled(self.slot(slot)))
    }

    /// A slot's words.
    #[inline]
    pub fn slot(&self, slot: u32) -> SlotWords<'_> {
        SlotWords::at(&self.region, slot_base(slot))
    }

    /// Whether a living process holds the slot. True if that cannot be found out.
    pub fn is_locked(&self, slot: u32) -> bool {
        self.backing.is_locked(slot)
    }

    /// Whether a living process holds any slot.
    pub fn is_any_locked(&self) -> bool {
        self.backing.is_any_locked()
    }

    /// Runs `work` under a lock of a slot. Returns None if another process has the lock. The lock
    /// belongs to this handle's file description, so only one thread may use it at a time.
    pub(crate) fn with_lock<T>(&self, lock: SlotLock, work: impl FnOnce() -> T) -> Option<T> {
        if !self.backing.try_lock(lock) {
            return None;
        }
        let result = work();
        if let Err(error) = self.backing.unlock(lock) {
            tracing::error!(?lock, %error, "cannot unlock a slot");
        }
        Some(result)
    }

    /// Sum of a counter over all slots ever used.
    #[cfg(any(test, feature = "testing"))]
    pub fn count(&self, counter: super::counter::Counter) -> u64 {
        self.sums().count(counter)
    }

    /// Sum of a group counter over all groups and all slots ever used.
    #[cfg(any(test, feature = "testing"))]
    pub fn count_of_groups(&self, counter: super::counter::GroupCounter) -> u64 {
        self.sums().groups.values().map(|group| group.count(counter)).sum()
    }

    /// The counts of all slots, free ones included.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        self.counting_slots().for_each(|slot| sums.add(self.counters(slot)));
        sums
    }

    /// The most refused keys of a business, or of all businesses, summed over all slots.
    pub fn refused_keys(
        &self,
        biz_id: Option<u32>,
        window: Window,
        most: usize,
        now: Millis,
    ) -> RefusedKeys {
        let mut sums = RefusedSums::new(window, biz_id, now);
        self.counting_slots().for_each(|slot| sums.add(slot, self.counters(slot)));
        sums.finish(most)
    }

    /// The slots that were ever used. An unused slot has counted nothing, and reading it would cost
    /// blocks.
    fn counting_slots(&self) -> impl Iterator<Item = u32> {
        (0..at::SLOTS as u32).filter(|&slot| self.slot(slot).state().epoch != 0)
    }

    /// The words of an extension in a slot.
    pub fn extension_of(&self, slot: u32) -> ExtensionWords<'_> {
        self.counters(slot).extension()
    }

    /// The main counts of a slot.
    pub fn slot_counts(&self, slot: u32) -> SlotCounts {
        self.counters(slot).short()
    }

    fn counters(&self, slot: u32) -> Counters<'_> {
        Counters::at(&self.region, slot_base(slot))
    }

    /// Holds the locks of all slots until the returned file is dropped, so that no process
    /// attaches. None if a process is attached.
    pub fn keep_alone(&self) -> Result<Option<File>, Error> {
        let file = open_file(&self.path)?;
        let ByteSpan { start, len } = Self::slots_span();
        let locked = sys::try_lock_range(&file, start, len)
            .map_err(io_error(&self.path, "lock its slots"))?;
        Ok((locked && self.slots().is_empty()).then_some(file))
    }

    /// The bytes of all slots. A process that must be alone locks all of them.
    pub(crate) fn slots_span() -> ByteSpan {
        ByteSpan { start: SLOTS_START_BYTES, len: at::SLOTS as u64 * at::SLOT_BYTES }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens the file for writing, and removes read rights of users who may not write it. A user who
/// may write the directory cannot misdirect this to another file: a link is refused, and the mode
/// of a file that is no runtime.mmap stays.
fn open_file(path: &Path) -> Result<File, Error> {
    let file = sys::open_unlinked(OpenOptions::new().read(true).write(true), path)
        .map_err(io_error(path, "open it"))?;
    if check_header(path, &file).is_ok() {
        owner::close_to_readers(&file).map_err(io_error(path, "close it to readers"))?;
    }
    Ok(file)
}

fn open_file_for_reading(path: &Path) -> Result<File, Error> {
    sys::open_regular(OpenOptions::new().read(true), path).map_err(io_error(path, "open it"))
}

/// Locks a byte of the file, if no process has it locked. The lock lives as long as the returned
/// file is open.
pub(crate) fn try_lock_byte(
    path: &Path,
    byte: u64,
    action: &'static str,
) -> Result<Option<File>, Error> {
    let file = open_file(path)?;
    let is_taken = sys::try_lock_range(&file, byte, 1).map_err(io_error(path, action))?;
    Ok(is_taken.then_some(file))
}

fn boot_id(path: &Path) -> Result<[u64; 2], Error> {
    sys::boot_id().map_err(io_error(path, "read this boot's id"))
}

/// The boot that the file was created in, if its header is whole.
fn check_header(path: &Path, file: &File) -> Result<[u64; 2], Error> {
    let len = file.metadata().map_err(io_error(path, "read its length"))?.len();
    expect(path, "length", len, at::WORDS as u64 * 8)?;
    let mut bytes = [0u8; (at::CRC + 1) * 8];
    file.read_exact_at(&mut bytes, 0).map_err(io_error(path, "read its header"))?;
    let words = words_of(&bytes);
    expect(path, "magic", words[at::MAGIC], layout::RUNTIME_MAGIC)?;
    expect(path, "version and layout", words[at::VERSION], layout::runtime_version_word())?;
    expect(path, "header CRC", words[at::CRC], header_crc(&words[..at::CRC]))?;
    Ok([words[at::BOOT], words[at::BOOT + 1]])
}
