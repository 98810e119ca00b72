//! The mailbox of a slot: a ring of opaque letters between its owner and the reader of all
//! mailboxes, and their bells.
//!
//! Contract: no letter gets the reply to another letter, and no ring of a bell is lost, at whatever
//! instruction the owner or the reader dies. A record is believed only if its CRC holds.
//!
//! | file | duty |
//! | --- | --- |
//! | `letter` | one letter, as it stands in the ring, and its reply |
//! | `ring` | the owner's side of the ring |
//! | `queue` | the reader's side |
//! | `owner` | the ring and the bell of a handle |
//! | `doorbell` | how the two wake each other |
//! | `shared_bell` | the bell of an owner with several threads |

pub(crate) mod doorbell;
pub(crate) mod letter;
pub(crate) mod queue;
pub(crate) mod ring;

#[cfg(not(loom))]
pub(crate) mod owner;
#[cfg(not(loom))]
pub(crate) mod shared_bell;

#[cfg(not(loom))]
pub use {
    doorbell::{Asking, EventBell, Rest},
    letter::{Letter, Reply},
    owner::Mailbox,
    queue::{LetterQueue, TakenLetter},
    ring::{OwnerBell, Ticket},
    shared_bell::SharedBell,
};
