//! The versions of the nodes of a transaction.
//!
//! Invariant: a node of a mirrored group that the transaction changes gets its next version. A copy
//! from another machine, or a node that only moves, keeps its own.

use super::{AllKeyNodes, NodeIndex, Transaction, WorkingCopies};
use crate::file::version::Version;
use crate::handle::Handle;
use crate::watch::slot::SlotWords;

impl Transaction<'_> {
    /// The version of a node's working copy.
    pub fn version(&mut self, index: NodeIndex) -> Option<Version> {
        Version::of_node(self.words(index))
    }

    /// Whether this run of this machine owns the record.
    pub fn is_own(&mut self, index: NodeIndex) -> bool {
        let run = self.handle().run();
        self.version(index).is_some_and(|version| version.host == run)
    }

    /// Gives a node the version of a copy that came from another machine. The commit keeps it.
    pub fn set_version(&mut self, index: NodeIndex, version: Version) {
        version.put(self.words(index));
        self.keep_version(index);
    }

    /// Keeps the version of a node, because its record does not change. A record without a version
    /// gets one all the same.
    pub fn keep_version(&mut self, index: NodeIndex) {
        let has_version = Version::of_node(self.words(index)).is_some();
        self.copies.nodes[index.0].keeps_version = has_version;
    }
}

impl WorkingCopies {
    /// Gives each touched node of a mirrored group its next version, and notes the change.
    pub(super) fn note_changes(
        &mut self,
        handle: &Handle,
        slot: SlotWords<'_>,
        all: AllKeyNodes<'_>,
    ) {
        for node in self.nodes.iter().filter(|node| node.dirty && !node.keeps_version) {
            let (at, Some(place)) = (&all.list[node.key_node], node.place) else { continue };
            let words = &mut self.words[node.start..node.end];
            handle.note_change(slot, &all.groups[at.group], &at.intent, place, words);
        }
    }
}
