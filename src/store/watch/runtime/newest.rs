//! Finds out whether this directory is the newest of all its copies: by the last start of the
//! server that the ledger knows, and by the number of messages about it.
//!
//! Invariant: every fact that the ledger knows was stored here before it was sent. So a directory
//! that knows less than the ledger is an older copy, and the uses of its leases may have been spent
//! already.
//!
//! Each start draws a number, which becomes `known` once the ledger has it. Until then the leases
//! of the host are unproven: no process spends or changes them.

use frs_base::sync::Ordering;
use frs_base::sys;

use super::{CourierLock, Runtime};
use crate::error::{Error, io_error};
use crate::file::layout::runtime as at;
use crate::watch::incarnation::{ClusterId, HostFacts};

/// The message to the ledger about a start, with the starts that the ledger may know already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Starts {
    /// The name of the host. It changes with the salt of its incarnation, and with runtime.mmap.
    pub host: u64,
    /// The start that the ledger is to know from now on.
    pub next: u64,
    /// The last start that the ledger is known to have. If it equals `next`, the message repeats
    /// it.
    pub known: u64,
    /// The number of messages about that start.
    pub told: u64,
    /// The start before that one; a failover may have brought it back.
    pub before: u64,
}

impl Starts {
    /// Whether the ledger may know no start of this host: because this is the first message, or
    /// because it repeats a start and the ledger may have lost it.
    pub fn may_be_missing(&self) -> bool {
        let is_first = self.known == 0 && self.told == 0;
        is_first || self.next == self.known
    }
}

impl Runtime {
    /// Makes leases unproven. Called when the server starts while no process of it runs.
    pub fn doubt_leases(&self) {
        self.region.word(at::INCARNATION_SALT).fetch_or(at::UNPROVEN_BIT, Ordering::Relaxed);
    }

    /// Whether the ledger has not yet confirmed that this directory is the newest.
    pub fn are_leases_unproven(&self) -> bool {
        self.incarnation_salt() & at::UNPROVEN_BIT != 0
    }

    /// The next message to the ledger: a new start, or the known one again. A number that was drawn
    /// before and never answered is used again, because the ledger may know it.
    ///
    /// # Errors
    /// If no number can be drawn, or runtime.mmap cannot be looked at.
    pub fn next_start(&self, _courier: &CourierLock, cluster: ClusterId) -> Result<Starts, Error> {
        let load = |word| self.region.load(word);
        let (known, before) = (load(at::START_KNOWN), load(at::START_BEFORE));
        let mut next = known;
        if self.are_leases_unproven() {
            if load(at::START_NEXT) == 0 {
                let drawn = self.draw("draw the number of a start")?;
                self.region.store(at::START_NEXT, drawn.max(1));
            }
            next = load(at::START_NEXT);
        } else {
            // Stored before it is sent.
            self.region.store(at::START_TOLD, load(at::START_TOLD) + 1);
        }
        let host = self.name_for_starts(cluster)?;
        Ok(Starts { host, next, known, told: load(at::START_TOLD), before })
    }

    /// Notes the ledger's answer: it knows this start, and this directory is the newest. Does
    /// nothing if the incarnation was renewed since the message.
    pub fn prove_leases(&self, _courier: &CourierLock, Starts { next, known, .. }: Starts) {
        if self.region.load(at::START_KNOWN) != known {
            return;
        }
        if known != next {
            // In this order, so that after a death in between the next start has all numbers that
            // the ledger may know.
            self.region.store(at::START_BEFORE, known);
            self.region.store(at::START_KNOWN, next);
            self.region.store(at::START_TOLD, 0);
        }
        self.region.store(at::START_NEXT, 0);
        self.region.word(at::INCARNATION_SALT).fetch_and(!at::UNPROVEN_BIT, Ordering::Release);
    }

    /// Gives the host a new incarnation, after the ledger has called the one with this salt stale,
    /// or has known a later start of it. Several such answers renew it once. Copies of a directory
    /// draw different salts. A crash of the machine changes the incarnation in any case.
    ///
    /// All leases are void then, so no lease is left to prove.
    ///
    /// # Errors
    /// If no salt can be drawn.
    pub fn renew_incarnation(&self, _courier: &CourierLock, stale_salt: u64) -> Result<(), Error> {
        let next = self.draw("draw a salt")? & !at::UNPROVEN_BIT;
        if self.incarnation_salt() != stale_salt {
            return Ok(());
        }
        // Before the salt: the ledger knows no start of the new host.
        for word in [at::START_KNOWN, at::START_BEFORE, at::START_NEXT, at::START_TOLD] {
            self.region.store(word, 0);
        }
        self.region.word(at::INCARNATION_SALT).store(next, Ordering::Release);
        Ok(())
    }

    pub(super) fn draw(&self, what: &'static str) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        sys::random(&mut bytes).map_err(io_error(&self.path, what))?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The host's name, without lineages: a reload with other groups is no start.
    fn name_for_starts(&self, cluster: ClusterId) -> Result<u64, Error> {
        let (boot, runtime) = (self.boot(), self.file_facts()?);
        let facts = HostFacts { boot, runtime, lineages: Vec::new(), cluster };
        Ok(facts.incarnation(self.incarnation_salt() & !at::UNPROVEN_BIT))
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
