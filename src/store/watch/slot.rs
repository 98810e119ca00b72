//! A slot of runtime.mmap as words: state, owner, the intent list of a transaction.
//!
//! Invariant: at whatever instruction the owner dies, the intent list names every semaphore that
//! may hold the owner's token. `commit/undo_log.rs` has the undo log of a slot, and the recovery by
//! log and intent list. `file/layout.rs` has the places of all words.

use frs_base::sync::{AtomicU64, Ordering, compiler_fence, fence};

use crate::file::layout::slot::{
    GENERATION, INTENT_LIST, INTENT_WORDS, INTENTS, INTENTS_MAX, OWNER, PHASE, SEQUENCE, STATE,
    WORDS,
};
use crate::file::region::{Region, put, put_release};
use crate::lock::semaphore::Token;

const USED: u64 = 1;

/// The owner of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotOwner {
    /// Process id.
    pub pid: u32,
    /// The role that it attached with.
    pub role: u32,
}

/// State of a slot: used or free, and its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotState {
    /// Whether it has an owner, alive or dead.
    pub used: bool,
    /// Grows with each attachment.
    pub epoch: u32,
}

/// An intent: a key-node that a transaction wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Intent {
    /// Id of the group.
    pub group: u64,
    /// File of the group.
    pub file: u32,
    /// Key-node of the file.
    pub key_node: u32,
}

/// A view of one slot.
#[derive(Debug, Clone, Copy)]
pub struct SlotWords<'a> {
    words: &'a [AtomicU64; WORDS],
}

impl<'a> SlotWords<'a> {
    /// The slot that starts at word `base` of a region.
    #[inline]
    pub fn at(region: &'a Region, base: usize) -> SlotWords<'a> {
        let words = region.words(base, WORDS).first_chunk();
        SlotWords { words: words.expect("so many words were asked for") }
    }

    /// A word of the slot.
    #[inline]
    pub(crate) fn word(self, at: usize) -> &'a AtomicU64 {
        &self.words[at]
    }

