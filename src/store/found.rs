//! The transaction that most are: one key-node, one node that is there and whole. It does what
//! [`super::Transaction`] does, on the stack.
//!
//! Invariant: the same steps in the same order as the general one; whatever is out of the ordinary
//! is left to it, with nothing done.

use super::group::{Group, is_whole, seal};
use super::handle::Handle;
use super::layout::{HEAD_WORDS, TAG_WORDS, node};
use super::region::Region;
use super::semaphore::Semaphore;
use super::slot::{Intent, SlotWords, UndoLog};
use super::transaction::{Refused, Wanted, has_tag, holds, places_of};
use crate::key::KeyRef;

/// Words of most nodes, and of the largest one that is copied to the stack.
const FEW_WORDS: usize = 16;
const MANY_WORDS: usize = 64;

/// What is to become of the node that was worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It stays as it is.
    Nothing,
    /// It stays as it is, but for its last use.
    Stamp,
    /// It is written.
    Node,
}

/// Holds a semaphore announced by the slot; dropping it undoes what is open and releases.
struct Held<'a> {
    handle: &'a Handle,
    slot: SlotWords<'a>,
    semaphore: Semaphore<'a>,
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.slot.phase() != 0 {
            // Unwinding from between `begin` and `commit`.
            self.handle.roll_back();
        }
        self.semaphore.release();
        self.slot.withdraw();
    }
}

impl Handle {
    /// Calls `work` with a copy of the node of a key, and keeps of it what `work` says. None if there
    /// is no such node, or anything else that asks for a whole [`super::Transaction`]: then nothing
    /// has happened. `guess` is where a prefetch took the node to be.
    #[inline]
    pub fn with_found<T>(
        &self,
        wanted: (&Wanted, Option<usize>),
        key: (u32, &KeyRef<'_>),
        time: (u64, u64),
        work: impl FnOnce(&mut [u64]) -> (T, Keep),
    ) -> Result<Option<T>, Refused> {
        match self.groups[wanted.0.group].node_words() {
            words if words <= FEW_WORDS => self.with_copy::<T, FEW_WORDS>(wanted, key, time, work),
            words if words <= MANY_WORDS => {
                self.with_copy::<T, MANY_WORDS>(wanted, key, time, work)
            }
            _ => Ok(None),
        }
    }

    #[inline]
    fn with_copy<T, const ROOM: usize>(
        &self,
        (wanted, guess): (&Wanted, Option<usize>),
        (biz_id, key): (u32, &KeyRef<'_>),
        (generation, now): (u64, u64),
        work: impl FnOnce(&mut [u64]) -> (T, Keep),
    ) -> Result<Option<T>, Refused> {
        let group = &self.groups[wanted.group];
        let (words, mark) = (group.node_words(), group.mark());
        if self.is_forked() || self.runtime.is_quarantined(mark) {
            return Err(Refused::Unavailable);
        }
        let (file, key_node) = (wanted.at.file, wanted.at.key_node);
        let (region, head) = (group.file(file), group.head(key_node));
        let (slot, semaphore) = (self.slot().words(), Semaphore::of_head(region, head));
        let intent = Intent { group: group.header().id, file, key_node };
        slot.announce(std::iter::once(intent));
        if !self.take(semaphore) {
            slot.withdraw();
            return Err(Refused::Busy);
        }
        let _held = Held { handle: self, slot, semaphore };
        if self.runtime.generation() != generation {
            return Err(Refused::Newer);
        }
        if self.runtime.is_quarantined(mark) {
            return Err(Refused::Unavailable);
        }
        let mut copy = [0; ROOM];
        let copy = &mut copy[..words];
        let key_word = node::key_word(biz_id, key.form() as u8, key.bytes());
        let chain = Chain { group, region, head };
        let Some(at) = chain.find((wanted.at.tag, guess), (key_word, key), copy) else {
            return Ok(None);
        };
        let (result, keep) = work(copy);
        match keep {
            Keep::Nothing => {}
            // Never back: the states are as old as they were, whatever the clock says now.
            Keep::Stamp => region.store(at + node::LAST_USE, now.max(copy[node::LAST_USE])),
            Keep::Node => {
                copy[node::LAST_USE] = now;
                seal(copy);
                let mut log = UndoLog::of(slot);
                let stored = region.words(at, words);
                if log.changes(&intent, stored, copy, at).is_err() {
                    // So few words always fit.
                    return Ok(None);
                }
                if !log.is_empty() {
                    slot.begin(log.len());
                    region.write(at, copy);
                    slot.commit();
                }
            }
        }
        Ok(Some(result))
    }
}

/// The chain of a key-node whose semaphore is held.
struct Chain<'a> {
    group: &'a Group,
    region: &'a Region,
    head: usize,
}

impl Chain<'_> {
    /// Copies the node of a key; its first word in the file. None if it is not there, or a node
    /// on the way to it is not whole.
    #[inline(always)]
    fn find(
        &self,
        (tag, guess): (u8, Option<usize>),
        wanted: (u64, &KeyRef<'_>),
        copy: &mut [u64],
    ) -> Option<usize> {
        if let Some(place) = guess.filter(|&place| has_tag(self.region, self.head, place, tag))
            && let Some(at) = self.copy_if_same(place, wanted, copy)?
        {
            return Some(at);
        }
        self.search(tag, wanted, copy)
    }

    /// As [`Chain::find`], without a guess.
    #[inline(never)]
    fn search(&self, tag: u8, wanted: (u64, &KeyRef<'_>), copy: &mut [u64]) -> Option<usize> {
        let mut tags = [0; TAG_WORDS];
        self.region.read(self.head + 1, &mut tags);
        for place in places_of(&tags, tag) {
            if let Some(at) = self.copy_if_same(place, wanted, copy)? {
                return Some(at);
            }
        }
        None
    }

    /// Copies the node of a place, which is another key's if that answers none; none at all if it
    /// is not whole.
    #[inline(always)]
    fn copy_if_same(
        &self,
        place: usize,
        (key_word, key): (u64, &KeyRef<'_>),
        copy: &mut [u64],
    ) -> Option<Option<usize>> {
        if place >= self.group.geometry().chain as usize {
            return None;
        }
        let at = self.head + HEAD_WORDS + place * copy.len();
        self.region.read(at, copy);
        is_whole(copy).then(|| holds(copy, key_word, key).then_some(at))
    }
}
