//! Fetches heads and nodes ahead of a transaction.
//!
//! Invariant: words are read here without the semaphore, so each result is a guess, and nothing
//! depends on it.

use frs_base::sync::Ordering;

use super::Wanted;
use crate::chain::tags::{bytes_equal, has_tag};
use crate::file::group::Group;
use crate::file::layout::{HEAD_WORDS, TAG_WORDS};
use crate::file::region::Region;
use crate::handle::Handle;

impl Handle {
    /// Asks the processor to fetch the head that a key leads to and, at the same time, the node at
    /// its home and the marks of its page. Returns that home, a first guess at the node's place.
    #[inline]
    pub fn prefetch_head(&self, wanted: &Wanted) -> usize {
        let group = &self.groups[wanted.group];
        let region = group.file(wanted.at.file);
        region.prefetch(group.head(wanted.at.key_node));
        let home = group.home(wanted.at.tag);
        let node = group.node(wanted.at.key_node, home);
        prefetch(group, region, node);
        if let Some(dirty) = group.dirty(wanted.at.file) {
            dirty.prefetch(node);
        }
        home
    }

    /// Asks the processor to fetch the node that the key's tag points to, unless it is at `guess`.
    /// Call it some time after `prefetch_head`, when the head has arrived. Returns the node's
    /// place. Tags are read without the semaphore, so the result is a guess, too.
    #[inline]
    pub fn prefetch_node(&self, wanted: &Wanted, guess: Option<usize>) -> Option<usize> {
        let group = &self.groups[wanted.group];
        if self.runtime.is_quarantined(group.mark()) {
            // Its pages may be gone.
            return None;
        }
        let region = group.file(wanted.at.file);
        let (head, tag) = (group.head(wanted.at.key_node), wanted.at.tag);
        if guess.is_some_and(|place| has_tag(region, head, place, tag)) {
            return guess;
        }
        let tags = region.words(head + 1, TAG_WORDS);
        let place = tags.iter().enumerate().find_map(|(index, word)| {
            let matches = bytes_equal(word.load(Ordering::Relaxed), tag);
            (matches != 0).then(|| index * 8 + matches.trailing_zeros() as usize / 8)
        })?;
        prefetch(group, region, group.node(wanted.at.key_node, place));
        Some(place)
    }
}

/// Words of a node that are fetched ahead: as many as a node with two shared limits has.
const FETCHED_WORDS: usize = 32;

/// Asks the processor to fetch the first lines of a node.
#[inline]
fn prefetch(group: &Group, region: &Region, node: usize) {
    region.prefetch(node);
    let mut at = HEAD_WORDS;
    while at < group.node_words().min(FETCHED_WORDS) {
        region.prefetch(node + at);
        at += HEAD_WORDS;
    }
}
