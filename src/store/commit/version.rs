//! The version of a record: which of two copies on two machines is the later one.
//!
//! Invariant: no version is made twice. A machine that changes a record of another one takes it
//! over; its number is another one after each start.

use frs_conf::key::KeyNodeId;

use super::transaction::{NodeIndex, Transaction};
use crate::checkpoint::dirty::copy_quiet;
use crate::file::group::{Group, is_whole};
use crate::file::layout::node::{self, CHECK, FLAG_VERSION, VERSION_WORDS};
use crate::file::layout::tag;
use crate::handle::Handle;
use crate::watch::change_ring::{ChangeRing, ChangedPlace};
use crate::watch::slot::{Intent, SlotWords};

/// How often a place is looked at while its key-node is held.
const LOOKS_MAX: usize = 20;

/// The version of a record. Of two versions of a record the larger one is later. A change counts
/// before the host, so that a machine that has lost its files does not win with its first use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// How often another machine, or another run of one, has become the owner.
    pub takeovers: u32,
    /// Changes since then.
    pub changes: u32,
    /// The owner: the number of a run of a machine.
    pub host: u32,
}

impl Version {
    /// The version in these words.
    pub const fn of_words([counts, host]: [u64; VERSION_WORDS]) -> Version {
        Version { takeovers: (counts >> 32) as u32, changes: counts as u32, host: host as u32 }
    }

    /// Its words.
    pub const fn words(self) -> [u64; VERSION_WORDS] {
        [(self.takeovers as u64) << 32 | self.changes as u64, self.host as u64]
    }

    /// The version of a node. `None` if it has none.
    #[inline]
    pub fn of_node(words: &[u64]) -> Option<Version> {
        if node::flags(words[CHECK]) & FLAG_VERSION == 0 {
            return None;
        }
        words.last_chunk().copied().map(Version::of_words)
    }

    /// Puts it into a node.
    #[inline]
    pub fn put(self, words: &mut [u64]) {
        words[CHECK] |= node::check_word(0, FLAG_VERSION);
        if let Some(tail) = words.last_chunk_mut() {
            *tail = self.words();
        }
    }

    /// The version after a change by this host.
    #[inline]
    pub fn changed_by(self, host: u32) -> Version {
        if self.host == host
            && let Some(changes) = self.changes.checked_add(1)
        {
            return Version { changes, ..self };
        }
        Version { takeovers: self.takeovers.saturating_add(1), changes: 1, host }
    }
}

/// How many words at the end of a node are its version.
#[inline]
pub fn tail_words(words: &[u64]) -> usize {
    match node::flags(words[CHECK]) & FLAG_VERSION {
        0 => 0,
        _ => VERSION_WORDS,
    }
}

/// Takes the version out of a node.
pub fn remove(words: &mut [u64]) {
    let end = words.len() - tail_words(words);
    words[end..].fill(0);
    words[CHECK] &= !node::check_word(0, FLAG_VERSION);
}

/// Whether the nodes of a group have versions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Versioned {
    /// They need none. A node may have one from an earlier configuration.
    #[default]
    No,
    /// Another group grows out of it: a node keeps the version that it has, and may have no room
    /// for one.
    Kept,
    /// Each node that is written gets one.
    Yes,
}

impl Versioned {
    /// Of a group, and of one that another group grows out of.
    pub(crate) fn of(is_mirrored: bool, is_former: bool) -> Versioned {
        match (is_mirrored, is_former) {
            (false, _) => Versioned::No,
            (true, false) => Versioned::Yes,
            (true, true) => Versioned::Kept,
        }
    }
}

