//! Takes a slot, keeps it locked, and returns it. Allocates the disk blocks of slots.
//!
//! Invariant: a slot is used only while its byte is locked. Where a map keeps the lock, the map of
//! the slot itself does so.

use std::fs::File;
use std::sync::Arc;

use frs_base::sync::Ordering;
use frs_base::sys;

use super::{Runtime, open_file, try_lock_byte};
use crate::error::{Error, io_error};
use crate::file::layout::runtime::{SLOTS, slot_byte};
use crate::file::layout::{self, slot};
use crate::file::region::Region;
use crate::lock::semaphore::Token;
use crate::watch::counter::{Counter, Counters};
use crate::watch::mailbox::doorbell::Bell;
use crate::watch::mailbox::shared_bell::SharedBell;
use crate::watch::places::{Places, ROLE_PROGRAM, SlotRequest};
use crate::watch::slot::{SlotOwner, SlotState, SlotWords};

/// The part of a slot that is always allocated: all but the rows of businesses, the mailbox
/// and the sketches of refused keys.
const SLOT_WHOLE_BYTES: u64 = slot::BIZ_ROWS_START as u64 * 8;

/// The parts of each slot of the server that a configuration needs blocks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotBlocks {
    /// The number of rows of businesses.
    pub bizs: usize,
    /// Whether the mailbox is needed.
    pub mailbox: bool,
    /// Whether the ring of changes is needed.
    pub changes: bool,
    /// The number of clients by name.
    pub clients: usize,
}

impl Runtime {
    /// Allocates the blocks of the slots that the server's processes will take, with the parts that
    /// the configuration needs. If the disk has no room, that is an error before the processes
    /// start. A process that dies later can be replaced however full the disk is. Slots of living
    /// programs are skipped.
    pub(crate) fn reserve(&self, places: &Places, blocks: SlotBlocks) -> Result<(), Error> {
        let is_a_programs = |slot: u32| {
            let words = self.slot(slot);
            words.state().used && words.owner().role == ROLE_PROGRAM && self.is_locked(slot)
        };
        let open = (0..SLOTS as u32).filter(|&slot| !is_a_programs(slot));
        let reserved = places.reserved(open, self.path())?;
        reserved.into_iter().try_for_each(|slot| {
            self.allocate_slot(slot, blocks.bizs)?;
            if blocks.clients > 0 {
                self.allocate_client_rows(slot, 1 + blocks.clients)
                    .map_err(io_error(&self.path, "allocate rows of clients"))?;
            }
            if blocks.mailbox {
                self.allocate_mailbox(slot)?;
            }
            if blocks.changes { self.allocate_changes(slot) } else { Ok(()) }
        })
    }

    /// Allocates the blocks of a slot's mailbox.
    pub(crate) fn allocate_mailbox(&self, slot: u32) -> Result<(), Error> {
        let start = slot_byte(slot) + slot::LETTER_STATES as u64 * 8;
        self.backing
            .allocate(start, slot::MAILBOX_BYTES)
            .map_err(io_error(&self.path, "allocate a mailbox"))
    }

    /// Allocates the blocks of a slot, with rows for `bizs` businesses.
    fn allocate_slot(&self, slot: u32, bizs: usize) -> Result<(), Error> {
        self.backing
            .allocate(slot_byte(slot), SLOT_WHOLE_BYTES)
            .and_then(|()| self.allocate_biz_rows(slot, slot::BIZ_FIRST + bizs))
            .map_err(io_error(&self.path, "allocate a slot"))
    }

    /// Allocates the blocks of a slot's first `rows` rows of businesses.
    pub(crate) fn allocate_biz_rows(&self, slot: u32, rows: usize) -> std::io::Result<()> {
        let start = slot_byte(slot) + SLOT_WHOLE_BYTES;
        let bytes = (rows.min(slot::BIZ_ROWS) * slot::BIZ_ROW_WORDS * 8) as u64;
        self.backing.allocate(start, bytes.next_multiple_of(layout::PAGE_BYTES as u64))
    }

    /// Allocates the blocks of a slot's first `rows` rows of clients.
    pub(crate) fn allocate_client_rows(&self, slot: u32, rows: usize) -> std::io::Result<()> {
        let start = slot_byte(slot) + slot::CLIENT_ROWS_START as u64 * 8;
        let bytes = (rows.min(slot::CLIENT_ROWS) * slot::CLIENT_ROW_WORDS * 8) as u64;
        self.backing.allocate(start, bytes.next_multiple_of(layout::PAGE_BYTES as u64))
    }

    /// Allocates the blocks of a sketch of refused keys.
    pub(crate) fn allocate_sketch(&self, slot: u32, sketch: usize) -> std::io::Result<()> {
        let bytes = slot::SKETCH_WORDS as u64 * 8;
        let start = slot_byte(slot) + slot::SKETCHES_START as u64 * 8 + sketch as u64 * bytes;
        self.backing.allocate(start, bytes)
    }
}

