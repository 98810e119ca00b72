//! The wants of a handle: its ring, the bit that tells the courier of it, and its doorbell.
//!
//! Invariant: a ring is open only where its blocks are allocated, and only to the handle that
//! opened it. A handle that never opened its ring costs nothing: no block, no page, no instruction.

use std::sync::Arc;

use super::doorbell::{Asking, Bell};
use super::ring::{Full, OwnerBell, Ticket, WantRing};
use super::shared_bell::SharedBell;
use super::want::{Want, WantResult};
use crate::error::Error;
use crate::handle::Handle;

/// The owner's access to its ring of wants and to its bell.
#[derive(Debug, Clone, Copy)]
pub struct Wants<'h> {
    ring: WantRing<'h>,
    slot: u32,
    asking: Asking<'h>,
    bell: Bell<'h>,
}

impl Handle {
    /// Opens the ring of wants of this handle, if it is not open yet. Called when the handle
    /// attaches with a cluster, or takes a configuration with one. `bell` says how the courier
    /// wakes the owner.
    ///
    /// # Errors
    /// If the disk has no room for the ring.
    pub fn open_wants(&mut self, bell: OwnerBell) -> Result<(), Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let slot = self.slot();
        if WantRing::open_for(slot.words()).is_none() {
            self.runtime().allocate_wants(slot.number())?;
            if bell == OwnerBell::Futex {
                let shared = SharedBell::of(self.runtime().map_bell(slot.number())?);
                self.slot.as_mut().into_iter().for_each(|slot| slot.share_bell(&shared));
            }
            let slot = self.slot();
            WantRing::of_slot(slot.words()).open(slot.token().epoch(), bell);
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

    /// Its wants. None if the ring is not open, or in a forked child.
    pub fn wants(&self) -> Option<Wants<'_>> {
        if self.is_forked() {
            return None;
        }
        let slot = self.slot();
        WantRing::open_for(slot.words())?;
        Some(Wants {
            ring: WantRing::of_slot(slot.words()),
            slot: slot.number(),
            asking: self.runtime().asking(),
            bell: slot.bell(),
        })
    }
}

impl<'h> Wants<'h> {
    /// Asks for a want. This rings no bell: after the last want of a turn, ring the courier once.
    ///
    /// # Errors
    /// If no entry of the ring is free.
    pub fn push(self, want: &Want) -> Result<Ticket, Full> {
        let ticket = self.ring.push(want)?;
        self.asking.set(self.slot);
        Ok(ticket)
    }

    /// The result of a want, once it is known. Then the entry is freed, and the ticket is spent.
    pub fn poll(self, ticket: Ticket) -> Option<WantResult> {
        self.ring.poll(ticket)
    }

    /// Whether the result of a want is known.
    pub fn is_done(self, ticket: Ticket) -> bool {
        self.ring.is_done(ticket)
    }

    /// Gives a want up. If the courier has finished it before, returns the result.
    pub fn give_up(self, ticket: Ticket) -> Option<WantResult> {
        self.ring.give_up(ticket)
    }

    /// The bell that the courier rings once wants are finished.
    pub fn bell(self) -> Bell<'h> {
        self.bell
    }
}