    /// Words of the slot from `at` on.
    #[inline]
    pub(crate) fn words(self, at: usize, count: usize) -> &'a [AtomicU64] {
        &self.words[at..at + count]
    }

    #[inline]
    fn load(self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }

    /// The list of `entries` entries that begins at this word.
    #[inline]
    pub(crate) fn list<const ENTRY: usize>(
        self,
        at: usize,
        entries: usize,
    ) -> &'a [[AtomicU64; ENTRY]] {
        self.words[at..at + entries * ENTRY].as_chunks().0
    }

    /// State and epoch. Acquire: pairs with `set_state`, so a reader of an epoch sees a complete
    /// attachment.
    pub fn state(self) -> SlotState {
        let word = self.words[STATE].load(Ordering::Acquire);
        SlotState { used: word & 0xffff_ffff == USED, epoch: (word >> 32) as u32 }
    }

    /// Writes state and epoch, after everything written before.
    pub fn set_state(self, state: SlotState) {
        let word = u64::from(state.used) | u64::from(state.epoch) << 32;
        put_release(&self.words[STATE], word);
    }

    /// The owner.
    pub fn owner(self) -> SlotOwner {
        let word = self.load(OWNER);
        SlotOwner { pid: word as u32, role: (word >> 32) as u32 }
    }

    /// Stores the owner.
    pub(crate) fn set_owner(self, owner: SlotOwner) {
        put(&self.words[OWNER], u64::from(owner.pid) | u64::from(owner.role) << 32);
    }

    /// The generation that the owner has acknowledged.
    pub fn generation(self) -> u64 {
        self.words[GENERATION].load(Ordering::Acquire)
    }

    /// Acknowledges a generation. From here on the owner uses no older one.
    pub fn set_generation(self, generation: u64) {
        put_release(&self.words[GENERATION], generation);
    }

    /// The number of groups that the owner has mapped, although its configuration no longer names
    /// them.
    #[cfg(not(loom))]
    pub fn retired(self) -> u64 {
        self.load(crate::file::layout::slot::RETIRED)
    }

    /// Stores that number.
    #[cfg(not(loom))]
    pub(crate) fn set_retired(self, groups: u64) {
        put(&self.words[crate::file::layout::slot::RETIRED], groups);
    }

    /// Announces the key-nodes of a transaction, before it takes any of their semaphores.
    #[inline]
    pub(crate) fn announce(self, count: usize, intent: impl Fn(usize) -> Intent) {
        assert!(count <= INTENTS_MAX, "a transaction over {count} key-nodes");
        // Release: a process that reads a word of this list also sees that the semaphores of the
        // previous transaction are released; pairs with the fence of `names`.
        fence(Ordering::Release);
        let list = self.list::<INTENT_WORDS>(INTENT_LIST, INTENTS_MAX);
        for (index, words) in list[..count].iter().enumerate() {
            let intent = intent(index);
            put(&words[0], intent.group);
            put(&words[1], u64::from(intent.file) << 32 | u64::from(intent.key_node));
        }
        // The sequence shows whether a holder makes progress. Its token is always the same.
        let begun = self.load(SEQUENCE);
        // Release: the list is complete before this; pairs with `sequence`.
        put_release(&self.words[SEQUENCE], begun.wrapping_add(1));
        put_release(&self.words[INTENTS], count as u64);
        compiler_fence(Ordering::SeqCst);
    }

    /// Transactions begun by the owner. Acquire: pairs with `announce`.
    pub fn sequence(self) -> u64 {
        self.words[SEQUENCE].load(Ordering::Acquire)
    }

    /// Whether the owner announces this key-node. Words that are read after this call are not older
    /// than the list.
    pub fn names(self, wanted: &Intent) -> bool {
        let is_named = self.intents().any(|intent| intent == *wanted);
        // Acquire: pairs with the fence of `announce`, in case the list is of a later transaction
        // than its length.
        fence(Ordering::Acquire);
        is_named
    }

    /// Withdraws the announcement, after all its semaphores are released.
    #[inline(always)]
    pub(crate) fn withdraw(self) {
        compiler_fence(Ordering::SeqCst);
        // Release: a recoverer that reads 0 here also sees the semaphores released.
        put_release(&self.words[INTENTS], 0);
    }

    /// Gives a free slot to its new owner. The caller holds the slot's lock. `phase` and the intent
    /// list are cleared first, so that a stray write in them is not taken for an open transaction.
    pub fn claim(self, owner: SlotOwner, epoch: u32) {
        // Other processes read the epoch in the token of a semaphore.
        debug_assert_eq!(Token::new(0, epoch).epoch(), epoch, "an epoch that a token holds");
        debug_assert!(epoch != 0, "0 is the epoch of a slot that nobody had");
        put(&self.words[PHASE], 0);
        put(&self.words[INTENTS], 0);
        self.set_owner(owner);
        self.set_generation(0);
        self.set_state(SlotState { used: true, epoch });
    }

    /// Whether the owner announces nothing.
    pub fn is_idle(self) -> bool {
        self.intents_told() == 0
    }

    /// The stored number of entries in the intent list. More than [`INTENTS_MAX`] is damage.
    pub(crate) fn intents_told(self) -> u64 {
        self.words[INTENTS].load(Ordering::Acquire)
    }

    /// The key-nodes that the owner announces.
    pub(crate) fn intents(self) -> impl Iterator<Item = Intent> + 'a {
        let count = self.intents_told();
        let list = self.list::<INTENT_WORDS>(INTENT_LIST, INTENTS_MAX);
        list[..(count as usize).min(INTENTS_MAX)].iter().map(|words| {
            let [group, place] = words.each_ref().map(|word| word.load(Ordering::Relaxed));
            Intent { group, file: (place >> 32) as u32, key_node: place as u32 }
        })
    }
}
