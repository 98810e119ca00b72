//! The most common way to make a node: in one key-node, in a free place. It does what
//! [`crate::Transaction`] does, on the stack.
//!
//! Invariant: as in [`super::fast_path`]. Both files write out the steps in between, because a
//! shared function that takes the work as an argument costs a hit 100 instructions.

use frs_conf::key::KeyRef;

use super::fast_path::{Chain, Keep, MANY_WORDS, Moment, NodeOwner, Worked};
use super::protocol::{Announced, Change, Changes, Owner as _};
use super::transaction::{Refused, Wanted};
use super::undo_log::{LogFull, UndoLog};
use crate::chain::tags::places_of;
use crate::file::group::seal;
use crate::file::layout::{HEAD_WORDS, TAG_WORDS, node, tag};
use crate::handle::{Attached, Handle};
use crate::watch::counter::GroupCounter;

/// A new node in a free place, and the word of the head with its tag.
struct NewNode<'c> {
    node: Change<'c>,
    tag: Change<'c>,
}

impl Changes for NewNode<'_> {
    fn log(&self, log: &mut UndoLog<'_>) -> Result<(), LogFull> {
        // The words of a free place need no log.
        self.tag.log(log)
    }

    fn write(&self) {
        self.node.write();
        self.tag.write();
    }

    fn mark(&self) {
        self.node.mark();
        self.tag.mark();
    }
}

impl Handle {
    /// Calls `work` with a new node for a key that has none. Writes the node to a free place of the
    /// chain if `work` asks for that. Returns None, and has changed nothing, if the key has a node,
    /// no place is free, the group moves, or anything else needs a whole [`crate::Transaction`].
    #[inline]
    pub fn with_new<T>(
        &self,
        wanted: &Wanted,
        NodeOwner { biz_id, key }: NodeOwner<'_>,
        Moment { generation, now_ms: now }: Moment,
        work: impl FnOnce(&mut [u64]) -> Worked<T>,
    ) -> Result<Option<T>, Refused> {
        let words = self.groups[wanted.group].node_words();
        if words > MANY_WORDS || self.former_of(wanted.group).is_some() {
            return Ok(None);
        }
        let (chain, one) = self.one_key_node(wanted)?;
        let Chain { group, region, head } = chain;
        if !chain.has_free_place() {
            return Ok(None);
        }
        let (intent, file) = (one.intent, wanted.at.file);
        let attached = Attached::of(self);
        let mut announced = Announced::new(attached, one);
        // One exit for all cases, so that the code that releases exists once.
        let done = 'announced: {
            let Some(held) = announced.take_all() else {
                break 'announced Err(Refused::Busy);
            };
            if let Some(refused) = self.outdated(group, generation) {
                break 'announced Err(refused);
            }
            let copy = &mut [0; MANY_WORDS][..words];
            let key_word = node::key_word(biz_id, key.form() as u8, key.bytes());
            let Some(place) = chain.place_of_new(key_word, key, wanted.at.tag, copy) else {
                break 'announced Ok(None);
            };
            copy.fill(0);
            copy[node::KEY] = key_word;
            copy[node::FIELD..][..key.words().len()].copy_from_slice(key.words());
            let Worked { result, keep } = work(copy);
            // A new node is not stored for its last use alone.
            if keep == Keep::Node {
                copy[node::LAST_USE] = now;
                if group.is_mirrored() {
                    self.note_change(attached.slot(), group, &intent, place, copy);
                }
                seal(copy);
                let tag_at = head + 1 + place / 8;
                let tags = [tag::with(region.load(tag_at), place, wanted.at.tag)];
                let change = |at, new| {
                    let stored = region.words(at, <[u64]>::len(new));
                    Change { intent, at, stored, new, dirty: group.dirty(file) }
                };
                let node = change(head + HEAD_WORDS + place * words, copy);
                let Ok(logged) = held.log(NewNode { node, tag: change(tag_at, &tags) }) else {
                    break 'announced Ok(None);
                };
                logged.commit();
                self.count_at(wanted.group, GroupCounter::Creates);
            }
            Ok(Some(result))
        };
        announced.end();
        done
    }
}

impl Chain<'_> {
    fn tags(&self) -> [u64; TAG_WORDS] {
        let mut tags = [0; TAG_WORDS];
        self.region.read(self.head + 1, &mut tags);
        tags
    }

    /// Whether a place seems to be free. The caller need not hold the semaphore, so the result is a
    /// guess.
    fn has_free_place(&self) -> bool {
        let chain = self.group.geometry().chain as usize;
        places_of(&self.tags(), 0).next().is_some_and(|place| place < chain)
    }

    /// The place for the node of a key that has none: its home if that is free, else the next free
    /// place. Returns None if the key has a node, no place is free, or a node read on the way is
    /// not whole. `copy` is as long as a node.
    fn place_of_new(
        &self,
        key_word: u64,
        key: &KeyRef<'_>,
        tag: u8,
        copy: &mut [u64],
    ) -> Option<usize> {
        let tags = self.tags();
        for place in places_of(&tags, tag) {
            if self.copy_if_same(place, key_word, key, copy)?.is_some() {
                return None;
            }
        }
        let (home, chain) = (self.group.home(tag), self.group.geometry().chain as usize);
        (home..chain).chain(0..home).find(|&place| tag::of(tags[place / 8], place) == 0)
    }
}
