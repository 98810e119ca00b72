//! The wants of a handle: its ring, the bit that tells the courier of it, and its doorbell, by which
//! several threads of a program may sleep.
//!
//! Invariant: a ring is open only where its blocks are allocated, and only to the handle that
//! opened it. A handle that never opened its ring costs nothing: no block, no page, no instruction.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::doorbell::{Asking, Bell, Rest};
use super::error::Error;
use super::handle::Handle;
use super::layout::slot::BELL;
use super::region::Region;
use super::want::{Want, WantResult};
use super::want_ring::{Full, OwnerBell, Ticket, WantRing};

/// What an owner asks of the courier, and hears from it.
#[derive(Debug, Clone, Copy)]
pub struct Wants<'h> {
    ring: WantRing<'h>,
    slot: u32,
    asking: Asking<'h>,
    bell: Bell<'h>,
}

impl Handle {
    /// Opens the ring of wants of this handle, if it is not open yet: when it attaches, or takes a
    /// configuration, with a cluster. `bell` says how the courier calls it.
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
            let shared = match bell {
                OwnerBell::Futex => {
                    Some(Arc::new(SharedBell::of(self.runtime().map_bell(slot.number())?)))
                }
                OwnerBell::Event => None,
            };
            WantRing::of_slot(slot.words()).open(slot.token().epoch(), bell);
            self.shared_bell = shared;
        }
        Ok(())
    }

    /// The bell of its threads that wait. None where its ring is not open, or not for a futex.
    pub fn shared_bell(&self) -> Option<&Arc<SharedBell>> {
        self.shared_bell.as_ref().filter(|_| !self.is_forked())
    }

    /// The number of its slot: of its bell, too.
    pub fn slot_number(&self) -> u32 {
        self.slot().number()
    }

    /// Its wants. None where the ring is not open, and in a forked child.
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
    /// Asks. Nobody is called yet: after the last want of a turn, ring the courier once.
    ///
    /// # Errors
    /// If no entry of the ring is free.
    pub fn push(self, want: &Want) -> Result<Ticket, Full> {
        let ticket = self.ring.push(want)?;
        self.asking.set(self.slot);
        Ok(ticket)
    }

    /// What became of a want, once it is known: its entry is free then, and the ticket spent.
    pub fn poll(self, ticket: Ticket) -> Option<WantResult> {
        self.ring.poll(ticket)
    }

    /// Whether it is known what became of a want.
    pub fn is_done(self, ticket: Ticket) -> bool {
        self.ring.is_done(ticket)
    }

    /// Nobody waits for it any more. If the courier was quicker: what became of it.
    pub fn give_up(self, ticket: Ticket) -> Option<WantResult> {
        self.ring.give_up(ticket)
    }

    /// The bell that the courier rings once wants are finished.
    pub fn bell(self) -> Bell<'h> {
        self.bell
    }
}

/// The bell of an owner whose threads wait for its wants while others use its handle. The map is
/// its own, so a thread sleeps without the handle.
#[derive(Debug)]
pub struct SharedBell {
    page: Region,
    sleepers: Mutex<Sleepers>,
}

#[derive(Debug, Default)]
struct Sleepers {
    threads: usize,
    /// The slot is given back: its bell may be another owner's now.
    is_closed: bool,
}

/// A thread that lies by the bell, until this is dropped. From the beginning on it is called for
/// each want that is finished.
#[derive(Debug)]
pub struct Lying<'b> {
    shared: &'b SharedBell,
    /// None: nobody rings any more.
    rest: Option<Rest>,
}

impl SharedBell {
    /// The bell of a slot, by a map of the slot's first page.
    fn of(page: Region) -> SharedBell {
        SharedBell { page, sleepers: Mutex::default() }
    }

    fn bell(&self) -> Bell<'_> {
        Bell::at(self.page.half(BELL * 2))
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// About to sleep: look for what is awaited after this.
    pub fn lie_down(&self) -> Lying<'_> {
        let mut sleepers = self.sleepers();
        sleepers.threads += 1;
        let rest = (!sleepers.is_closed).then(|| self.bell().lie_down());
        Lying { shared: self, rest }
    }

    /// The slot is about to be given back: wakes all that lie by the bell, for ever.
    pub(super) fn close(&self) {
        let mut sleepers = self.sleepers();
        sleepers.is_closed = true;
        self.bell().ring();
        self.bell().get_up();
    }
}

impl Lying<'_> {
    /// Sleeps until the bell is rung, at most for the limit. Returns early at any doubt.
    pub fn sleep(&self, limit: Duration) {
        if let Some(rest) = self.rest {
            self.shared.bell().sleep(rest, limit);
        }
    }
}

impl Drop for Lying<'_> {
    fn drop(&mut self) {
        let mut sleepers = self.shared.sleepers();
        sleepers.threads -= 1;
        // As long as one lies there, the courier has to call.
        if sleepers.threads == 0 && !sleepers.is_closed {
            self.shared.bell().get_up();
        }
    }
}
