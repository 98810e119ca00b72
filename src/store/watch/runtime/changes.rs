//! The rings of changes of all slots, and the number of this run.

use frs_base::hash::crc32c_words;

use super::Runtime;
use crate::error::{Error, io_error};
use crate::file::layout::runtime as at;
use crate::file::layout::slot::{CHANGES, CHANGES_START};
use crate::watch::change_ring::{ChangeRing, ChangedPlace, ChangesFound, ChangesRead};

impl Runtime {
    /// The number of this run of this machine. Another start, and another data directory, has
    /// another one: two are equal once in 2^32.
    pub fn run(&self) -> u32 {
        let [first, second] = [self.region.load(at::ID), self.region.load(at::ID + 1)];
        crc32c_words([first, second, self.region.load(at::STARTED)], &[]).max(1)
    }

    /// Where a reader of a slot's changes begins.
    pub fn changes_from_now(&self, slot: u32) -> ChangesRead {
        ChangesRead::from_now(ChangeRing::of(self.slot(slot)))
    }

    /// Calls `each` with every change that a slot's owners have noted since the last call.
    pub fn take_changes(
        &self,
        slot: u32,
        read: &mut ChangesRead,
        each: impl FnMut(ChangedPlace),
    ) -> ChangesFound {
        read.take(ChangeRing::of(self.slot(slot)), each)
    }

    /// The slots that were ever used.
    pub fn used_slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.counting_slots()
    }

    /// Allocates the blocks of a slot's ring of changes.
    pub(crate) fn allocate_changes(&self, slot: u32) -> Result<(), Error> {
        let start = at::slot_byte(slot) + CHANGES_START as u64 * 8;
        self.backing
            .allocate(start, CHANGES as u64 * 8)
            .map_err(io_error(&self.path, "allocate a ring of changes"))
    }
}
