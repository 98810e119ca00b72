//! Whether this directory is the newest of all copies of it: which start of the server the ledger
//! knows last, and how often it has been told since.
//!
//! Invariant: what the ledger knows was stored here before it was sent. So a directory that knows
//! less than the ledger is an older copy, and what its leases allow may have been spent already.
//!
//! A start draws a number, and is told as `known` once the ledger has it. While it is not, the
//! leases of the host are unproven: nobody spends them, and nobody changes them.

use frs_base::sync::Ordering;
use frs_base::sys;

use super::{CourierLock, Runtime};
use crate::error::{Error, io_error};
use crate::file::layout::runtime as at;
use crate::watch::incarnation::{ClusterId, HostFacts};

/// What the ledger is told of a start, and what it may know already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Starts {
    /// Names the host: it changes with the salt of its incarnation, and with runtime.mmap.
    pub host: u64,
    /// The start that the ledger is to know from now on.
    pub next: u64,
    /// The last one that it is known to know. Equal to `next`: it is told once more.
    pub known: u64,
    /// How often it was told of that one.
    pub told: u64,
    /// The one before, which a failover may have brought back.
    pub before: u64,
}

impl Starts {
    /// Whether the ledger may know of no start of this host: it is asked for the first time, or is
    /// told once more and has lost what it knew.
    pub fn may_be_missing(&self) -> bool {
        let is_first = self.known == 0 && self.told == 0;
        is_first || self.next == self.known
    }
}

impl Runtime {
    /// The server starts, and none of its processes was there before.
    pub fn doubt_leases(&self) {
        self.region.word(at::INCARNATION_SALT).fetch_or(at::UNPROVEN_BIT, Ordering::Relaxed);
    }

    /// Whether the ledger has yet to say that this directory is the newest.
    pub fn are_leases_unproven(&self) -> bool {
        self.incarnation_salt() & at::UNPROVEN_BIT != 0
    }

    /// What the ledger is to be asked, or told once more, now. A number that was drawn before and
    /// never answered is drawn no more: the ledger may know it.
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

    /// The ledger knows this start now, and this directory is the newest. Nothing is done where the
    /// incarnation was renewed since it was asked.
    pub fn prove_leases(&self, _courier: &CourierLock, Starts { next, known, .. }: Starts) {
        if self.region.load(at::START_KNOWN) != known {
            return;
        }
        if known != next {
            // In this order: killed in between, the next start has all numbers that may be known.
            self.region.store(at::START_BEFORE, known);
            self.region.store(at::START_KNOWN, next);
            self.region.store(at::START_TOLD, 0);
        }
        self.region.store(at::START_NEXT, 0);
        self.region.word(at::INCARNATION_SALT).fetch_and(!at::UNPROVEN_BIT, Ordering::Release);
    }

    /// Gives the host another incarnation, after the ledger has called the one with this salt
    /// stale, or has known a later start of it. Many such answers renew it once. Copies of a
    /// directory draw different salts. A crash of the machine is another incarnation anyway.
    ///
    /// All leases are void then, and nothing is left to be proven.
    ///
    /// # Errors
    /// If no salt can be drawn.
    pub fn renew_incarnation(&self, _courier: &CourierLock, stale_salt: u64) -> Result<(), Error> {
        let next = self.draw("draw a salt")? & !at::UNPROVEN_BIT;
        if self.incarnation_salt() != stale_salt {
            return Ok(());
        }
        // Before the salt: the ledger knows nothing of a host that is new.
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

    /// Other groups change nothing of it: a reload is no start.
    fn name_for_starts(&self, cluster: ClusterId) -> Result<u64, Error> {
        let (boot, runtime) = (self.boot(), self.file_facts()?);
        let facts = HostFacts { boot, runtime, lineages: Vec::new(), cluster };
        Ok(facts.incarnation(self.incarnation_salt() & !at::UNPROVEN_BIT))
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