/// The slot of a handle: a map of its own. Its lock shows that the owner lives.
#[derive(Debug)]
pub(crate) struct Slot {
    region: Region,
    number: u32,
    token: Token,
    /// Holds the lock if the map does not.
    _lock: Option<File>,
    /// Where the owner's threads sleep, once its mailbox is open.
    shared_bell: Option<Arc<SharedBell>>,
}

/// The map of a locked slot, and the file that keeps the lock if the map does not.
type LockedSlot = (Region, Option<File>);

impl Slot {
    /// Takes a free slot among those for its role. Calls `recover` for dead slots on the way. A
    /// slot that the disk has no room for is skipped, because another slot may have its blocks
    /// already.
    pub(crate) fn attach(
        runtime: &Runtime,
        SlotRequest { role, places }: SlotRequest<'_>,
        recover: &mut dyn FnMut(u32),
    ) -> Result<Slot, Error> {
        let mut full = None;
        for number in places.order(role, |slot| runtime.slot(slot).state()) {
            match Self::try_attach(runtime, number, role, recover) {
                Ok(Some(slot)) => return Ok(slot),
                Ok(None) => {}
                Err(error) if error.is_no_room() => full = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(full.unwrap_or_else(|| places.exhausted(role, &runtime.path)))
    }

    fn try_attach(
        runtime: &Runtime,
        number: u32,
        role: u32,
        recover: &mut dyn FnMut(u32),
    ) -> Result<Option<Slot>, Error> {
        if runtime.slot(number).state().used {
            if runtime.is_locked(number) {
                return Ok(None);
            }
            recover(number);
        }
        // A child that is forked amid this would inherit the descriptor, and with it the lock.
        let locked = sys::between_forks(|| Self::lock(runtime, number))?;
        let Some((region, lock)) = locked else { return Ok(None) };
        let words = SlotWords::at(&region, 0);
        let epoch = Token::next_epoch(words.state().epoch);
        // The former owner's connections are closed, and its requests that waited are gone.
        Counters::at(&region, 0).forget_clients();
        // Close the mailbox: the former owner's ring is not this owner's, even if the epochs are
        // equal.
        words.word(slot::RING_EPOCH).store(0, Ordering::Relaxed);
        words.claim(SlotOwner { pid: std::process::id(), role }, epoch);
        Ok(Some(Slot::of_parts(region, number, epoch, lock)))
    }

    /// Maps and locks a slot that no process uses.
    fn lock(runtime: &Runtime, number: u32) -> Result<Option<LockedSlot>, Error> {
        let path = &runtime.path;
        let file = open_file(path)?;
        let byte = slot_byte(number);
        let region = Region::map(&file, byte, slot::WORDS).map_err(io_error(path, "map a slot"))?;
        region.dont_fork().map_err(io_error(path, "keep a slot from forked children"))?;
        if !sys::try_lock_range(&file, byte, 1).map_err(io_error(path, "lock a slot"))? {
            return Ok(None);
        }
        if runtime.slot(number).state().used {
            // Another process took the slot and has died since. The next round finds the slot.
            return Ok(None);
        }
        runtime.allocate_slot(number, 0)?;
        drop(file);
        if runtime.is_locked(number) {
            return Ok(Some((region, None)));
        }
        let lock = try_lock_byte(path, byte, "lock a slot")?;
        Ok(lock.map(|lock| (region, Some(lock))))
    }

    pub(crate) fn of_parts(region: Region, number: u32, epoch: u32, lock: Option<File>) -> Slot {
        let token = Token::new(number, epoch);
        Slot { region, number, token, _lock: lock, shared_bell: None }
    }

    /// Its words.
    #[inline]
    pub(crate) fn words(&self) -> SlotWords<'_> {
        SlotWords::at(&self.region, 0)
    }

    /// The token that its owner writes into semaphores.
    #[inline]
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Its counters.
    #[inline]
    pub(crate) fn counters(&self) -> Counters<'_> {
        Counters::at(&self.region, 0)
    }

    /// The bell that the reader of the mailboxes rings for its owner.
    pub(crate) fn bell(&self) -> Bell<'_> {
        Bell::at(self.region.half(slot::BELL * 2))
    }

    /// The bell by which the owner's threads wait side by side.
    pub(crate) fn shared_bell(&self) -> Option<&Arc<SharedBell>> {
        self.shared_bell.as_ref()
    }

    pub(crate) fn share_bell(&mut self, bell: &Arc<SharedBell>) {
        self.shared_bell = Some(bell.clone());
    }

    /// Counts one.
    #[inline]
    pub(crate) fn count(&self, counter: Counter) {
        self.counters().count(counter);
    }

    /// Returns the slot.
    pub(crate) fn detach(&self) {
        if let Some(bell) = &self.shared_bell {
            bell.close();
        }
        self.words().set_state(SlotState { used: false, epoch: self.token.epoch() });
    }
}
