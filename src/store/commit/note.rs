//! Notes the changes of mirrored records, for the process that tells the other machines.
//!
//! Invariant: a change is noted while the semaphore of its key-node is held.

use crate::file::group::Group;
use crate::file::layout::node;
use crate::file::version::{Version, Versioned};
use crate::handle::Handle;
use crate::watch::change_ring::{ChangeRing, ChangedPlace};
use crate::watch::slot::{Intent, SlotWords};

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
        let before = version.unwrap_or_else(|| Version::new(words[node::LAST_USE]));
        before.changed_by(self.run).put(words);
        Handle::note_place(slot, group, intent, place);
    }

    /// Notes that other machines need the node of a place.
    #[inline]
    pub(crate) fn note_place(slot: SlotWords<'_>, group: &Group, intent: &Intent, place: usize) {
        let file = group.register_index(intent.file);
        let changed = ChangedPlace { file, key_node: intent.key_node, place: place as u32 };
        ChangeRing::of(slot).note(changed);
    }
}
