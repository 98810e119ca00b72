//! The owner's side of the ring in a slot: letters go to the reader of the mailboxes, and their
//! replies come back. The reader's side is in `queue.rs`.
//!
//! Invariant: no letter gets the reply to another letter, at whatever instruction the owner or the
//! reader dies. Each entry has one state word, and each step of its life is one store or one
//! exchange of that word: free → pushed → free by the owner, pushed → taken → done by the reader,
//! taken or done → free by the owner. A sequence in the same word grows with each letter of the
//! entry, so a step that was meant for an earlier letter finds another word and does nothing.
//!
//! No entry leaks. The owner frees what it polls or gives up. The next owner that opens the ring
//! clears the letters of a dead owner before it claims the ring. Until then no reader looks at
//! them, since the epoch of the ring is not that of the slot's owner. The next reader takes again
//! the letters that a dead reader has taken.

use frs_base::sync::{AtomicU64, Ordering, fence};

use super::letter::{Letter, Reply};
use crate::file::layout::slot::{
    LETTER_RECORDS, LETTER_STATES, LETTER_WORDS, LETTERS, RING_EPOCH, RING_TAIL,
};
use crate::file::region::{copy_in, put, put_release};
use crate::watch::slot::SlotWords;

/// Names one letter of a ring: its entry, and the sequence of the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Below [`LETTERS`]: the maker of the ticket ensures that.
    pub(crate) index: usize,
    pub(crate) sequence: u64,
}

/// No entry of the ring is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all {LETTERS} letters of this process wait already")]
pub struct Full;

/// How the reader wakes an owner of letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerBell {
    /// A thread of the owner waits on the futex in its slot.
    Futex = 0,
    /// The owner waits for the eventfd of its slot.
    Event = 1,
}

impl OwnerBell {
    /// Accepts any number: after a stray write the wrong bell is rung, and the owner wakes at its
    /// limit.
    fn of_number(number: u32) -> OwnerBell {
        if number == OwnerBell::Event as u32 { OwnerBell::Event } else { OwnerBell::Futex }
    }
}

/// The state of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The entry is free.
    Free,
    /// Pushed by the owner.
    Pushed,
    /// Taken by a reader.
    Taken,
    /// Replied to by a reader.
    Done(Reply),
    /// No step leads to this state: it is a stray write.
    Damaged,
}

/// A state word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StateWord {
    pub sequence: u64,
    pub state: State,
}

/// Bits of a sequence. An entry that is used each microsecond repeats a sequence after nine years.
const SEQUENCE_MASK: u64 = (1 << 48) - 1;
/// Bits of state and reply, below the sequence.
const STATE_MASK: u64 = 0xffff;

impl StateWord {
    pub(crate) fn of(word: u64) -> StateWord {
        let state = match (word as u8, (word >> 8) as u8) {
            (0, 0) => State::Free,
            (1, 0) => State::Pushed,
            (2, 0) => State::Taken,
            (3, number) => Reply::of_number(number).map_or(State::Damaged, State::Done),
            _ => State::Damaged,
        };
        StateWord { sequence: word >> 16, state }
    }

    pub(crate) fn word(self) -> u64 {
        let low = match self.state {
            State::Free | State::Damaged => 0,
            State::Pushed => 1,
            State::Taken => 2,
            State::Done(reply) => 3 | u64::from(reply.number()) << 8,
        };
        self.sequence << 16 | low
    }

    pub(crate) fn with(self, state: State) -> StateWord {
        StateWord { state, ..self }
    }
}

/// The ring in a slot's words. Reading it costs blocks, so it may be made only for a slot whose
/// ring has its blocks.
#[derive(Debug, Clone, Copy)]
pub struct Ring<'a> {
    slot: SlotWords<'a>,
}

