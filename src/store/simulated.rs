//! A store in this process's own memory, for the simulation. Several played processes attach to it,
//! each with its own handle.
//!
//! Invariant: the played processes run the production code, except for files. A lock is a word that
//! names its holder. The player releases the locks of a dead process.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use frs_conf::{self as conf, Geometry};

use crate::checkpoint::dirty::DirtyPages;
use crate::error::Error;
use crate::file::group::{Group, Header, MappedFiles};
use crate::file::layout::runtime::SLOTS;
use crate::file::layout::runtime::slot_base;
use crate::file::layout::{PAGE_WORDS, runtime as at, slot};
use crate::file::region::Region;
use crate::handle::Handle;
use crate::lock::semaphore::Token;
use crate::watch::backing::Backing;
use crate::watch::counter::Counters;
use crate::watch::runtime::{FileEntry, Pairing, Runtime, Slot};
use crate::watch::slot::{SlotOwner, SlotWords};

/// Slots that the simulation uses. It clears only these.
const PLAYED_SLOTS: u32 = 8;
/// Entries of the register that it uses.
const PLAYED_FILES: usize = 16;

/// The locks of all slots, as one process sees them.
#[derive(Debug, Clone)]
pub struct Locks {
    /// The holder of each lock; 0 if it is free. After the locks of the slots come the locks for
    /// freeing in their names.
    holders: Arc<Vec<AtomicU32>>,
    process: u32,
}

impl Default for Locks {
    fn default() -> Locks {
        let holders = Arc::new((0..2 * SLOTS).map(|_| AtomicU32::new(0)).collect());
        Locks { holders, process: 0 }
    }
}

impl Locks {
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

    pub fn is_locked(&self, slot: u32) -> bool {
        crate::crash::look();
        self.holders[slot as usize].load(Ordering::SeqCst) != 0
    }

