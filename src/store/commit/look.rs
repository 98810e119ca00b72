//! A look at a record beside its users.
//!
//! Invariant: no semaphore is taken, and what is found is what a commit has left.

use frs_conf::key::KeyNodeId;

use crate::checkpoint::dirty::copy_quiet;
use crate::file::group::{Group, is_whole};
use crate::file::layout::tag;

/// How often a place is looked at while its key-node is held.
const LOOKS_MAX: usize = 20;

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
