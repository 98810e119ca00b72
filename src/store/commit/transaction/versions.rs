//! The versions of the nodes of a transaction.
//!
//! Invariant: a node of a mirrored group that the transaction changes gets its next version. A copy
//! from another machine, or a node that only moves, keeps its own.

use super::{AllKeyNodes, NodeIndex, Transaction, WorkingCopies};
use crate::file::layout::node;
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

    /// Gives a node a version by which a record without one is told to other machines: that of a
    /// machine's own first change is larger.
    pub fn begin_version(&mut self, index: NodeIndex) {
        let host = self.handle().run();
        let words = self.words(index);
        let changes = u32::try_from(words[node::LAST_USE] / 1000).unwrap_or(u32::MAX);
        Version { changes, host, ..Version::new(words[node::LAST_USE]) }.put(words);
        self.copies.nodes[index.0].version = VersionStep::Noted;
    }

    /// Keeps the version of a node, because its record does not change. A record of a mirrored
    /// group that has none gets one all the same.
    pub fn keep_version(&mut self, index: NodeIndex) {
        let key_node = self.copies.nodes[index.0].key_node;
        if !self.groups()[self.list()[key_node].group].is_mirrored() {
            return;
        }
        if Version::of_node(self.words(index)).is_some() {
            // A place that was noted before the node moved is empty now.
            let moves = self.former(index).is_some();
            let step = if moves { VersionStep::Noted } else { VersionStep::Kept };
            self.copies.nodes[index.0].version = step;
        } else {
            self.begin_version(index);
        }
    }
}

/// What a commit does with the version of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionStep {
    /// The record changes: it gets its next version, and other machines are told.
    Next,
    /// The version stays, and other machines are told where the record is now.
    Noted,
    /// The version stays.
    Kept,
}

impl WorkingCopies {
    /// Gives each touched node of a mirrored group its version, and notes the change.
    pub(super) fn note_changes(
        &mut self,
        handle: &Handle,
        slot: SlotWords<'_>,
        all: AllKeyNodes<'_>,
    ) {
        for node in self.nodes.iter().filter(|node| node.dirty) {
            let (at, Some(place)) = (&all.list[node.key_node], node.place) else { continue };
            let group = &all.groups[at.group];
            let words = &mut self.words[node.start..node.end];
            match node.version {
                _ if !group.is_mirrored() => {}
                VersionStep::Next => handle.note_change(slot, group, &at.intent, place, words),
                VersionStep::Noted => Handle::note_place(slot, group, &at.intent, place),
                VersionStep::Kept => {}
            }
        }
    }
}
