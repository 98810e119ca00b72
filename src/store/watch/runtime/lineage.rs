//! The lineage of a group: a random number that it hands on to the group that grows out of it.
//!
//! Invariant: all files of a group and of its partner have one lineage, and a replaced file never
//! gets an earlier lineage. So a move changes no lineage, and an older copy of a group brings no
//! lineage back.
//!
//! An entry stores its lineage mixed with the digest of its facts. So if the facts change without
//! the lineage, by an older binary or by a death between two stores, the entry has a new lineage
//! that was never used.

use frs_base::hash::siphash_digest;
use frs_base::sys;

use super::Runtime;
use super::files::{FileEntry, Pairing, Registered};
use crate::error::{Error, io_error};
use crate::file::layout::runtime as at;

/// The key of the digest of facts: any fixed one mixes well.
const FACTS_KEY: [u64; 2] = [u64::from_le_bytes(*b"frs file"), u64::from_le_bytes(*b"lineage\0")];

impl Runtime {
    /// The lineages of the groups for which `is_meant` is true, in order, each once.
    pub fn lineages(&self, is_meant: impl Fn(u64) -> bool) -> Vec<u64> {
        let meant = self.registered(|group, _| is_meant(group)).map(|file| self.lineage_of(&file));
        let mut lineages: Vec<u64> = meant.collect();
        lineages.sort_unstable();
        lineages.dedup();
        lineages
    }

    /// The lineage of a file that is about to be registered. If the file is not the known one, the
    /// whole group and its partner have a new lineage when this returns.
    ///
    /// # Errors
    /// No number can be drawn.
    pub(super) fn lineage_for(&self, entry: &FileEntry, pairing: Pairing) -> Result<u64, Error> {
        let is_known = |group: u64| self.registered(|id, _| id == group).next().is_some();
        let is_replaced = match (self.find_file(entry.group, entry.file), pairing) {
            (Some(known), _) => known.entry != *entry,
            // The former group was registered before the new one, and its entry is gone. It may be
            // another file now.
            (None, Pairing::FormerOf(next)) => is_known(next) && !is_known(entry.group),
            (None, _) => false,
        };
        match is_replaced {
            true => self.renew_lineage(entry.group, pairing),
            false => self.settle_lineage(entry.group, pairing),
        }
    }

    /// Makes sure that a group and its partner have one lineage, and returns it. They have more
    /// than one if a renewal was interrupted, or if an older binary has registered them.
    ///
    /// # Errors
    /// No number can be drawn.
    pub(crate) fn settle_lineage(&self, group: u64, pairing: Pairing) -> Result<u64, Error> {
        match self.lineages(pair_of(group, pairing))[..] {
            [lineage] => Ok(lineage),
            _ => self.renew_lineage(group, pairing),
        }
    }

    /// Gives a group and its partner a new lineage. What depends on the former one is void then.
    ///
    /// # Errors
    /// No number can be drawn.
    pub(crate) fn renew_lineage(&self, group: u64, pairing: Pairing) -> Result<u64, Error> {
        let [lineage] = sys::random().map_err(io_error(&self.path, "draw a lineage"))?;
        let is_of_pair = pair_of(group, pairing);
        for Registered { index, entry } in self.registered(|id, _| is_of_pair(id)) {
            self.set_lineage(index, &entry, lineage);
        }
        Ok(lineage)
    }

    /// Stores the lineage of an entry with these facts.
    pub(super) fn set_lineage(&self, index: usize, entry: &FileEntry, lineage: u64) {
        self.region.store(Self::entry(index) + at::FILE_LINEAGE, lineage ^ facts_digest(entry));
    }

    fn lineage_of(&self, Registered { index, entry }: &Registered) -> u64 {
        self.region.load(Self::entry(*index) + at::FILE_LINEAGE) ^ facts_digest(entry)
    }
}

/// A group and its partner.
fn pair_of(group: u64, pairing: Pairing) -> impl Fn(u64) -> bool {
    move |id| id == group || Some(id) == pairing.partner()
}

fn facts_digest(entry: &FileEntry) -> u64 {
    let FileEntry { group, file, device, inode, birth_ns, name: _ } = entry;
    let facts = [*group, u64::from(*file), *device, *inode, *birth_ns];
    let bytes: Vec<u8> = facts.iter().flat_map(|word| word.to_le_bytes()).collect();
    siphash_digest(&bytes, FACTS_KEY)[0]
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests;
