//! The most common transaction: one key-node, and one node that is there and whole. It does what
//! [`crate::Transaction`] does, on the stack.
//!
//! Invariant: the steps are those of [`super::protocol`]. Anything unusual is left to the general
//! transaction; the fast path has changed nothing by then.

use frs_conf::key::KeyRef;

use super::protocol::{Announced, Change, KeyNodes, Owner as _};
use super::transaction::{Refused, Wanted, holds};
use crate::chain::tags::{has_tag, places_of};
use crate::file::group::{Group, is_whole, seal};
use crate::file::layout::{HEAD_WORDS, TAG_WORDS, node};
use crate::file::region::{Region, copy_out, put};
use crate::handle::{Attached, Handle};
use crate::lock::semaphore::Semaphore;
use crate::watch::slot::Intent;

/// Words of a node of one cache line, and of more lines. Most nodes have one of these lengths, and
/// a constant length needs no loops. The bench `store` shows the gain of the first length (`update
/// hit, 1 M keys`) and of the second (`update hit, two lines`). The bench of shared limits shows
/// that of the others: nodes with one and with two of them. The test
/// `nodes_of_every_length_are_worked_on_alike` compares them with the general path.
const ONE_LINE: usize = 8;
const TWO_LINES: usize = 16;
const THREE_LINES: usize = 24;
const FOUR_LINES: usize = 32;
/// Words of the largest node that is copied to the stack.
pub(crate) const MANY_WORDS: usize = 64;

/// The action on the node after the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Leave it unchanged.
    Nothing,
    /// Change its last use only.
    Stamp,
    /// Write it.
    Node,
}

/// The outcome of the work on a node.
#[derive(Debug, Clone, Copy)]
pub struct Worked<T> {
    /// The result.
    pub result: T,
    /// The action on the node.
    pub keep: Keep,
}

/// Where to look for a node.
#[derive(Debug, Clone, Copy)]
pub struct Lead<'w> {
    /// The key-node.
    pub wanted: &'w Wanted,
    /// The place of the chain where a prefetch expected the node.
    pub guess: Option<usize>,
}

/// The owner of a node: a business and a key.
#[derive(Debug, Clone, Copy)]
pub struct NodeOwner<'k> {
    /// Id of the business.
    pub biz_id: u32,
    /// The key.
    pub key: &'k KeyRef<'k>,
}

/// The configuration and the time that a transaction uses.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The generation.
    pub generation: u64,
    /// Milliseconds since the epoch.
    pub now_ms: u64,
}

/// The one key-node of a short transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneKeyNode<'a> {
    pub intent: Intent,
    pub semaphore: Semaphore<'a>,
}

impl KeyNodes for OneKeyNode<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        1
    }

    #[inline(always)]
    fn intent(&self, _: usize) -> Intent {
        self.intent
    }

    #[inline(always)]
    fn semaphore(&self, _: usize) -> Semaphore<'_> {
        self.semaphore
    }
}

impl Handle {
    /// Calls `work` with a copy of the node of a key, and writes as much of the copy as `work` asks
    /// for. Returns None, and has changed nothing, if there is no such node, or if anything else
    /// needs a whole [`crate::Transaction`].
    #[inline]
    pub fn with_found<T>(
        &self,
        lead: Lead<'_>,
        owner: NodeOwner<'_>,
        moment: Moment,
        work: impl FnOnce(&mut [u64]) -> Worked<T>,
    ) -> Result<Option<T>, Refused> {
        match self.groups[lead.wanted.group].node_words() {
            ONE_LINE => self.with_copy(lead, owner, moment, &mut [0; ONE_LINE], work),
            TWO_LINES => self.with_copy(lead, owner, moment, &mut [0; TWO_LINES], work),
            THREE_LINES => self.with_copy(lead, owner, moment, &mut [0; THREE_LINES], work),
            FOUR_LINES => self.with_copy(lead, owner, moment, &mut [0; FOUR_LINES], work),
            words if words <= MANY_WORDS => {
                self.with_copy(lead, owner, moment, &mut [0; MANY_WORDS][..words], work)
            }
            _ => Ok(None),
        }
    }

