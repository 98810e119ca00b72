//! The commit protocol: announced, held, logged, committed.
//!
//! Invariant: each step is a type that only the previous step can make, so no step is left out or
//! comes early. When an error or a panic drops any of them, the key-nodes are as a whole
//! transaction left them, their semaphores are released, and the announcement is withdrawn. The
//! fast path, whole transactions, the model checker and the simulation all run this code.

use frs_base::sync::{AtomicU64, Ordering, compiler_fence};

use super::undo_log::{LogFull, UndoLog};
use crate::checkpoint::dirty::DirtyPages;
use crate::file::region::copy_changed;
use crate::lock::semaphore::Semaphore;
use crate::watch::slot::{Intent, SlotWords};

/// The key-nodes of a transaction, in the global order, each once.
pub trait KeyNodes {
    /// The number of key-nodes.
    fn len(&self) -> usize;
    /// The intent of a key-node, for recoverers.
    fn intent(&self, index: usize) -> Intent;
    /// The semaphore of a key-node.
    fn semaphore(&self, index: usize) -> Semaphore<'_>;
}

/// The owner of a transaction.
pub trait Owner: Copy {
    /// Its slot.
    fn slot(&self) -> SlotWords<'_>;
    /// Takes a semaphore, and waits for it up to this owner's limit. Returns true if it was taken.
    fn take(&self, semaphore: Semaphore<'_>) -> bool;
    /// Writes back the old values of the slot's undo log.
    fn roll_back(&self);
}

/// A run of words that a transaction changes.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The key-node that the words belong to.
    pub intent: Intent,
    /// The first word's place in the file.
    pub at: usize,
    /// The words now in the file.
    pub stored: &'a [AtomicU64],
    /// The words to write.
    pub new: &'a [u64],
    /// The marks of the file's changed pages, where there are checkpoints.
    pub dirty: Option<&'a DirtyPages>,
}

/// All that a transaction changes: nodes first, tags last. All of it is logged before it is
/// written, except nodes in free places. Such a node is only written together with its tag.
pub trait Changes {
    /// Logs old values.
    fn log(&self, log: &mut UndoLog<'_>) -> Result<(), LogFull>;
    /// Writes new values.
    fn write(&self);
    /// Marks the pages that were written, for the next checkpoint.
    fn mark(&self);
}

// For a transaction that changes a single run of words. The compiler knows the length of the run
// here.
impl Changes for Change<'_> {
    #[inline(always)]
    fn log(&self, log: &mut UndoLog<'_>) -> Result<(), LogFull> {
        log.changes(&self.intent, self.stored, self.new, self.at)
    }

    #[inline(always)]
    fn write(&self) {
        copy_changed(self.stored, self.new);
        // A tag is never written before its node.
        compiler_fence(Ordering::SeqCst);
    }

    #[inline(always)]
    fn mark(&self) {
        if let Some(dirty) = self.dirty {
            dirty.mark(self.at, self.stored.len());
        }
    }
}

/// The slot's intent list names the key-nodes. Dropping this releases the taken semaphores and
/// withdraws the list.
#[derive(Debug)]
#[must_use]
pub struct Announced<O: Owner, K: KeyNodes> {
    owner: O,
    key_nodes: K,
    taken: usize,
    /// Whether words are being written: between the two stores of `phase`.
    writes: bool,
}

impl<O: Owner, K: KeyNodes> Drop for Announced<O, K> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.writes {
            roll_back(self.owner);
        }
        self.give_back();
    }
}

/// Undoes the words written before a panic.
#[cold]
#[inline(never)]
fn roll_back(owner: impl Owner) {
    owner.roll_back();
}

impl<O: Owner, K: KeyNodes> Announced<O, K> {
    /// Announces the key-nodes, so that a recoverer finds each semaphore that may be taken.
    #[inline(always)]
    pub fn new(owner: O, key_nodes: K) -> Self {
        // `damage` of a recoverer checks this.
        debug_assert!(
            (1..key_nodes.len()).all(|at| key_nodes.intent(at - 1) < key_nodes.intent(at)),
            "key-nodes are announced in their order, each once"
        );
        owner.slot().announce(key_nodes.len(), |index| key_nodes.intent(index));
        Announced { owner, key_nodes, taken: 0, writes: false }
    }

    /// Takes, in order, all semaphores that are not taken yet. Returns None if one of them was not
    /// free in time.
    #[inline(always)]
    pub fn take_all(&mut self) -> Option<Held<'_, O, K>> {
        while self.taken < self.key_nodes.len() {
            if !self.owner.take(self.key_nodes.semaphore(self.taken)) {
                return None;
            }
            self.taken += 1;
        }
        Some(Held(self))
    }

    /// The owner of the transaction.
    #[inline(always)]
    pub fn owner(&self) -> O {
        self.owner
    }

    /// All its key-nodes.
    #[inline(always)]
    pub fn key_nodes(&self) -> &K {
        &self.key_nodes
    }

    #[inline(always)]
    fn give_back(&self) {
        for index in (0..self.key_nodes.len()).rev() {
            if index < self.taken {
                self.key_nodes.semaphore(index).release();
            }
        }
        self.owner.slot().withdraw();
    }
}

impl<O: Owner, K: KeyNodes + Copy> Announced<O, K> {
    /// Does the same as a drop, but inlined. No words are being written at this point, and `Copy`
    /// key-nodes have nothing else to release.
    #[inline(always)]
    pub fn end(self) {
        debug_assert!(!self.writes);
        self.give_back();
        std::mem::forget(self);
    }
}

/// All semaphores are taken: the key-nodes belong to this transaction.
#[derive(Debug)]
#[must_use]
pub struct Held<'a, O: Owner, K: KeyNodes>(&'a mut Announced<O, K>);

impl<'a, O: Owner, K: KeyNodes> Held<'a, O, K> {
    /// Logs the old value of every word that is about to change.
    ///
    /// # Errors
    /// If there are more words than the log has room for.
    #[inline(always)]
    pub fn log<C: Changes>(self, changes: C) -> Result<Logged<'a, O, K, C>, LogFull> {
        debug_assert_eq!(self.0.taken, self.0.key_nodes.len(), "all semaphores are held");
        let mut log = UndoLog::of(self.0.owner.slot());
        changes.log(&mut log)?;
        let entries = log.len();
        Ok(Logged { announced: self.0, changes, entries })
    }
}

/// The undo log is written; `phase` does not count it yet.
#[derive(Debug)]
#[must_use]
pub struct Logged<'a, O: Owner, K: KeyNodes, C> {
    announced: &'a mut Announced<O, K>,
    changes: C,
    entries: usize,
}

impl<O: Owner, K: KeyNodes, C: Changes> Logged<'_, O, K, C> {
    /// Writes the words in the order of the changes. The last store of `phase` is the commit point.
    /// Returns true if there were words to write.
    #[inline(always)]
    pub fn commit(self) -> bool {
        let Logged { announced, changes, entries } = self;
        if entries > 0 {
            let slot = announced.owner.slot();
            announced.writes = true;
            slot.begin(entries);
            changes.write();
            // Before the commit point, so that every committed change is marked even if this
            // process dies.
            changes.mark();
            slot.commit();
            announced.writes = false;
        }
        entries > 0
    }
}