impl<'a> Ring<'a> {
    /// The ring of a slot. Its blocks must be allocated.
    pub(crate) fn of_slot(slot: SlotWords<'a>) -> Ring<'a> {
        Ring { slot }
    }

    /// The epoch of the owner that the ring is open for. Acquire: pairs with `open`, so a reader of
    /// this epoch sees no letter of an earlier owner.
    pub(crate) fn open_for(slot: SlotWords<'a>) -> Option<u32> {
        let owner = slot.state();
        let epoch = slot.word(RING_EPOCH).load(Ordering::Acquire) as u32;
        (owner.used && owner.epoch == epoch).then_some(epoch)
    }

    /// How to wake the owner for whom the ring is open.
    #[cfg(not(loom))]
    pub(crate) fn bell_of(slot: SlotWords<'a>) -> OwnerBell {
        OwnerBell::of_number((slot.word(RING_EPOCH).load(Ordering::Acquire) >> 32) as u32)
    }

    /// Opens the ring for the slot's owner of this epoch, and clears the letters of an earlier
    /// owner. The owner calls it once.
    pub(crate) fn open(self, epoch: u32, bell: OwnerBell) {
        for index in 0..LETTERS {
            // One atomic operation, because a reader may still work on a letter of the earlier
            // owner. The sequence stays, so the reader's reply fits no later letter. AcqRel: the
            // reader's last step, an exchange, comes before this one.
            self.entry(index).fetch_and(!STATE_MASK, Ordering::AcqRel);
        }
        // Release: all entries are free before; pairs with `open_for`.
        put_release(self.slot.word(RING_EPOCH), u64::from(epoch) | (bell as u64) << 32);
    }

    /// Pushes a letter. The reader sees it when its bell is rung.
    ///
    /// # Errors
    /// If no entry is free.
    pub fn push(self, letter: &Letter) -> Result<Ticket, Full> {
        // Only the owner writes this word. It only says where to begin, so any number of a stray
        // write does no harm.
        let tail = self.slot.word(RING_TAIL).load(Ordering::Relaxed);
        let is_free = |step: &u64| {
            let index = index_of(tail.wrapping_add(*step));
            matches!(self.state(index, Ordering::Relaxed).state, State::Free | State::Damaged)
        };
        let step = (0..LETTERS as u64).find(is_free).ok_or(Full)?;
        let position = tail.wrapping_add(step);
        let index = index_of(position);
        let before = self.state(index, Ordering::Relaxed);
        let sequence = before.sequence.wrapping_add(1) & SEQUENCE_MASK;
        let (record, words) = letter.encode(sequence);
        // Release: a reader that still copies the earlier letter's record and reads a word of this
        // one also finds the state changed; pairs with the fence of `LetterQueue::read`.
        fence(Ordering::Release);
        copy_in(&self.record(index)[..words], &record[..words]);
        // Release: the record is whole before this; pairs with the load of `LetterQueue::take`.
        let pushed = StateWord { sequence, state: State::Pushed };
        put_release(self.entry(index), pushed.word());
        // Release: the letter is pushed before this; pairs with the load of
        // `LetterQueue::take_next`.
        put_release(self.slot.word(RING_TAIL), position.wrapping_add(1));
        Ok(Ticket { index, sequence })
    }

    /// The reply to a letter, once it is known. Then the entry is freed, and the ticket is spent.
    pub fn poll(self, ticket: Ticket) -> Option<Reply> {
        // Acquire: all earlier work of the reader is visible; pairs with `LetterQueue::reply`.
        let found = self.state(ticket.index, Ordering::Acquire);
        match found.state {
            _ if found.sequence != ticket.sequence => Some(Reply::LOST),
            State::Pushed | State::Taken => None,
            State::Done(reply) => {
                put(self.entry(ticket.index), found.with(State::Free).word());
                Some(reply)
            }
            State::Free | State::Damaged => Some(Reply::LOST),
        }
    }

    /// Whether [`Ring::poll`] would return the reply to a letter.
    pub fn is_done(self, ticket: Ticket) -> bool {
        let found = self.state(ticket.index, Ordering::Relaxed);
        let is_open = matches!(found.state, State::Pushed | State::Taken);
        found.sequence != ticket.sequence || !is_open
    }

    /// Gives a letter up. If the reader has replied to it before, returns the reply.
    pub fn give_up(self, ticket: Ticket) -> Option<Reply> {
        // Each failure is a step of the reader on this letter, and the reader makes two steps at
        // most.
        loop {
            if let Some(reply) = self.poll(ticket) {
                return Some(reply);
            }
            let found = self.state(ticket.index, Ordering::Relaxed);
            if found.sequence == ticket.sequence
                && matches!(found.state, State::Pushed | State::Taken)
                && self.exchange(ticket.index, found, State::Free)
            {
                return None;
            }
        }
    }

    /// Makes one step of a letter. Returns false if its state was not `from`.
    pub(crate) fn exchange(self, index: usize, from: StateWord, to: State) -> bool {
        // A simulated dead process continues as if it had succeeded: none of its stores has an
        // effect.
        #[cfg(any(test, feature = "crash-points"))]
        if !crate::crash::point() {
            return true;
        }
        let (from, to) = (from.word(), from.with(to).word());
        // AcqRel: all reads and work before this step are over; pairs with the loads of `poll` and
        // of `LetterQueue::take`.
        self.entry(index).compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn state(self, index: usize, order: Ordering) -> StateWord {
        StateWord::of(self.entry(index).load(order))
    }

    /// Positions begun. Acquire: pairs with `push`.
    pub(crate) fn tail(self) -> u64 {
        self.slot.word(RING_TAIL).load(Ordering::Acquire)
    }

    pub(crate) fn record(self, index: usize) -> &'a [AtomicU64; LETTER_WORDS] {
        &self.slot.list::<LETTER_WORDS>(LETTER_RECORDS, LETTERS)[index]
    }

    fn entry(self, index: usize) -> &'a AtomicU64 {
        &self.slot.list::<1>(LETTER_STATES, LETTERS)[index][0]
    }
}

/// The entry of a position.
pub(crate) fn index_of(position: u64) -> usize {
    (position % LETTERS as u64) as usize
}
