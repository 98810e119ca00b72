//! The mailbox of a handle: its ring, the bit that tells the reader of it, and its doorbell.
//!
//! Invariant: a ring is open only where its blocks are allocated, and only to the handle that
//! opened it. A handle that never opened its ring costs nothing: no block, no page, no instruction.

use std::sync::Arc;

use super::doorbell::{Asking, Bell};
use super::letter::{Letter, Reply};
use super::ring::{Full, OwnerBell, Ring, Ticket};
use super::shared_bell::SharedBell;
use crate::error::Error;
use crate::handle::Handle;

/// The owner's access to its ring and to its bell.
#[derive(Debug, Clone, Copy)]
pub struct Mailbox<'h> {
    ring: Ring<'h>,
    slot: u32,
    asking: Asking<'h>,
    bell: Bell<'h>,
}

impl Handle {
    /// Opens the mailbox of this handle, if it is not open yet. `bell` says how the reader of the
    /// mailboxes wakes the owner.
    ///
    /// # Errors
    /// If the disk has no room for the ring.
    pub fn open_mailbox(&mut self, bell: OwnerBell) -> Result<(), Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let slot = self.slot();
        if Ring::open_for(slot.words()).is_none() {
            self.runtime().allocate_mailbox(slot.number())?;
            if bell == OwnerBell::Futex {
                let shared = SharedBell::of(self.runtime().map_bell(slot.number())?);
                self.slot.as_mut().into_iter().for_each(|slot| slot.share_bell(&shared));
            }
            let slot = self.slot();
            Ring::of_slot(slot.words()).open(slot.token().epoch(), bell);
        }
        Ok(())
    }

    /// The bell of its waiting threads. None if its ring is not open, or not for a futex.
    pub fn shared_bell(&self) -> Option<&Arc<SharedBell>> {
        self.slot.as_ref().filter(|_| !self.is_forked())?.shared_bell()
    }

    /// The number of its slot and its bell.
    pub fn slot_number(&self) -> u32 {
        self.slot().number()
    }

    /// Its mailbox. None if it is not open, or in a forked child.
    pub fn mailbox(&self) -> Option<Mailbox<'_>> {
        if self.is_forked() {
            return None;
        }
        let slot = self.slot();
        Ring::open_for(slot.words())?;
        Some(Mailbox {
            ring: Ring::of_slot(slot.words()),
            slot: slot.number(),
            asking: self.runtime().asking(),
            bell: slot.bell(),
        })
    }
}

impl<'h> Mailbox<'h> {
    /// Pushes a letter. This rings no bell: after the last letter of a turn, ring the reader once.
    ///
    /// # Errors
    /// If no entry of the ring is free.
    pub fn push(self, letter: &Letter) -> Result<Ticket, Full> {
        let ticket = self.ring.push(letter)?;
        self.asking.set(self.slot);
        Ok(ticket)
    }

    /// The reply to a letter, once it is known. Then the entry is freed, and the ticket is spent.
    pub fn poll(self, ticket: Ticket) -> Option<Reply> {
        self.ring.poll(ticket)
    }

    /// Whether the reply to a letter is known.
    pub fn is_done(self, ticket: Ticket) -> bool {
        self.ring.is_done(ticket)
    }

    /// Gives a letter up. If the reader has replied to it before, returns the reply.
    pub fn give_up(self, ticket: Ticket) -> Option<Reply> {
        self.ring.give_up(ticket)
    }

    /// The bell that the reader rings after its replies.
    pub fn bell(self) -> Bell<'h> {
        self.bell
    }
}
