//! The name of a need while the core works on it.

use frs_store::Ticket;

/// Names a need by its slot and its entry there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingTicket {
    pub(super) slot: u32,
    pub(super) ticket: Ticket,
}
