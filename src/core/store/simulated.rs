//! A store in this process's own memory, for the simulation. Several played processes attach to it,
//! each with its own handle.
//!
//! Invariant: they run the production code, except for files. A lock is a word that names its
//! holder; it falls when the player says so.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::backing::Backing;
use super::counter::Counters;
use super::dirty::DirtyPages;
use super::error::Error;
use super::group::{Group, Header, MappedFiles};
use super::handle::Handle;
use super::layout::runtime::SLOTS;
use super::layout::runtime::slot_base;
use super::layout::{PAGE_WORDS, runtime as at, slot};
use super::region::Region;
use super::runtime::{FileEntry, Pairing, Runtime, Slot};
use super::semaphore::Token;
use super::slot::{SlotOwner, SlotWords};
use crate::conf;

/// Slots that the simulation uses. It clears only these.
const PLAYED_SLOTS: u32 = 8;

/// The locks of all slots, as one process sees them.
#[derive(Debug, Clone)]
pub(crate) struct Locks {
    /// 0: free. After the locks of the slots come the locks for freeing in their names.
    holders: Arc<Vec<AtomicU32>>,
    process: u32,
}

impl Locks {
    /// All free, seen by no process.
    pub fn new() -> Locks {
        let holders = Arc::new((0..2 * SLOTS).map(|_| AtomicU32::new(0)).collect());
        Locks { holders, process: 0 }
    }

    /// The locks as this process sees them. Its number is not 0.
    pub fn of(&self, process: u32) -> Locks {
        assert_ne!(process, 0);
        Locks { process, ..self.clone() }
    }

