//! The register of group files in runtime.mmap: which file each group has, and its quarantine.
//!
//! Invariant: a registered file is quarantined until it is known to be sound. It has its lineage
//! before that.

use frs_base::sync::{AtomicU64, Ordering};

use super::Runtime;
use crate::error::Error;
use crate::file::layout::{self, runtime as at};
use crate::file::words::FilePlace;

/// A group file and its place in the register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The entry's index.
    pub index: usize,
    /// The contents of the entry.
    pub entry: FileEntry,
}

/// The group that an entry's group forms a pair with while nodes move from one to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Pairing {
    /// The group is in no pair.
    #[default]
    Alone,
    /// The group grows out of the group with this id.
    NextOf(u64),
    /// The group with this id grows out of the group.
    FormerOf(u64),
}

impl Pairing {
    /// The id of the other group.
    pub fn partner(self) -> Option<u64> {
        match self {
            Pairing::Alone => None,
            Pairing::NextOf(id) | Pairing::FormerOf(id) => Some(id),
        }
    }
}

/// A registered group, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedGroup {
    pub id: u64,
    /// The id of the registered group that it grows out of.
    pub former: Option<u64>,
}

/// A registered group file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
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
    pub fn find_file(&self, group: u64, file: u32) -> Option<Registered> {
        self.registered(|its_group, its_file| (its_group, its_file) == (group, file)).next()
    }

    /// The registered files for whose group and index `is_meant` is true.
    pub(super) fn registered(
        &self,
        is_meant: impl Fn(u64, u32) -> bool,
    ) -> impl Iterator<Item = Registered> {
        (0..at::FILES_MAX).filter_map(move |index| {
            let words = self.used_entry(index)?;
            let is_meant = is_meant(words[0], words[1] as u32);
            is_meant.then(|| Registered { index, entry: entry_of(words) })
        })
    }

    /// The words of an entry, if it is in use. Most entries are not, and one word tells that.
    /// Acquire: pairs with `register_file`.
    fn used_entry(&self, index: usize) -> Option<[u64; at::FILE_WORDS]> {
        let is_used = |flags: u64| flags & at::FILE_USED != 0;
        if !is_used(self.mark_of(index).load(Ordering::Acquire)) {
            return None;
        }
        let mut words = [0; at::FILE_WORDS];
        self.region.read(Self::entry(index), &mut words);
        is_used(words[1]).then_some(words)
    }

    /// The registered groups of a name, at most two. The group that grows out of the other comes
    /// first. A configuration decides which of them it uses.
    pub fn named_groups(&self, name: &str) -> Vec<NamedGroup> {
        let files = self.first_files().filter(|file| file.entry.name == name);
        let known: Vec<NamedGroup> = files
            .map(|Registered { index, entry }| {
                let word = self.region.load(Self::entry(index) + at::FILE_FORMER);
                NamedGroup { id: entry.group, former: Some(word).filter(|&id| id != 0) }
            })
            .collect();
        let is_known = |id: &u64| known.iter().any(|group| group.id == *id);
        let mut named: Vec<NamedGroup> = known
            .iter()
            .map(|group| NamedGroup { former: group.former.filter(is_known), ..*group })
            .collect();
        named.sort_by_key(|group| group.former.is_none());
        named
    }

    /// Whether a registered group grows out of the group with this name and id.
    pub(crate) fn is_former(&self, name: &str, id: u64) -> bool {
        self.named_groups(name).iter().any(|group| group.former == Some(id))
    }

    /// The id of the registered group of this name. If there are two, the id of the group that
    /// grows out of the other.
    pub fn id_of_group(&self, name: &str) -> Option<u64> {
        self.named_groups(name).first().map(|group| group.id)
    }

    /// Quarantines the groups for which `is_meant` is true. Returns their names.
    pub fn quarantine_groups(&self, is_meant: impl Fn(u64) -> bool) -> Vec<String> {
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
        self.registered(|_, file| file == 0)
    }

    /// Registers a group file as quarantined. Returns the index of its entry.
    ///
    /// # Errors
    /// All places are taken, or no lineage can be drawn.
    pub(crate) fn register_file(
        &self,
        entry: &FileEntry,
        pairing: Pairing,
    ) -> Result<usize, Error> {
        let known = self.find_file(entry.group, entry.file).map(|known| known.index);
        if known.is_none() {
            // A group with the same name but another id no longer exists, unless the two form a
            // pair.
            self.forget(|found| {
                let is_relative =
                    found.group == entry.group || Some(found.group) == pairing.partner();
                found.name == entry.name && !is_relative
            });
        }
        let free = || (0..at::FILES_MAX).find(|&index| self.used_entry(index).is_none());
        let index = known.or_else(free).ok_or_else(|| Error::Exhausted {
            path: self.path.clone(),
            what: "places for group files",
            limit: at::FILES_MAX,
        })?;
        // All files of the pair have the lineage before the facts change.
        let lineage = self.lineage_for(entry, pairing)?;
        if self.used_entry(index).map(entry_of).as_ref() != Some(entry) {
            self.forget_doubts(index);
        }
        let name = layout::name_words(&entry.name);
        let base = Self::entry(index);
        self.region.store(base, entry.group);
        self.region.store(base + 2, entry.device);
        self.region.store(base + 3, entry.inode);
        self.region.write(base + 4, &name);
        self.region.store(base + 8, entry.birth_ns);
        self.set_lineage(index, entry, lineage);
        self.set_dirty_place(index, None);
        self.region.store(base + at::FILE_CHECKPOINT, 0);
        let former = if let Pairing::NextOf(former) = pairing { former } else { 0 };
        self.region.store(base + at::FILE_FORMER, former);
        // No process serves from it until it is known to be sound: see `release_file`.
        let flags = at::FILE_USED | at::FILE_QUARANTINE;
        self.region.store_release(base + 1, u64::from(entry.file) | flags);
        Ok(index)
    }

    /// The file that marks the changed pages of a registered file. None if changes are not marked.
    pub fn dirty_place(&self, index: usize) -> Option<FilePlace> {
        let base = Self::entry(index);
        let [inode, birth_ns] = [10, 11].map(|word| self.region.load(base + word));
        let device = self.region.load(base + 2);
        (inode != 0).then_some(FilePlace { device, inode, birth_ns })
    }

    /// Stores which file marks the changed pages. A process that has mapped another one, or none,
    /// maps the group again with the next generation.
    pub fn set_dirty_place(&self, index: usize, place: Option<FilePlace>) {
        let base = Self::entry(index);
        self.region.store(base + 11, place.map_or(0, |place| place.birth_ns));
        self.region.store(base + 10, place.map_or(0, |place| place.inode));
    }

    /// Frees the entries of all files of a group. No process may be attached.
    pub fn forget_named(&self, name: &str) {
        self.forget(|entry| entry.name == name);
    }

    /// Frees the entries of all files of a group that no process opens any more.
    pub fn forget_group(&self, id: u64) {
        self.forget(|entry| entry.group == id);
    }

    fn forget(&self, is_meant: impl Fn(&FileEntry) -> bool) {
        for file in self.registered(|_, _| true).filter(|file| is_meant(&file.entry)) {
            self.region.store(Self::entry(file.index) + 1, 0);
        }
    }

    /// Notes that a group no longer grows out of another one.
    pub fn forget_former(&self, id: u64) {
        self.set_former(id, 0);
    }

    /// Stores the id of the group that a group grows out of; 0 for none.
    pub(crate) fn set_former(&self, id: u64, former: u64) {
        if let Some(first) = self.find_file(id, 0) {
            self.region.store(Self::entry(first.index) + at::FILE_FORMER, former);
        }
    }

    /// The word of a register entry that has its quarantine bit.
    #[inline]
    pub fn mark_of(&self, index: usize) -> &AtomicU64 {
        self.region.word(Self::entry(index) + 1)
    }

    /// Whether the registered file is quarantined.
    #[inline]
    pub fn is_quarantined(&self, index: usize) -> bool {
        self.mark_of(index).load(Ordering::Relaxed) & at::FILE_QUARANTINE != 0
    }

    /// Lifts the quarantine that a registered file begins with, when the file is known to be sound.
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
