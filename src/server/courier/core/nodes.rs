//! The nodes of a host, as the courier sees them, and the ledgers that their limits have.
//!
//! Invariant: [`Nodes::with_leases`] commits on `Ok` and stores nothing on `Err`.

use std::fmt::Debug;
use std::hash::Hash;

use frs_limit::lease::{Appetite, Holding, Incarnation, Settings};

use crate::courier::name::{self, KeyDigest, LedgerName};

/// The ledger of one limit for one key. All hosts have one order of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LedgerId {
    /// The id of the biz.
    pub biz: u32,
    /// The key.
    pub key: KeyDigest,
    /// The number of the limit in its biz, from 1.
    pub limit: u32,
    /// The shape of the limit.
    pub shape: u16,
    /// The reset epoch of the biz.
    pub epoch: u64,
}

impl LedgerId {
    /// Its name in a cluster.
    pub fn name(&self, cluster: &str) -> String {
        let LedgerId { biz, key, limit, shape, epoch } = *self;
        LedgerName { cluster, biz: biz.into(), key, limit, shape, epoch }.to_string()
    }

    /// Its slot in a cluster of this name.
    pub fn slot(&self, cluster: &str) -> u16 {
        name::slot(self.name(cluster).as_bytes())
    }
}

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
    pub appetite: Appetite,
    /// What its node holds.
    pub holding: Holding,
}

/// Why no node can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unserved {
    /// There is no place for it.
    Full,
    /// The configuration has no such key any more, or the store cannot be used now.
    Unknown,
}

/// The nodes of a host.
pub trait Nodes {
    /// A biz and a key, as an item names them.
    type Key: Clone + Ord + Hash + Debug;
    /// Names a want to be finished.
    type Ticket: Copy + Debug + PartialEq;

    /// Runs `work` in one transaction over the shared limits of an item. What it changes of the
    /// holdings is stored. It may run again if the transaction has to begin anew.
    ///
    /// # Errors
    /// There is no such item, or no room for its node.
    fn with_leases<T>(
        &mut self,
        key: &Self::Key,
        now: Now,
        work: impl FnMut(&mut [Leased]) -> T,
    ) -> Result<T, Unserved>;

    /// The next number of the host's counter.
    fn next_seq(&mut self) -> u64;

    /// Who the host is.
    fn incarnation(&self) -> Incarnation;

    /// The host's directory is a copy: from now on it is another host.
    fn renew_incarnation(&mut self);
}
