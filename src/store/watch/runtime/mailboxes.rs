//! The mailboxes of all slots, for their one reader: its lock, the rings with new letters, and the
//! bells.
//!
//! Invariant: the lock lives exactly as long as the address space of its process, as a slot's does:
//! only a map keeps its file description, and forked children do not have the map.

use std::fs::File;

use frs_base::sys;

use super::{Runtime, open_file, try_lock_byte};
use crate::error::{Error, expect, io_error};
use crate::file::layout::runtime::{slot_base, slot_byte};
use crate::file::layout::{PAGE_WORDS, runtime as at, slot as in_slot};
use crate::file::region::Region;
use crate::file::words::FilePlace;
use crate::watch::backing::{Backing, MAILBOXES_BYTE};
use crate::watch::mailbox::doorbell::{Asking, Bell, EventBell};
use crate::watch::mailbox::ring::{OwnerBell, Ring};

/// Shows that this process is the reader of the mailboxes.
#[derive(Debug)]
pub struct MailboxLock {
    /// Keeps the file description that holds the lock.
    _map: Region,
    /// Holds the lock where maps keep no description.
    _file: Option<File>,
}

impl Runtime {
    /// Takes the lock of the reader, if no living process has it. Does not wait.
    pub fn try_lock_mailboxes(&self) -> Result<Option<MailboxLock>, Error> {
        let path = &self.path;
        let file = open_file(path)?;
        // If another file has the name now, a lock on it would not exclude a reader of this file.
        let place = |file: &File| {
            FilePlace::of(file)
                .map(|place| format!("{}:{}", place.device, place.inode))
                .map_err(io_error(path, "read its inode"))
        };
        expect(path, "device and inode", place(&file)?, place(self.backing.file())?)?;
        let map = Region::map(&file, 0, PAGE_WORDS).map_err(io_error(path, "map its header"))?;
        map.dont_fork().map_err(io_error(path, "keep its header from forked children"))?;
        const ACTION: &str = "lock its mailboxes";
        if !sys::try_lock_range(&file, MAILBOXES_BYTE, 1).map_err(io_error(path, ACTION))? {
            return Ok(None);
        }
        drop(file);
        if self.are_mailboxes_locked()? {
            return Ok(Some(MailboxLock { _map: map, _file: None }));
        }
        let locked = try_lock_byte(path, MAILBOXES_BYTE, ACTION)?;
        Ok(locked.map(|file| MailboxLock { _map: map, _file: Some(file) }))
    }

    /// Whether a living process holds the lock of the reader.
    pub(crate) fn are_mailboxes_locked(&self) -> Result<bool, Error> {
        sys::is_range_locked(self.backing.file(), MAILBOXES_BYTE, 1)
            .map_err(io_error(&self.path, "look at the lock of its mailboxes"))
    }

    /// The slots that have new letters, as bits.
    pub fn asking(&self) -> Asking<'_> {
        Asking::at(self.region.words(at::ASKING, at::ASKING_WORDS))
    }

    /// The slots whose rings are open. A reader that has just taken the lock looks at all of them,
    /// because an earlier reader may have taken bits of [`Runtime::asking`] and died.
    pub fn open_rings(&self) -> impl Iterator<Item = u32> + '_ {
        (0..at::SLOTS as u32).filter(|&slot| Ring::open_for(self.slot(slot)).is_some())
    }

    /// The bell by which programs call the reader; its sleeper waits on the futex.
    pub fn programs_bell(&self) -> Bell<'_> {
        Bell::at(self.region.half(at::PROGRAMS_BELL * 2))
    }

    /// The bell by which workers call the reader; its sleeper waits for an eventfd.
    pub fn workers_bell(&self) -> Bell<'_> {
        Bell::at(self.region.half(at::WORKERS_BELL * 2))
    }

    /// Maps the page of a slot's bell once more.
    pub(crate) fn map_bell(&self, slot: u32) -> Result<Region, Error> {
        let mapped = match &self.backing {
            Backing::File(file) => Region::map(file, slot_byte(slot), PAGE_WORDS),
            #[cfg(any(test, feature = "crash-points"))]
            Backing::Played(_) => Ok(self.region.part(slot_base(slot), PAGE_WORDS)),
        };
        mapped.map_err(io_error(&self.path, "map a bell"))
    }

    /// Rings the bell of a slot's owner, after replies to it. Returns true if the owner slept.
    /// `event` is the eventfd of the slot.
    pub fn ring_owner(&self, slot: u32, event: Option<&EventBell>) -> bool {
        let bell = Bell::at(self.region.half((slot_base(slot) + in_slot::BELL) * 2));
        match Ring::bell_of(self.slot(slot)) {
            OwnerBell::Futex => bell.ring(),
            OwnerBell::Event => event.is_some_and(|event| event.ring(bell)),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
