//! Which slots an attachment may take, in which order it tries them, and which slots get their
//! blocks in advance.
//!
//! Invariant: programs take only the last slots, at most `max-programs` of them. So the server's
//! own processes always find a slot, and on a full disk a slot that has its blocks.

use std::ops::Range;
use std::path::Path;

use frs_conf::Srv;

use super::slot::SlotState;
use crate::error::Error;
use crate::file::layout::runtime::SLOTS;

/// The role of an attached program, in its slot.
pub const ROLE_PROGRAM: u32 = 3;

/// The role of the preparing process, in its slot.
pub const ROLE_PREPARE: u32 = 0;

/// How the slots are divided between the server's processes and programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Slots that the server's processes need at once.
    needed: u32,
    /// The first slots, kept for these processes, with their blocks.
    reserved: u32,
    /// The last slots, for programs.
    programs: u32,
}

/// The request of an attachment.
#[derive(Debug, Clone, Copy)]
pub struct SlotRequest<'p> {
    /// The role that it attaches with.
    pub role: u32,
    /// The slots for this role.
    pub places: &'p Places,
}

impl Places {
    /// Any slot for any role.
    pub(crate) const ALL: Places = Places { needed: 1, reserved: 1, programs: SLOTS as u32 };

    /// The places of a configuration.
    pub fn of(srv: &Srv) -> Places {
        Places {
            needed: srv.needed_slots().into(),
            reserved: srv.reserved_slots().into(),
            programs: srv.data.max_programs.into(),
        }
    }

    fn of_programs(&self) -> Range<u32> {
        let all = SLOTS as u32;
        all.saturating_sub(self.programs)..all
    }

    /// The slots that `role` may take, in the order to try them. Slots that have their blocks come
    /// first; the slot of a dead owner costs a recovery. The server takes the slots of programs
    /// last.
    pub(crate) fn order(&self, role: u32, state: impl Fn(u32) -> SlotState) -> Vec<u32> {
        let programs = self.of_programs();
        let places = if role == ROLE_PROGRAM { programs.clone() } else { 0..SLOTS as u32 };
        let mut order: Vec<u32> = places.collect();
        order.sort_by_cached_key(|&slot| {
            let cost = match state(slot) {
                SlotState { used: true, .. } => 1,
                SlotState { epoch: 0, .. } if slot >= self.reserved => 2,
                SlotState { .. } => 0,
            };
            (role != ROLE_PROGRAM && programs.contains(&slot), cost, slot)
        });
        order
    }

    /// The slots whose blocks are allocated in advance, in order: the first of those open to the
    /// server's processes.
    ///
    /// # Errors
    /// If there are fewer slots than the processes need at once.
    pub(crate) fn reserved(
        &self,
        open: impl Iterator<Item = u32>,
        runtime: &Path,
    ) -> Result<Vec<u32>, Error> {
        let reserved: Vec<u32> = open.take(self.reserved as usize).collect();
        if reserved.len() < self.needed as usize {
            return Err(self.exhausted(ROLE_PREPARE, runtime));
        }
        Ok(reserved)
    }

    /// The error when a role finds no slot: all slots that it may take are in use.
    pub(crate) fn exhausted(&self, role: u32, runtime: &Path) -> Error {
        let path = runtime.to_path_buf();
        if role == ROLE_PROGRAM {
            return Error::Programs { path, most: self.programs };
        }
        Error::Exhausted { path, what: "slots", limit: SLOTS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: SlotState = SlotState { used: false, epoch: 0 };
    const FREE: SlotState = SlotState { used: false, epoch: 7 };
    const USED: SlotState = SlotState { used: true, epoch: 7 };

    #[test]
    fn programs_take_the_last_slots_and_the_server_takes_these_last() {
        let places = Places { needed: 4, reserved: 8, programs: 100 };
        let states = |slot: u32| match slot {
            1 | 200 => FREE,
            0 | 2 | 201 => USED,
            _ => FRESH,
        };
        let server = places.order(1, states);
        assert_eq!(server.len(), SLOTS);
        assert_eq!(server[..10], [1, 3, 4, 5, 6, 7, 0, 2, 8, 9], "with blocks, dead, without");
        assert_eq!(server[155..159], [155, 200, 201, 156], "the programs' come last");
        let programs = places.order(ROLE_PROGRAM, states);
        assert_eq!(programs.len(), 100);
        assert_eq!(programs[..3], [200, 201, 156]);
        assert!(programs.iter().all(|slot| (156..256).contains(slot)));
    }

    #[test]
    fn without_places_no_program_attaches_and_the_server_has_all() {
        let places = Places { needed: 203, reserved: 203, programs: 0 };
        assert_eq!(places.order(ROLE_PROGRAM, |_| FRESH), [0; 0]);
        assert_eq!(places.order(1, |_| FRESH).len(), SLOTS);
    }
}
