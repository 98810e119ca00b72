//! The commit protocol: announced, held, logged, committed.
//!
//! Invariant: each step is a type that only the step before it makes, so no step is left out or comes
//! early; whichever of them is dropped, by an error or a panic, the key-nodes are as some whole
//! transaction left them, their semaphores are released, and the announcement is withdrawn. The short
//! path, whole transactions, the model checker and the simulation all run this code.

use super::region::copy_in;
use super::semaphore::Semaphore;
use super::slot::{Intent, LogFull, SlotWords, UndoLog};
use crate::sync::{AtomicU64, Ordering, compiler_fence};

/// The key-nodes of a transaction, in the global order, each once.
pub trait KeyNodes {
    /// How many there are.
    fn len(&self) -> usize;
    /// What a recoverer reads of one of them.
    fn intent(&self, index: usize) -> Intent;
    /// Its semaphore.
    fn semaphore(&self, index: usize) -> Semaphore<'_>;
}

/// Who runs a transaction.
pub trait Owner {
    /// Its slot.
    fn slot(&self) -> SlotWords<'_>;
    /// Takes a semaphore, and waits for it as long as this owner may; whether it was taken.
    fn take(&self, semaphore: Semaphore<'_>) -> bool;
    /// Writes back what the slot's undo log tells.
    fn roll_back(&self);
}

/// A run of words that a transaction changes.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The key-node that the words belong to.
    pub intent: Intent,
    /// The first word's place in the file.
    pub at: usize,
    /// The words as they are stored.
    pub stored: &'a [AtomicU64],
    /// The words as they are to be.
    pub new: &'a [u64],
    /// The place is free: nobody reads the words before the tag is set, so the undo log leaves them
    /// out.
    pub is_free: bool,
}

/// All that a transaction changes: nodes first, tags last. What is written has been logged, but for
/// nodes in free places, and such a node is only written together with its tag.
pub trait Changes {
    /// Logs old values.
    fn log(&self, log: &mut UndoLog<'_>) -> Result<(), LogFull>;
    /// Writes new values.
    fn write(&self);
}

// One run of words may be all there is: its length stays known to the compiler.
impl Changes for Change<'_> {
    #[inline(always)]
    fn log(&self, log: &mut UndoLog<'_>) -> Result<(), LogFull> {
        if self.is_free {
            return Ok(());
        }
        log.changes(&self.intent, self.stored, self.new, self.at)
    }

    #[inline(always)]
    fn write(&self) {
        copy_in(self.stored, self.new);
        // A tag is never written before its node.
        compiler_fence(Ordering::SeqCst);
    }
}

/// The key-nodes of one transaction: taken so far, and to be given back.
#[derive(Debug)]
struct Open<O: Owner, K: KeyNodes> {
    owner: O,
    key_nodes: K,
    taken: usize,
    /// Words are being written: between the two stores of `phase`.
    writes: bool,
}

impl<O: Owner, K: KeyNodes> Drop for Open<O, K> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.writes {
            roll_back(&self.owner);
        }
        self.release();
    }
}

impl<O: Owner, K: KeyNodes> Open<O, K> {
    #[inline(always)]
    fn release(&self) {
        for index in (0..self.taken).rev() {
            self.key_nodes.semaphore(index).release();
        }
        self.owner.slot().withdraw();
    }
}

/// A panic ended the writing.
#[cold]
#[inline(never)]
fn roll_back(owner: &impl Owner) {
    owner.roll_back();
}

/// The key-nodes stand in the slot's intent list; no semaphore is taken.
#[derive(Debug)]
#[must_use]
pub struct Announced<O: Owner, K: KeyNodes>(Open<O, K>);

impl<O: Owner, K: KeyNodes> Announced<O, K> {
    /// Announces the key-nodes, so that a recoverer finds each semaphore that may be taken.
    #[inline(always)]
    pub fn new(owner: O, key_nodes: K) -> Self {
        owner.slot().announce(key_nodes.len(), |index| key_nodes.intent(index));
        Announced(Open { owner, key_nodes, taken: 0, writes: false })
    }

    /// Takes all semaphores in order. None: one of them was not free in time; those taken are
    /// released.
    #[inline(always)]
    pub fn take_all(mut self) -> Option<Held<O, K>> {
        let open = &mut self.0;
        while open.taken < open.key_nodes.len() {
            if !open.owner.take(open.key_nodes.semaphore(open.taken)) {
                return None;
            }
            open.taken += 1;
        }
        Some(Held(self.0))
    }
}

/// All semaphores are taken: the key-nodes belong to this transaction until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Held<O: Owner, K: KeyNodes>(Open<O, K>);

impl<O: Owner, K: KeyNodes> Held<O, K> {
    /// Who runs it.
    #[inline(always)]
    pub fn owner(&self) -> &O {
        &self.0.owner
    }

    /// Logs the old value of every word that is about to change.
    ///
    /// # Errors
    /// If there are more words than the log holds.
    #[inline(always)]
    pub fn log<C: Changes>(&mut self, changes: C) -> Result<Logged<'_, O, K, C>, LogFull> {
        let mut log = UndoLog::of(self.0.owner.slot());
        changes.log(&mut log)?;
        let entries = log.len();
        Ok(Logged { open: &mut self.0, changes, entries })
    }
}

impl<O: Owner + Copy, K: KeyNodes + Copy> Held<O, K> {
    /// What dropping it does, in line: nothing is being written here, and what is `Copy` has nothing
    /// else to give back.
    #[inline(always)]
    pub fn release(self) {
        debug_assert!(!self.0.writes);
        self.0.release();
        std::mem::forget(self);
    }
}

/// The undo log is written; `phase` does not count it yet.
#[derive(Debug)]
#[must_use]
pub struct Logged<'h, O: Owner, K: KeyNodes, C> {
    open: &'h mut Open<O, K>,
    changes: C,
    entries: usize,
}

impl<O: Owner, K: KeyNodes, C: Changes> Logged<'_, O, K, C> {
    /// Writes the words in the order of the changes. The last store of `phase` is the commit point.
    /// Where no word differs there is nothing to write: did any.
    #[inline(always)]
    pub fn commit(self) -> bool {
        let Logged { open, changes, entries } = self;
        if entries > 0 {
            open.writes = true;
            open.owner.slot().begin(entries);
            changes.write();
            open.owner.slot().commit();
            open.writes = false;
        }
        entries > 0
    }
}
