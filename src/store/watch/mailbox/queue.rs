//! The reader's side of the ring in a slot: it takes the letters in the order in which they were
//! pushed, and stores their replies.
//!
//! Invariant: a letter is handed over only if its entry was not reused while it was copied. Letters
//! that an earlier reader has taken are taken again. That is safe: only the reader that holds the
//! lock serves, and it must act the same if it gets a letter twice.

use frs_base::sync::{Ordering, fence};

use super::letter::{Letter, Record, Reply, words_in_use};
use super::ring::{Ring, State, StateWord, Ticket, index_of};
use crate::file::layout::slot::{LETTER_HEAD, LETTER_WORDS, LETTERS};
use crate::file::region::copy_out;
use crate::watch::slot::SlotWords;

/// A reader's position in the ring of one slot. It begins with all letters that are pushed or
/// taken.
#[derive(Debug, Clone, Copy, Default)]
pub struct LetterQueue {
    /// The epoch of the owner whose ring was read; 0 before the first read.
    epoch: u32,
    /// The next position to look at.
    next: u64,
    /// Remaining positions of the first lap.
    first_lap: usize,
    damaged: u64,
}

/// A letter that the reader has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenLetter {
    /// Names the letter in its reply.
    pub ticket: Ticket,
    /// The letter.
    pub letter: Letter,
}

impl LetterQueue {
    /// The next letter of a slot. None if all pushed letters are taken.
    pub fn take_next(&mut self, slot: SlotWords<'_>) -> Option<TakenLetter> {
        let epoch = Ring::open_for(slot)?;
        let ring = Ring::of_slot(slot);
        let tail = ring.tail();
        let is_new = epoch != self.epoch;
        if is_new {
            (self.epoch, self.first_lap) = (epoch, LETTERS);
        }
        // After a stray write the tail may be anywhere: the whole ring is looked at then.
        if is_new || tail.wrapping_sub(self.next) > LETTERS as u64 {
            self.next = tail.wrapping_sub(LETTERS as u64);
        }
        while self.next != tail {
            let index = index_of(self.next);
            let retakes = self.first_lap > 0;
            self.next = self.next.wrapping_add(1);
            self.first_lap = self.first_lap.saturating_sub(1);
            if let Some(taken) = self.take(ring, index, retakes) {
                return Some(taken);
            }
        }
        None
    }

    /// Takes the letter of an entry. Also returns None if the owner gives the letter up meanwhile:
    /// its next letter in that entry has a later position.
    fn take(&mut self, ring: Ring<'_>, index: usize, retakes: bool) -> Option<TakenLetter> {
        // Acquire: the record is whole; pairs with `Ring::push`.
        let found = ring.state(index, Ordering::Acquire);
        let taken = found.with(State::Taken);
        match found.state {
            State::Pushed => ring.exchange(index, found, State::Taken).then_some(())?,
            State::Taken if retakes => {}
            _ => return None,
        }
        let (record, is_whole) = Self::read(ring, index, taken);
        if !is_whole {
            return None;
        }
        let ticket = Ticket { index, sequence: taken.sequence };
        if let Ok(letter) = Letter::decode(&record, taken.sequence) {
            return Some(TakenLetter { ticket, letter });
        }
        self.damaged += 1;
        ring.exchange(index, taken, State::Done(Reply::UNREADABLE));
        None
    }

    /// Copies a record. Returns true with it if it is the record of the letter that was taken.
    fn read(ring: Ring<'_>, index: usize, taken: StateWord) -> (Record, bool) {
        let mut record = [0; LETTER_WORDS];
        let words = ring.record(index);
        copy_out(&words[..=LETTER_HEAD], &mut record[..=LETTER_HEAD]);
        // A length that no record has is damage, which `decode` finds.
        let in_use = words_in_use(record[LETTER_HEAD]).unwrap_or(LETTER_WORDS);
        copy_out(&words[LETTER_HEAD + 1..in_use], &mut record[LETTER_HEAD + 1..in_use]);
        // Acquire: pairs with the fence of `Ring::push`.
        fence(Ordering::Acquire);
        (record, ring.state(index, Ordering::Relaxed) == taken)
    }

    /// Stores the reply to a letter. Returns false if its owner has given it up, or is gone.
    pub fn reply(slot: SlotWords<'_>, ticket: Ticket, reply: Reply) -> bool {
        debug_assert!(reply != Reply::LOST, "only an owner finds that out");
        let taken = StateWord { sequence: ticket.sequence, state: State::Taken };
        // Release, by the exchange: all work of the reader on this letter comes before; pairs with
        // `Ring::poll`.
        Ring::of_slot(slot).exchange(ticket.index, taken, State::Done(reply))
    }

    /// Letters that stray writes have damaged; each got [`Reply::UNREADABLE`].
    pub fn damaged(&self) -> u64 {
        self.damaged
    }
}
