//! The mailbox of a slot: a ring of wants between its owner and the courier, and their bells.
//!
//! Contract: no want gets the answer of another want, and no ring is lost, at whatever instruction
//! the owner or the courier dies. A record is believed only if its CRC holds.
//!
//! | file | duty |
//! | --- | --- |
//! | `want` | one want, as it stands in the ring |
//! | `ring` | the owner's side of the ring |
//! | `queue` | the courier's side |
//! | `wants` | the ring and the bell of a handle |
//! | `doorbell` | how the two wake each other |
//! | `shared_bell` | the bell of an owner with several threads |

pub(crate) mod doorbell;
pub(crate) mod queue;
pub(crate) mod ring;
pub(crate) mod want;

#[cfg(not(loom))]
pub(crate) mod shared_bell;
#[cfg(not(loom))]
pub(crate) mod wants;

#[cfg(not(loom))]
pub use {
    doorbell::{Asking, EventBell, Rest},
    queue::{TakenWant, WantQueue},
    ring::{OwnerBell, Ticket},
    shared_bell::SharedBell,
    want::{Want, WantKind, WantResult, WantedTogether},
    wants::Wants,
};
