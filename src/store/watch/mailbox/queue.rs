//! The courier's side of the ring of wants in a slot: it takes the wants in the order in which they
//! were asked, and stores their results.
//!
//! Invariant: a want is handed over only if its entry was not reused while it was copied. Wants
//! that an earlier courier has taken are taken again. That is safe: only the courier that holds the
//! lock serves, and its messages are absolute, so a message may be sent twice.

use frs_base::sync::{Ordering, fence};

use super::ring::{State, StateWord, Ticket, WantRing, index_of};
use super::want::{Want, WantResult, words_in_use};
use crate::file::layout::slot::{WANT_KEY, WANT_WORDS, WANTS};
use crate::file::region::copy_out;
use crate::watch::slot::SlotWords;

/// A courier's position in the ring of one slot. It begins with all wants that are asked or taken.
#[derive(Debug, Clone, Copy, Default)]
pub struct WantQueue {
    /// The epoch of the owner whose ring was read; 0 before the first read.
    epoch: u32,
    /// The next position to look at.
    next: u64,
    /// Remaining positions of the first lap.
    first_lap: usize,
    damaged: u64,
}

/// A want that the courier has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenWant {
    /// Finishes the want.
    pub ticket: Ticket,
    /// The want.
    pub want: Want,
}

impl WantQueue {
    /// The next want of a slot. None if all asked wants are taken.
    pub fn take_next(&mut self, slot: SlotWords<'_>) -> Option<TakenWant> {
        let epoch = WantRing::open_for(slot)?;
        let ring = WantRing::of_slot(slot);
        let tail = ring.tail();
        let is_new = epoch != self.epoch;
        if is_new {
            (self.epoch, self.first_lap) = (epoch, WANTS);
        }
        // After a stray write the tail may be anywhere: the whole ring is looked at then.
        if is_new || tail.wrapping_sub(self.next) > WANTS as u64 {
            self.next = tail.wrapping_sub(WANTS as u64);
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

    /// Takes the want of an entry. Also returns None if the owner gives the want up meanwhile: its
    /// next want in that entry has a later position.
    fn take(&mut self, ring: WantRing<'_>, index: usize, retakes: bool) -> Option<TakenWant> {
        // Acquire: the record is whole; pairs with `WantRing::push`.
        let found = ring.state(index, Ordering::Acquire);
        let taken = found.with(State::Taken);
        match found.state {
            State::Asked => ring.exchange(index, found, State::Taken).then_some(())?,
            State::Taken if retakes => {}
            _ => return None,
        }
        let (record, is_whole) = Self::read(ring, index, taken);
        if !is_whole {
            return None;
        }
        let ticket = Ticket { index, sequence: taken.sequence };
        if let Ok(want) = Want::decode(&record, taken.sequence) {
            return Some(TakenWant { ticket, want });
        }
        self.damaged += 1;
        ring.exchange(index, taken, State::Done(WantResult::Unserved));
        None
    }

    /// Copies a record. Returns true with it if it is the record of the want that was taken.
    fn read(ring: WantRing<'_>, index: usize, taken: StateWord) -> ([u64; WANT_WORDS], bool) {
        let mut record = [0; WANT_WORDS];
        let words = ring.record(index);
        copy_out(&words[..=WANT_KEY], &mut record[..=WANT_KEY]);
        // A length that no record has is damage, which `decode` finds.
        let in_use = words_in_use(record[WANT_KEY]).unwrap_or(WANT_WORDS);
        copy_out(&words[WANT_KEY + 1..in_use], &mut record[WANT_KEY + 1..in_use]);
        // Acquire: pairs with the fence of `WantRing::push`.
        fence(Ordering::Acquire);
        (record, ring.state(index, Ordering::Relaxed) == taken)
    }

    /// Stores the result of a want. Returns false if its owner has given it up, or is gone.
    pub fn finish(slot: SlotWords<'_>, ticket: Ticket, result: WantResult) -> bool {
        debug_assert!(result != WantResult::Lost, "only an owner finds that out");
        let taken = StateWord { sequence: ticket.sequence, state: State::Taken };
        // Release, by the exchange: all work of the courier on this want comes before; pairs with
        // `WantRing::poll`.
        WantRing::of_slot(slot).exchange(ticket.index, taken, State::Done(result))
    }

    /// Wants that stray writes have damaged; each was answered [`WantResult::Unserved`].
    pub fn damaged(&self) -> u64 {
        self.damaged
    }
}