    pub fn try_lock(&self, slot: u32) -> bool {
        crate::crash::look();
        let holder = &self.holders[slot as usize];
        holder.compare_exchange(0, self.process, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub fn unlock(&self, slot: u32) {
        self.holders[slot as usize].store(0, Ordering::SeqCst);
    }
}

/// The backing of runtime.mmap, as one played process sees it.
#[derive(Debug)]
pub struct Played {
    pub locks: Locks,
    pub shared: Arc<Shared>,
}

/// The words that all played processes share.
#[derive(Debug)]
pub struct Shared {
    runtime: Region,
    /// The groups that exist at a first start.
    first: Vec<Arc<GroupWords>>,
    /// The groups that these have grown to since.
    next: Mutex<Vec<Arc<GroupWords>>>,
}

/// The words of a group's files.
#[derive(Debug)]
struct GroupWords {
    header: Header,
    files: Vec<Region>,
    /// The marks of changed pages, for each file.
    dirty: Vec<Region>,
}

impl GroupWords {
    fn new(header: Header) -> GroupWords {
        let words = header.geometry.file_bytes() as usize / 8;
        let files = || 0..header.geometry.files;
        let marks = DirtyPages::words_of(words.div_ceil(PAGE_WORDS));
        GroupWords {
            files: files().map(|_| Region::boxed(words)).collect(),
            dirty: files().map(|_| Region::boxed(marks)).collect(),
            header,
        }
    }

    fn register(&self, runtime: &Runtime, pairing: Pairing) {
        let entries = entries_of(&self.header);
        for entry in &entries {
            let index = runtime.register_file(entry, pairing).expect("a place for it");
            assert!(index < PLAYED_FILES, "`clear` would leave it");
        }
        entries.iter().for_each(|entry| runtime.release_file(entry));
    }

    /// The group, as a process maps it.
    fn map(&self, runtime: &Runtime) -> Group {
        let marks = |(file, marks): (&Region, &Region)| {
            DirtyPages::new(whole(marks), 0, file.len().div_ceil(PAGE_WORDS))
        };
        let mark = runtime.find_file(self.header.id, 0).expect("registered").index;
        let files = MappedFiles {
            regions: self.files.iter().map(whole).collect(),
            indexes: entries_of(&self.header)
                .iter()
                .map(|entry| runtime.find_file(entry.group, entry.file).expect("registered"))
                .map(|known| known.index as u32)
                .collect(),
            entries: entries_of(&self.header),
            in_memory: true,
            dirty: self.files.iter().zip(&self.dirty).map(marks).collect(),
            ..MappedFiles::default()
        };
        Group::of_files(self.header.clone(), mark, files)
    }
}

/// The same words, as another process maps them.
fn whole(region: &Region) -> Region {
    region.part(0, region.len())
}

impl Shared {
    /// Words for these groups.
    pub fn new(groups: &[conf::Group]) -> Shared {
        let header = |(group, id): (&conf::Group, u64)| Header {
            id,
            name: group.name.clone(),
            geometry: group.geometry,
            seeds: [id, !id],
            created_ms: 1,
            file: 0,
        };
        let first = groups.iter().zip(1..).map(header).map(GroupWords::new).map(Arc::new).collect();
        Shared { runtime: Region::boxed(at::WORDS), first, next: Mutex::default() }
    }

    /// Resets all words to the state at a first start: no node, no owner, nothing counted, the
    /// first groups registered.
    pub fn clear(self: &Arc<Self>) {
        let clear = |region: &Region, from: usize, to: usize| {
            region.words(from, to - from).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        };
        clear(&self.runtime, 0, at::FILES + PLAYED_FILES * at::FILE_WORDS);
        self.next.lock().expect("one thread").clear();
        let all = self.first.iter().flat_map(|group| group.files.iter().chain(&group.dirty));
        all.for_each(|file| clear(file, 0, file.len()));
        for number in 0..PLAYED_SLOTS {
            let base = slot_base(number);
            clear(&self.runtime, base, base + 8);
            clear(&self.runtime, base + slot::COUNTERS, base + slot::INTENT_LIST + 64);
            let rows = base + slot::BIZ_ROWS_START;
            clear(&self.runtime, rows, rows + 8 * slot::BIZ_ROW_WORDS);
            clear(&self.runtime, base + slot::UNDO_LOG, base + slot::UNDO_LOG + 512);
        }
        let runtime = self.runtime(&Locks::default());
        self.first.iter().for_each(|group| group.register(&runtime, Pairing::Alone));
    }

    /// runtime.mmap, as a process with these locks maps it.
    pub fn runtime(self: &Arc<Self>, locks: &Locks) -> Runtime {
        let played = Played { locks: locks.clone(), shared: self.clone() };
        Runtime::played(whole(&self.runtime), Backing::Played(played))
    }

    /// The words of all registered group files.
    pub fn files(&self, runtime: &Runtime) -> Vec<Region> {
        let next = self.next.lock().expect("one thread");
        let all = self.first.iter().chain(next.iter());
        let registered = all.filter(|group| runtime.find_file(group.header.id, 0).is_some());
        registered.flat_map(|group| group.files.iter().map(whole)).collect()
    }

    fn find(&self, id: u64) -> Option<Arc<GroupWords>> {
        let next = self.next.lock().expect("one thread");
        self.first.iter().chain(next.iter()).find(|group| group.header.id == id).cloned()
    }

    /// Opens a registered group, like [`Group::open_id`] with files.
    pub fn open(&self, id: u64, runtime: &Runtime) -> Result<Group, Error> {
        let missing = || Error::Missing { group: id.to_string(), missing: "its words".into() };
        let found = self.find(id).filter(|_| runtime.find_file(id, 0).is_some());
        found.map(|group| group.map(runtime)).ok_or_else(missing)
    }

    /// The number of nodes in a registered group.
    pub fn nodes_of(&self, id: u64, runtime: &Runtime) -> u64 {
        self.open(id, runtime).expect("registered").verify().nodes
    }

    /// Makes and registers the empty files that a group moves to, as `prepare` does.
    pub fn begin_move(self: &Arc<Self>, name: &str, geometry: Geometry, runtime: &Runtime) {
        let former = self.find(runtime.id_of_group(name).expect("registered")).expect("made");
        let mut next = self.next.lock().expect("one thread");
        let id = (self.first.len() + next.len() + 1) as u64;
        let made = GroupWords::new(Header { id, geometry, ..former.header.clone() });
        made.register(runtime, Pairing::NextOf(former.header.id));
        next.push(Arc::new(made));
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
    /// Attaches a played process. No group is mapped.
    pub fn played(shared: &Arc<Shared>, locks: &Locks, role: u32) -> Result<Handle, Error> {
        let runtime = shared.runtime(locks);
        Handle::attach_by(runtime, Vec::new(), Path::new("."), |runtime, recover| {
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
            Counters::at(&region, 0).forget_clients();
            words.claim(SlotOwner { pid: locks.process, role }, epoch);
            return Ok(Slot::of_parts(region, number, epoch, None));
        }
        let (path, limit) = (runtime.path().to_path_buf(), PLAYED_SLOTS as usize);
        Err(Error::Exhausted { path, what: "slots", limit })
    }
}
