//! The courier's side of runtime.mmap: its lock, the host's counter of bindings, the rings with new
//! wants, and the bells.
//!
//! Invariant: numbers of bindings are given out, and the incarnation is renewed, only by a process
//! that holds the courier's lock. The lock lives exactly as long as its address space, as a slot's
//! does: only a map keeps its file description, and forked children do not have the map.

use std::fs::File;

use frs_base::sync::Ordering;
use frs_base::sys;

use super::{Runtime, open_file};
use crate::error::{Error, expect, io_error};
use crate::file::layout::runtime::{slot_base, slot_byte};
use crate::file::layout::{PAGE_WORDS, runtime as at, slot as in_slot};
use crate::file::region::Region;
use crate::file::words::FilePlace;
use crate::watch::backing::{Backing, COURIER_BYTE};
use crate::watch::mailbox::doorbell::{Asking, Bell, EventBell};
use crate::watch::mailbox::ring::{OwnerBell, WantRing};

/// Shows that this process is the serving courier.
#[derive(Debug)]
pub struct CourierLock {
    /// Keeps the file description that holds the lock.
    _map: Region,
    /// Holds the lock where maps keep no description.
    _file: Option<File>,
}

impl Runtime {
    /// Takes the courier's lock, if no living process has it. Does not wait.
    pub fn try_lock_courier(&self) -> Result<Option<CourierLock>, Error> {
        let path = &self.path;
        let file = open_file(path)?;
        // If another file has the name now, a lock on it would not exclude a courier of this file.
        let place = |file: &File| {
            FilePlace::of(file)
                .map(|place| format!("{}:{}", place.device, place.inode))
                .map_err(io_error(path, "read its inode"))
        };
        expect(path, "device and inode", place(&file)?, place(self.backing.file())?)?;
        let map = Region::map(&file, 0, PAGE_WORDS).map_err(io_error(path, "map its header"))?;
        map.dont_fork().map_err(io_error(path, "keep its header from forked children"))?;
        let try_lock = |file: &File| {
            sys::try_lock_range(file, COURIER_BYTE, 1)
                .map_err(io_error(path, "lock it for the courier"))
        };
        if !try_lock(&file)? {
            return Ok(None);
        }
        drop(file);
        if self.is_courier_locked()? {
            return Ok(Some(CourierLock { _map: map, _file: None }));
        }
        let file = open_file(path)?;
        let is_taken = try_lock(&file)?;
        Ok(is_taken.then_some(CourierLock { _map: map, _file: Some(file) }))
    }

    /// Whether a living process holds the courier's lock.
    pub(crate) fn is_courier_locked(&self) -> Result<bool, Error> {
        sys::is_range_locked(self.backing.file(), COURIER_BYTE, 1)
            .map_err(io_error(&self.path, "look at the courier's lock"))
    }

    /// The next number of a binding of this host, from 1. No number is given out twice, because the
    /// word is in shared memory and outlives a killed courier. Numbers are taken one by one: a
    /// block of numbers would save no disk write. A crash of the machine may lose the word, but
    /// then the new boot id makes the file and the incarnation new.
    pub fn next_host_seq(&self, _courier: &CourierLock) -> u64 {
        // Relaxed: the numbers only have to differ, also between the two couriers of an upgrade.
        self.region.word(at::HOST_SEQ).fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// The salt of the incarnation, and a bit that says whether leases are unproven. On the cache
    /// line of the generation, which every batch reads.
    #[inline]
    pub fn incarnation_salt(&self) -> u64 {
        self.region.word(at::INCARNATION_SALT).load(Ordering::Relaxed)
    }

    /// The slots that have new wants, as bits.
    pub fn asking(&self) -> Asking<'_> {
        Asking::at(self.region.words(at::ASKING, at::ASKING_WORDS))
    }

    /// The slots whose rings are open. A courier that has just taken the lock looks at all of them,
    /// because an earlier courier may have taken bits of [`Runtime::asking`] and died.
    pub fn open_rings(&self) -> impl Iterator<Item = u32> + '_ {
        (0..at::SLOTS as u32).filter(|&slot| WantRing::open_for(self.slot(slot)).is_some())
    }

    /// The bell by which programs call the courier; its sleeper waits on the futex.
    pub fn programs_bell(&self) -> Bell<'_> {
        Bell::at(self.region.half(at::PROGRAMS_BELL * 2))
    }

    /// The bell by which workers call the courier; its sleeper waits for an eventfd.
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

    /// Rings the bell of a slot's owner, after wants of it were finished. Returns true if the owner
    /// slept. `event` is the eventfd of the slot.
    pub fn ring_owner(&self, slot: u32, event: Option<&EventBell>) -> bool {
        let bell = Bell::at(self.region.half((slot_base(slot) + in_slot::BELL) * 2));
        match WantRing::bell_of(self.slot(slot)) {
            OwnerBell::Futex => bell.ring(),
            OwnerBell::Event => event.is_some_and(|event| event.ring(bell)),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