    /// Like [`Handle::with_found`], with a `copy` as long as the group's nodes.
    #[inline(always)]
    fn with_copy<T>(
        &self,
        Lead { wanted, guess }: Lead<'_>,
        NodeOwner { biz_id, key }: NodeOwner<'_>,
        Moment { generation, now_ms: now }: Moment,
        copy: &mut [u64],
        work: impl FnOnce(&mut [u64]) -> Worked<T>,
    ) -> Result<Option<T>, Refused> {
        let (chain, one) = self.one_key_node(wanted)?;
        let (intent, file) = (one.intent, wanted.at.file);
        let attached = Attached::of(self);
        let mut announced = Announced::new(attached, one);
        // One exit for all cases, so that the code that releases exists once.
        let done = 'announced: {
            let Some(held) = announced.take_all() else {
                break 'announced Err(Refused::Busy);
            };
            if let Some(refused) = self.outdated(chain.group, generation) {
                break 'announced Err(refused);
            }
            let key_word = node::key_word(biz_id, key.form() as u8, key.bytes());
            let Some(at) = chain.find(wanted.at.tag, guess, key_word, key, copy) else {
                break 'announced Ok(None);
            };
            // The compiler knows this length, so it needs no loops for these words.
            let stored = chain.region.words(at, copy.len());
            let Worked { result, keep } = work(copy);
            match keep {
                Keep::Nothing => {}
                // The last use never decreases, even if the clock steps back: the states are no
                // older than before.
                Keep::Stamp => {
                    put(&stored[node::LAST_USE], now.max(copy[node::LAST_USE]));
                    if let Some(dirty) = chain.group.dirty(file) {
                        dirty.mark(at + node::LAST_USE, 1);
                    }
                }
                Keep::Node => {
                    copy[node::LAST_USE] = now;
                    if chain.group.is_mirrored() {
                        let place = (at - chain.head - HEAD_WORDS) / copy.len();
                        self.note_change(attached.slot(), chain.group, &intent, place, copy);
                    }
                    seal(copy);
                    debug_assert!(is_whole(copy), "what is written is believed when it is read");
                    let change =
                        Change { intent, at, stored, new: copy, dirty: chain.group.dirty(file) };
                    // The words of one node always fit into the log.
                    let Ok(logged) = held.log(change) else { break 'announced Ok(None) };
                    logged.commit();
                }
            }
            Ok(Some(result))
        };
        announced.end();
        done
    }

    /// The key-node of a short transaction that has not begun yet.
    #[inline(always)]
    pub(crate) fn one_key_node(
        &self,
        wanted: &Wanted,
    ) -> Result<(Chain<'_>, OneKeyNode<'_>), Refused> {
        let group = &self.groups[wanted.group];
        if self.is_forked() || self.runtime.is_quarantined(group.mark()) {
            return Err(Refused::Unavailable);
        }
        let (file, key_node) = (wanted.at.file, wanted.at.key_node);
        let (region, head) = (group.file(file), group.head(key_node));
        let intent = Intent { group: group.header().id, file, key_node };
        let semaphore = Semaphore::of_head(region, head);
        Ok((Chain { group, region, head }, OneKeyNode { intent, semaphore }))
    }

    /// The reason why a short transaction that holds its key-node must end. None if there is none.
    #[inline(always)]
    pub(crate) fn outdated(&self, group: &Group, generation: u64) -> Option<Refused> {
        if self.runtime.generation() != generation {
            Some(Refused::Newer)
        } else if self.runtime.is_quarantined(group.mark()) {
            Some(Refused::Unavailable)
        } else {
            None
        }
    }
}

/// The chain of a key-node.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'a> {
    pub group: &'a Group,
    pub region: &'a Region,
    pub head: usize,
}

impl Chain<'_> {
    /// Copies the node of a key and returns its first word in the file. Returns None if there is no
    /// such node, or if a node read before it is not whole.
    #[inline(always)]
    fn find(
        &self,
        tag: u8,
        guess: Option<usize>,
        key_word: u64,
        key: &KeyRef<'_>,
        copy: &mut [u64],
    ) -> Option<usize> {
        if let Some(place) = guess
            && has_tag(self.region, self.head, place, tag)
            && let Some(found) = self.copy_if_same(place, key_word, key, copy)?
        {
            return Some(found);
        }
        self.search(tag, key_word, key, copy)
    }

    /// Like [`Chain::find`], without a guess.
    #[inline(never)]
    fn search(&self, tag: u8, key_word: u64, key: &KeyRef<'_>, copy: &mut [u64]) -> Option<usize> {
        let mut tags = [0; TAG_WORDS];
        self.region.read(self.head + 1, &mut tags);
        for place in places_of(&tags, tag) {
            if let Some(found) = self.copy_if_same(place, key_word, key, copy)? {
                return Some(found);
            }
        }
        None
    }

    /// Copies the node of a place. Returns `Some(None)` if it is the node of another key, `None` if
    /// it is not whole.
    #[inline(always)]
    pub(crate) fn copy_if_same(
        &self,
        place: usize,
        key_word: u64,
        key: &KeyRef<'_>,
        copy: &mut [u64],
    ) -> Option<Option<usize>> {
        if place >= self.group.geometry().chain as usize {
            return None;
        }
        let at = self.head + HEAD_WORDS + place * copy.len();
        copy_out(self.region.words(at, copy.len()), copy);
        is_whole(copy).then(|| holds(copy, key_word, key).then_some(at))
    }
}
