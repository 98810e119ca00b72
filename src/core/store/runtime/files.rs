//! The register of group files in runtime.mmap: which file each group has, and its quarantine.
//!
//! Invariant: a registered file is quarantined until it is known to be sound.

use super::Runtime;
use crate::base::sync::{AtomicU64, Ordering};
use crate::store::error::Error;
use crate::store::file_words::FileFacts;
use crate::store::file_words::FilePlace;
use crate::store::layout::{self, runtime as at};

/// A group file and its place in the register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registered {
    /// The entry's index.
    pub index: usize,
    /// The contents of the entry.
    pub entry: FileEntry,
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
    pub(super) fn entry(index: usize) -> usize {
        at::FILES + index * at::FILE_WORDS
    }

    /// The register's entry of a group file, if it has one.
    pub(crate) fn find_file(&self, group: u64, file: u32) -> Option<Registered> {
        (0..at::FILES_MAX).find_map(|index| {
            let words = self.entry_words(index);
            let matches =
                words[1] & at::FILE_USED != 0 && words[0] == group && words[1] as u32 == file;
            matches.then(|| Registered { index, entry: entry_of(words) })
        })
    }

    fn entry_words(&self, index: usize) -> [u64; at::FILE_WORDS] {
        let mut words = [0; at::FILE_WORDS];
        self.region.read(Self::entry(index), &mut words);
        words
    }

    /// The register's entry of the file with this name and number.
    pub(crate) fn find_named(&self, name: &str, file: u32) -> Option<FileEntry> {
        (0..at::FILES_MAX)
            .map(|index| self.entry_words(index))
            .filter(|words| words[1] & at::FILE_USED != 0)
            .map(entry_of)
            .find(|entry| entry.name == name && entry.file == file)
    }

    /// Quarantines the groups for which `is_meant` is true. Returns their names.
    pub(crate) fn quarantine_groups(&self, is_meant: impl Fn(u64) -> bool) -> Vec<String> {
        let meant = self.first_files().filter(|file| is_meant(file.entry.group));
        meant
            .map(|Registered { index, entry }| {
                self.mark_of(index).fetch_or(at::FILE_QUARANTINE, Ordering::Relaxed);
                entry.name
            })
            .collect()
    }

    /// The first file of each registered group.
    pub(crate) fn first_files(&self) -> impl Iterator<Item = Registered> {
        (0..at::FILES_MAX).filter_map(|index| {
            let words = self.entry_words(index);
            let is_first = words[1] & at::FILE_USED != 0 && words[1] as u32 == 0;
            is_first.then(|| Registered { index, entry: entry_of(words) })
        })
    }

    /// The registered files of the groups with a shared biz, as far as they name the host.
    pub(in crate::store) fn group_files(&self, is_shared: impl Fn(&str) -> bool) -> Vec<FileFacts> {
        (0..at::FILES_MAX)
            .map(|index| self.entry_words(index))
            .filter(|words| words[1] & at::FILE_USED != 0)
            .map(entry_of)
            .filter(|entry| is_shared(&entry.name))
            .map(|FileEntry { group, file, device, inode, birth_ns, .. }| FileFacts {
                id: [group, u64::from(file)],
                place: FilePlace { device, inode, birth_ns },
            })
            .collect()
    }

    /// Registers a group file as quarantined. Returns the index of its entry.
    pub(crate) fn register_file(&self, entry: &FileEntry) -> Result<usize, Error> {
        let known = self.find_file(entry.group, entry.file).map(|known| known.index);
        let free =
            || (0..at::FILES_MAX).find(|&index| self.entry_words(index)[1] & at::FILE_USED == 0);
        // A file with the same name and number but another id no longer exists: reuse its entry.
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
        self.set_dirty_place(index, None);
        self.region.store(base + at::FILE_CHECKPOINT, 0);
        // No process serves from it until it is known to be sound: see `release_file`.
        let flags = at::FILE_USED | at::FILE_QUARANTINE;
        self.region.store_release(base + 1, u64::from(entry.file) | flags);
        Ok(index)
    }

    /// The file that marks the changed pages of a registered file. None where nothing is marked.
    pub(crate) fn dirty_place(&self, index: usize) -> Option<FilePlace> {
        let base = Self::entry(index);
        let [inode, birth_ns] = [10, 11].map(|word| self.region.load(base + word));
        let device = self.region.load(base + 2);
        (inode != 0).then_some(FilePlace { device, inode, birth_ns })
    }

    /// Stores which file marks the changed pages. A process that has mapped another one, or none,
    /// maps the group again with the next generation.
    pub(crate) fn set_dirty_place(&self, index: usize, place: Option<FilePlace>) {
        let base = Self::entry(index);
        self.region.store(base + 11, place.map_or(0, |place| place.birth_ns));
        self.region.store(base + 10, place.map_or(0, |place| place.inode));
    }

    /// Frees the entries of all files of a group. No process may be attached.
    pub(crate) fn forget_named(&self, name: &str) {
        for index in 0..at::FILES_MAX {
            let words = self.entry_words(index);
            if words[1] & at::FILE_USED != 0 && entry_of(words).name == name {
                self.region.store(Self::entry(index) + 1, 0);
            }
        }
    }

    /// The word of a register entry that has its quarantine bit.
    #[inline]
    pub(crate) fn mark_of(&self, index: usize) -> &AtomicU64 {
        self.region.word(Self::entry(index) + 1)
    }

    /// Whether the registered file is quarantined.
    #[inline]
    pub(crate) fn is_quarantined(&self, index: usize) -> bool {
        self.mark_of(index).load(Ordering::Relaxed) & at::FILE_QUARANTINE != 0
    }

    /// Lifts the quarantine that a registered file begins with. The file is known to be sound now.
    pub(crate) fn release_file(&self, entry: &FileEntry) {
        if let Some(known) = self.find_file(entry.group, entry.file) {
            self.mark_of(known.index).fetch_and(!at::FILE_QUARANTINE, Ordering::Release);
        }
    }
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
