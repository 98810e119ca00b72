//! The nodes of a host, as the courier sees them, and the ledgers of their limits.
//!
//! Invariant: [`Nodes::with_leases`] stores the changes of a transaction when it returns `Ok`, and
//! stores nothing when it returns an error.

use std::fmt::Debug;
use std::hash::Hash;

use frs_engine::NeedEnd;

use crate::lease::{Holding, Incarnation, RequestSize, Settings};
use crate::name::LedgerId;

/// The time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// CLOCK_BOOTTIME.
    pub boot_ms: u64,
    /// The time of the ledgers' servers: it decides which calendar windows a message names.
    pub ledger_ms: u64,
}

/// One shared limit of an item in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leased {
    /// Its ledger.
    pub ledger: LedgerId,
    /// Its settings, a calendar limit's by the time of the ledgers' servers.
    pub settings: Settings,
    /// How much to ask for.
    pub request_size: RequestSize,
    /// The state of its node.
    pub holding: Holding,
}

impl Leased {
    /// Whether the limit refuses nothing.
    pub fn is_tally(&self) -> bool {
        self.request_size == RequestSize::Zero
    }
}

/// The nodes of a host.
pub trait Nodes {
    /// A biz and a key, as an item names them.
    type Key: Clone + Ord + Hash + Debug;
    /// Names a need that waits to be finished.
    type Ticket: Copy + Debug + PartialEq;

    /// Runs `work` in one transaction over the shared limits of an item, and stores its changes to
    /// the holdings. `work` may run again if the transaction has to start again.
    ///
    /// # Errors
    /// How the needs of the item end: there is no room for its node, or the configuration no longer
    /// has such a key, or the store cannot be used now.
    fn with_leases<T>(
        &mut self,
        key: &Self::Key,
        now: Now,
        work: impl FnMut(&mut [Leased]) -> T,
    ) -> Result<T, NeedEnd>;

    /// Takes the next seq of the host.
    fn next_seq(&mut self) -> u64;

    /// The incarnation of the host.
    fn incarnation(&self) -> Incarnation;

    /// Gives the host another incarnation, because its directory is a copy.
    fn renew_incarnation(&mut self);
}