impl Handle {
    /// The number of this run of this machine, which owns the records that it changes.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Gives a node that this process has changed its next version, and notes the change for the
    /// process that tells the other machines. The semaphore of the key-node is held.
    #[inline]
    pub(crate) fn note_change(
        &self,
        slot: SlotWords<'_>,
        group: &Group,
        intent: &Intent,
        place: usize,
        words: &mut [u64],
    ) {
        let version = Version::of_node(words);
        if version.is_none() && group.versioned() == Versioned::Kept {
            return;
        }
        version.unwrap_or_default().changed_by(self.run).put(words);
        let file = group.register_index(intent.file);
        let changed = ChangedPlace { file, key_node: intent.key_node, place: place as u32 };
        ChangeRing::of(slot).note(changed);
    }
}

/// A look at a place of a chain, beside its users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looked {
    /// The place is free, or its node is not whole.
    Nothing,
    /// The node was copied, as a commit left it.
    Node,
    /// The key-node is held: look again later.
    Held,
}

impl Group {
    /// Copies the node of a place as a commit left it, without the semaphore of its key-node. Who
    /// has seen a change noted finds it here, or the key-node held.
    pub fn look_at(&self, at: KeyNodeId, place: usize, words: &mut [u64]) -> Looked {
        let KeyNodeId { file, key_node } = at;
        if !self.has(file, key_node) || place >= self.geometry().chain as usize {
            return Looked::Nothing;
        }
        let stored = self.file(file).words(self.node(key_node, place), words.len());
        let semaphore = self.semaphore(file, key_node);
        if !(0..LOOKS_MAX).any(|_| copy_quiet(semaphore, stored, words)) {
            return Looked::Held;
        }
        // After the copy: a new node has its tag by the time that its semaphore is free.
        let tag = tag::of(self.tags(at)[place / 8], place);
        let is_node = tag != 0 && is_whole(words) && !self.has_moved(tag, words);
        if is_node { Looked::Node } else { Looked::Nothing }
    }
}

impl Transaction<'_> {
    /// The version of a node's working copy.
    pub fn version(&mut self, index: NodeIndex) -> Option<Version> {
        Version::of_node(self.words(index))
    }

    /// Whether this run of this machine owns the record.
    pub fn is_own(&mut self, index: NodeIndex) -> bool {
        let run = self.run();
        self.version(index).is_some_and(|version| version.host == run)
    }

    /// Gives a node the version of a copy that came from another machine. The commit keeps it.
    pub fn set_version(&mut self, index: NodeIndex, version: Version) {
        version.put(self.words(index));
        self.keep_version(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 7;

    #[test]
    fn of_two_versions_the_one_after_more_takeovers_is_later_then_the_one_after_more_changes() {
        let of = |takeovers, changes, host| Version { takeovers, changes, host };
        assert!(of(2, 1, 1) > of(1, 9, 9));
        assert!(of(1, 9, 1) > of(1, 8, 9), "an empty machine with a larger number does not win");
        assert!(of(1, 9, 2) > of(1, 9, 1));
    }

    #[test]
    fn each_change_makes_a_later_version() {
        let mut version = Version::default();
        for host in [OWN, OWN, 3, OWN, 9, 9] {
            let next = version.changed_by(host);
            assert!(next > version && next.host == host);
            version = next;
        }
        let full = Version { takeovers: 4, changes: u32::MAX, host: OWN };
        assert!(full.changed_by(OWN) > full);
    }

    #[test]
    fn a_version_is_read_from_a_node_as_it_was_put_and_can_be_removed() {
        let mut words = [0; 8];
        words[CHECK] = node::check_word(77, node::FLAG_BAN);
        assert_eq!((Version::of_node(&words), tail_words(&words)), (None, 0));
        let version = Version { takeovers: 1, changes: 2, host: u32::MAX };
        version.put(&mut words);
        assert_eq!((Version::of_node(&words), tail_words(&words)), (Some(version), 2));
        remove(&mut words);
        assert_eq!(Version::of_node(&words), None);
        assert_eq!(words[..2], [node::check_word(77, node::FLAG_BAN), 0]);
        assert_eq!(words[2..], [0; 6]);
    }
}