    /// Releases all locks of a process whose memory is gone.
    pub fn fall(&self, process: u32) {
        for holder in self.holders.iter() {
            let _ = holder.compare_exchange(process, 0, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    pub(super) fn is_locked(&self, slot: u32) -> bool {
        super::crash::look();
        self.holders[slot as usize].load(Ordering::SeqCst) != 0
    }

    pub(super) fn try_lock(&self, slot: u32) -> bool {
        super::crash::look();
        let holder = &self.holders[slot as usize];
        holder.compare_exchange(0, self.process, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub(super) fn unlock(&self, slot: u32) {
        self.holders[slot as usize].store(0, Ordering::SeqCst);
    }
}

/// The words that all played processes share.
#[derive(Debug)]
pub(crate) struct Shared {
    runtime: Region,
    files: Vec<Vec<Region>>,
    /// The marks of changed pages, for each file of each group.
    dirty: Vec<Vec<Region>>,
    headers: Vec<Header>,
}

impl Shared {
    /// Words for these groups.
    pub fn new(groups: &[conf::Group]) -> Shared {
        let headers: Vec<Header> = groups
            .iter()
            .zip(1..)
            .map(|(group, id)| Header {
                id,
                name: group.name.clone(),
                geometry: group.geometry,
                seeds: [id, !id],
                created_ms: 1,
                file: 0,
            })
            .collect();
        let files = headers.iter().map(|header| {
            let words = header.geometry.file_bytes() as usize / 8;
            (0..header.geometry.files).map(|_| Region::boxed(words)).collect()
        });
        let files: Vec<Vec<Region>> = files.collect();
        let marks =
            |file: &Region| Region::boxed(DirtyPages::words_of(file.len().div_ceil(PAGE_WORDS)));
        let dirty = files.iter().map(|files| files.iter().map(marks).collect()).collect();
        Shared { runtime: Region::boxed(at::WORDS), files, dirty, headers }
    }

    /// Resets all words to the state at a first start: no node, no owner, nothing counted, all
    /// groups registered.
    pub fn clear(&self) {
        let clear = |region: &Region, from: usize, to: usize| {
            region.words(from, to - from).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        };
        clear(&self.runtime, 0, at::FILES);
        let all = self.files.iter().chain(&self.dirty).flatten();
        all.for_each(|file| clear(file, 0, file.len()));
        for number in 0..PLAYED_SLOTS {
            let base = slot_base(number);
            clear(&self.runtime, base, base + 8);
            clear(&self.runtime, base + slot::COUNTERS, base + slot::INTENT_LIST + 64);
            let rows = base + slot::BIZ_ROWS_START;
            clear(&self.runtime, rows, rows + 8 * slot::BIZ_ROW_WORDS);
            clear(&self.runtime, base + slot::UNDO_LOG, base + slot::UNDO_LOG + 512);
        }
        let runtime = self.runtime(&Locks::new());
        for entry in self.headers.iter().flat_map(entries_of) {
            runtime.register_file(&entry, Pairing::Alone).expect("a place for it");
            runtime.release_file(&entry);
        }
    }

    /// runtime.mmap, as a process with these locks maps it.
    pub fn runtime(&self, locks: &Locks) -> Runtime {
        Runtime::played(self.runtime.part(0, at::WORDS), Backing::Played(locks.clone()))
    }

    /// The words of all group files.
    pub fn files(&self) -> impl Iterator<Item = &Region> {
        self.files.iter().flatten()
    }

    /// The marks of a group's files, as a process maps them.
    fn dirty(&self, header: &Header) -> Vec<DirtyPages> {
        let at = self.headers.iter().position(|known| known.id == header.id).expect("its own");
        let pages = |words: usize| words.div_ceil(PAGE_WORDS);
        let files = self.files[at].iter().zip(&self.dirty[at]);
        files
            .map(|(file, marks)| DirtyPages::new(marks.part(0, marks.len()), 0, pages(file.len())))
            .collect()
    }

    /// All groups, as a process maps them.
    pub fn groups(&self) -> Vec<Group> {
        let runtime = self.runtime(&Locks::new());
        let of = |(files, header): (&Vec<Region>, &Header)| {
            let regions = files.iter().map(|file| file.part(0, file.len())).collect();
            let mark = runtime.find_file(header.id, 0).expect("registered").index;
            let entries = entries_of(header);
            let dirty = self.dirty(header);
            let watches = Vec::new();
            let places = Vec::new();
            let files = MappedFiles {
                regions,
                entries,
                watches,
                in_memory: true,
                dirty,
                dirty_places: places,
            };
            Group::of_files(header.clone(), mark, files)
        };
        self.files.iter().zip(&self.headers).map(of).collect()
    }
}

fn entries_of(header: &Header) -> Vec<FileEntry> {
    let of = |file| FileEntry {
        group: header.id,
        file,
        device: 1,
        inode: header.id << 8 | u64::from(file),
        birth_ns: 1,
        name: header.name.clone(),
    };
    (0..header.geometry.files).map(of).collect()
}

impl Handle {
    /// Attaches a played process with all groups mapped.
    pub(crate) fn played(shared: &Shared, locks: &Locks, role: u32) -> Result<Handle, Error> {
        let (runtime, groups) = (shared.runtime(locks), shared.groups());
        Handle::attach_by(runtime, groups, Path::new("."), |runtime, recover| {
            Slot::play(runtime, &shared.runtime, locks, role, recover)
        })
    }
}

impl Slot {
    /// Takes a free slot, like [`Slot::attach`] with files.
    fn play(
        runtime: &Runtime,
        words: &Region,
        locks: &Locks,
        role: u32,
        recover: &mut dyn FnMut(u32),
    ) -> Result<Slot, Error> {
        for number in 0..PLAYED_SLOTS {
            if runtime.slot(number).state().used {
                if locks.is_locked(number) {
                    continue;
                }
                recover(number);
            }
            if !locks.try_lock(number) {
                continue;
            }
            if runtime.slot(number).state().used {
                locks.unlock(number);
                continue;
            }
            let region = words.part(slot_base(number), slot::WORDS);
            let words = SlotWords::at(&region, 0);
            let epoch = Token::next_epoch(words.state().epoch);
            Counters::at(&region, 0).set_open(0);
            words.claim(SlotOwner { pid: locks.process, role }, epoch);
            return Ok(Slot::of_parts(region, number, epoch, None));
        }
        let (path, limit) = (runtime.path().to_path_buf(), PLAYED_SLOTS as usize);
        Err(Error::Exhausted { path, what: "slots", limit })
    }
}
