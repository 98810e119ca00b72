//! The undo log of a slot: logs old values, marks the commit point, and undoes a dead owner's work.
//!
//! Invariant: at whatever instruction the owner dies, either `phase` is 0 and every node is as a
//! whole transaction left it, or the first `phase` entries of the log restore that state. A
//! recoverer checks the log against the intent list, and replays nothing that does not fit.

use frs_base::sync::{AtomicU64, Ordering, compiler_fence, fence};

use crate::file::layout::slot::{INTENTS_MAX, PHASE, UNDO_ENTRY_WORDS, UNDO_LOG, UNDO_MAX};
use crate::file::region::{put, put_release};
use crate::lock::semaphore::Token;
use crate::watch::slot::{Intent, SlotState, SlotWords};

/// One entry of the undo log: a word about to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undo {
    /// Id of the group.
    pub group: u64,
    /// File of the group.
    pub file: u32,
    /// Word of the file.
    pub at: u64,
    /// Its old value.
    pub old: u64,
}

/// The undo log of a slot while its owner fills it.
#[derive(Debug)]
pub struct UndoLog<'a> {
    entries: &'a [[AtomicU64; UNDO_ENTRY_WORDS]],
    len: usize,
}

/// The undo log has no room for another entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFull;

impl<'a> UndoLog<'a> {
    /// The empty log of a slot. Its entries count only once `phase` says so.
    #[inline]
    pub fn of(slot: SlotWords<'a>) -> UndoLog<'a> {
        UndoLog { entries: slot.list(UNDO_LOG, UNDO_MAX), len: 0 }
    }

    /// Entries so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Logs the old values of those words of `stored` that differ from `new`. `at` is the position
    /// of the first word in the file of `intent`.
    ///
    /// # Errors
    /// If the log has no room for them.
    #[inline(always)]
    pub fn changes(
        &mut self,
        intent: &Intent,
        stored: &[AtomicU64],
        new: &[u64],
        at: usize,
    ) -> Result<(), LogFull> {
        debug_assert_eq!(stored.len(), new.len());
        // `undo` reads both from one word: they must not overlap.
        debug_assert!(intent.file < 1 << 16 && at + stored.len() <= 1 << 48);
        let place = u64::from(intent.file) << 48 | at as u64;
        for (index, (word, &new)) in stored.iter().zip(new).enumerate() {
            let old = word.load(Ordering::Relaxed);
            if old != new {
                let [group, at, value] = self.entries.get(self.len).ok_or(LogFull)?;
                put(group, intent.group);
                put(at, place + index as u64);
                put(value, old);
                self.len += 1;
            }
        }
        Ok(())
    }
}

impl SlotWords<'_> {
    /// From here to [`SlotWords::commit`], recovery after a death undoes the first `entries` logged
    /// words.
    #[inline(always)]
    pub(crate) fn begin(self, entries: usize) {
        // `damage` of a recoverer checks this.
        debug_assert!((1..=UNDO_MAX).contains(&entries), "{entries} entries");
        compiler_fence(Ordering::SeqCst);
        // Release: the log is complete before `phase` counts it; pairs with `phase` of a recoverer.
        fence(Ordering::Release);
        put(self.word(PHASE), entries as u64);
        // Release: no word of a node changes before `phase` has.
        fence(Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    /// The commit point: one store.
    #[inline(always)]
    pub(crate) fn commit(self) {
        compiler_fence(Ordering::SeqCst);
        // Release: every word of the nodes is written before this; pairs with `phase` of a
        // recoverer.
        put_release(self.word(PHASE), 0);
        compiler_fence(Ordering::SeqCst);
    }

    /// Entries of the undo log that count. More than [`UNDO_MAX`] is damage.
    #[inline]
    pub fn phase(self) -> usize {
        self.word(PHASE).load(Ordering::Acquire) as usize
    }

    fn undo(self, index: usize) -> Undo {
        let words = &self.list::<UNDO_ENTRY_WORDS>(UNDO_LOG, UNDO_MAX)[index];
        let [group, place, old] = words.each_ref().map(|word| word.load(Ordering::Relaxed));
        Undo { group, file: (place >> 48) as u32, at: place & 0xffff_ffff_ffff, old }
    }

    /// Undoes the open transaction, if there is one. The owner calls it when it gives up, a
    /// recoverer when the owner is dead. The call can be repeated after an interruption at any
    /// point.
    pub(crate) fn roll_back(self, files: &dyn Files) {
        // Newest entry first: if a word occurs twice, its oldest value is written last.
        for index in (0..self.phase().min(UNDO_MAX)).rev() {
            let undo = self.undo(index);
            files.restore(&undo);
        }
        fence(Ordering::Release);
        self.commit();
    }

    /// Recovers the slot of a dead owner. The caller holds the slot's lock and has read its state
    /// under the lock. The call can be repeated after an interruption at any point. A log that does
    /// not fit the intent list is not replayed. Instead the groups in which the dead owner still
    /// holds key-nodes are quarantined first.
    pub fn recover(self, slot: u32, files: &dyn Files) -> Recovered {
        let state = self.state();
        if !state.used {
            return Recovered::default();
        }
        let dead = Token::new(slot, state.epoch);
        let damage = self.damage(files);
        let undone = if damage.is_none() { self.phase() } else { 0 };
        if damage.is_none() {
            self.roll_back(files);
        } else if self.phase() != 0 {
            // If this recoverer dies from here on, the next one no longer reaches the groups
            // quarantined here, so it may find that the log fits. This number marks the log as
            // damaged.
            put_release(self.word(PHASE), UNDO_MAX as u64 + 1);
            files.quarantine(&self.groups_at_work(files, dead));
            self.commit();
        }
        let freed = self.intents().filter(|intent| files.release_for(intent, dead)).count();
        self.withdraw();
        self.set_state(SlotState { used: false, epoch: state.epoch });
        Recovered { undone, freed, damage }
    }

    /// The groups in which a dead owner still holds a key-node that its logs name. In a damaged log
    /// any entry may be a correct one: the held semaphores show where the owner was at work.
    fn groups_at_work(self, files: &dyn Files, dead: Token) -> Vec<u64> {
        let of_entries = (0..UNDO_MAX).filter_map(|index| {
            let undo = self.undo(index);
            let Undo { group, file, .. } = undo;
            match files.place_of(&undo) {
                PlaceOf::KeyNode(key_node) => Some(Intent { group, file, key_node }),
                PlaceOf::OutOfReach | PlaceOf::Nothing => None,
            }
        });
        let held = self.intents().chain(of_entries).filter(|intent| files.is_held(intent, dead));
        let mut groups: Vec<u64> = held.map(|intent| intent.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Finds an entry or a number in the logs that their owner cannot have written.
    fn damage(self, files: &dyn Files) -> Option<LogDamage> {
        let (phase, intents) = (self.phase(), self.intents_told());
        if phase > UNDO_MAX {
            return Some(LogDamage::Phase { found: phase as u64 });
        }
        if intents > INTENTS_MAX as u64 {
            return Some(LogDamage::Intents { found: intents });
        }
        if phase == 0 {
            return None;
        }
        let announced: Vec<Intent> = self.intents().collect();
        if let Some(at) = announced.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Some(LogDamage::Order { index: at + 1 });
        }
        let fits = |undo: &Undo| match files.place_of(undo) {
            PlaceOf::KeyNode(key_node) => {
                let intent = Intent { group: undo.group, file: undo.file, key_node };
                announced.binary_search(&intent).is_ok()
            }
            // Nothing is written back there, so it is enough that the intent list names that file.
            PlaceOf::OutOfReach => announced
                .iter()
                .any(|intent| (intent.group, intent.file) == (undo.group, undo.file)),
            PlaceOf::Nothing => false,
        };
        let strange = (0..phase).find(|&index| !fits(&self.undo(index)))?;
        Some(LogDamage::Entry { index: strange, entry: self.undo(strange) })
    }

    /// Calls `look` with the id of each group that the undo log or the intent list names.
    pub(crate) fn for_each_group(self, mut look: impl FnMut(u64)) {
        (0..self.phase().min(UNDO_MAX)).for_each(|index| look(self.undo(index).group));
        self.intents().for_each(|intent| look(intent.group));
    }
}

/// The result of recovering a dead owner's slot.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Words written back.
    pub undone: usize,
    /// Semaphores freed.
    pub freed: usize,
    /// Damage in the logs. If there is any, nothing was written back.
    pub damage: Option<LogDamage>,
}

/// A part of a slot's logs that its owner cannot have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogDamage {
    /// More entries than the undo log holds.
    #[error("phase: found {found}, expected at most {UNDO_MAX}")]
    Phase {
        /// The number.
        found: u64,
    },
    /// More key-nodes than the intent list holds.
    #[error("number of intents: found {found}, expected at most {INTENTS_MAX}")]
    Intents {
        /// The number.
        found: u64,
    },
    /// The key-nodes are not in the global order, or one occurs twice.
    #[error("intent {index}: found a key-node that is not behind the one before it")]
    Order {
        /// Its index.
        index: usize,
    },
    /// An entry of the undo log names a word that no key-node of the intent list has.
    #[error(
        "undo entry {index}: found word {} of file {} of group {:016x}, expected a word of a \
         key-node of the intent list",
        entry.at, entry.file, entry.group
    )]
    Entry {
        /// Its index.
        index: usize,
        /// The word that it names.
        entry: Undo,
    },
}

/// Where the word of an undo entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceOf {
    /// In this key-node's tags or nodes.
    KeyNode(u32),
    /// In a group that is no longer served, or is quarantined.
    OutOfReach,
    /// In no key-node: the group has no such file, or the file has no such word.
    Nothing,
}

/// The group files as a recoverer reaches them. A recoverer skips files that it cannot reach.
pub trait Files {
    /// Where a word is.
    fn place_of(&self, undo: &Undo) -> PlaceOf;
    /// Writes an old value back.
    fn restore(&self, undo: &Undo);
    /// Frees the semaphore of a key-node if it names `dead`. True if it did.
    fn release_for(&self, intent: &Intent, dead: Token) -> bool;
    /// Whether a key-node's semaphore names `dead`.
    fn is_held(&self, intent: &Intent, dead: Token) -> bool;
    /// Quarantines these groups: a transaction over them may be half written.
    fn quarantine(&self, groups: &[u64]);
}
