//! Finds out whether this directory is the newest of all its copies: by the last start of the
//! server that the ledger knows, and by the number of messages about it.
//!
//! Invariant: all that the ledger knows was stored here before it was sent. So a directory
//! that knows less than the ledger is an older copy, and the uses of its leases may have been spent
//! already.
//!
//! Each start draws a number, which becomes `known` once the ledger has it. Until then the leases
//! of the host are unproven: no process spends or changes them.

use frs_base::sync::{AtomicU64, Ordering};
use frs_base::sys;
use frs_store::region::put;
use frs_store::{Error, MailboxLock, Runtime, io_error};

use crate::incarnation::{ClusterId, IncarnationParts, UNPROVEN_BIT, salt_of};

// The words of the extension in runtime.mmap. Older binaries leave all but the first one 0.
/// The last number of a binding to the ledger.
const HOST_SEQ: usize = 0;
/// The start that the ledger knows.
const KNOWN: usize = 1;
/// The start before that one.
const BEFORE: usize = 2;
/// A start that the ledger may know; 0: none.
const NEXT: usize = 3;
/// The number of messages about the known start.
const REPORTS: usize = 4;
const _: () = assert!(REPORTS < Runtime::EXTENSION_WORDS);

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
    pub reports: u64,
    /// The start before that one; a failover may have brought it back.
    pub before: u64,
}

impl Starts {
    /// Whether the ledger may know no start of this host: because this is the first message, or
    /// because it repeats a start and the ledger may have lost it.
    pub fn may_be_missing(&self) -> bool {
        let is_first = self.known == 0 && self.reports == 0;
        is_first || self.next == self.known
    }
}

/// Makes leases unproven: a server starts. Called while no process of it runs.
pub fn begin(runtime: &Runtime) {
    runtime.extension_word().fetch_or(UNPROVEN_BIT, Ordering::Relaxed);
}

/// Whether the ledger has not yet confirmed that this directory is the newest.
pub fn are_leases_unproven(runtime: &Runtime) -> bool {
    salt_of(runtime) & UNPROVEN_BIT != 0
}

/// The words that only the serving courier changes: it holds the lock of the mailboxes, which these
/// words do not outlive.
#[derive(Debug, Clone, Copy)]
pub struct HostWords<'r> {
    runtime: &'r Runtime,
    _courier: &'r MailboxLock,
}

impl<'r> HostWords<'r> {
    /// The words of the host, for the courier with this lock.
    pub fn of(runtime: &'r Runtime, courier: &'r MailboxLock) -> HostWords<'r> {
        HostWords { runtime, _courier: courier }
    }

    /// The next number of a binding of this host, from 1. No number is given out twice, because the
    /// word is in shared memory and outlives a killed courier. Numbers are taken one by one: a
    /// block of numbers would save no disk write. A crash of the machine may lose the word, but
    /// then the new boot id makes the file and the incarnation new.
    pub fn next_seq(self) -> u64 {
        // Relaxed: the numbers only have to differ, also between the two couriers of an upgrade.
        self.word(HOST_SEQ).fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// The next message to the ledger: a new start, or the known one again. A number that was drawn
    /// before and never answered is used again, because the ledger may know it.
    ///
    /// # Errors
    /// If no number can be drawn, or runtime.mmap cannot be looked at.
    pub fn next_start(self, cluster: ClusterId) -> Result<Starts, Error> {
        let (known, before) = (self.load(KNOWN), self.load(BEFORE));
        let mut next = known;
        if are_leases_unproven(self.runtime) {
            if self.load(NEXT) == 0 {
                let drawn = self.draw("draw the number of a start")?;
                self.store(NEXT, drawn.max(1));
            }
            next = self.load(NEXT);
        } else {
            // Stored before it is sent.
            self.store(REPORTS, self.load(REPORTS) + 1);
        }
        let host = self.name_for_starts(cluster)?;
        Ok(Starts { host, next, known, reports: self.load(REPORTS), before })
    }

    /// Notes the ledger's answer: it knows this start, and this directory is the newest. Does
    /// nothing if the incarnation was renewed since the message.
    pub fn prove_leases(self, Starts { next, known, .. }: Starts) {
        if self.load(KNOWN) != known {
            return;
        }
        if known != next {
            // In this order, so that after a death in between the next start has all numbers that
            // the ledger may know.
            self.store(BEFORE, known);
            self.store(KNOWN, next);
            self.store(REPORTS, 0);
        }
        self.store(NEXT, 0);
        self.runtime.extension_word().fetch_and(!UNPROVEN_BIT, Ordering::Release);
    }

    /// Gives the host a new incarnation, after the ledger has called the one with this salt stale,
    /// or has known a later start of it. Several such answers renew it once. Copies of a directory
    /// draw different salts. A crash of the machine changes the incarnation in any case.
    ///
    /// All leases are void then, so no lease is left to prove.
    ///
    /// # Errors
    /// If no salt can be drawn.
    pub fn renew_incarnation(self, stale_salt: u64) -> Result<(), Error> {
        let next = self.draw("draw a salt")? & !UNPROVEN_BIT;
        if salt_of(self.runtime) != stale_salt {
            return Ok(());
        }
        // Before the salt: the ledger knows no start of the new host.
        [KNOWN, BEFORE, NEXT, REPORTS].into_iter().for_each(|word| self.store(word, 0));
        self.runtime.extension_word().store(next, Ordering::Release);
        Ok(())
    }

    fn draw(self, action: &'static str) -> Result<u64, Error> {
        let [drawn] = sys::random().map_err(io_error(self.runtime.path(), action))?;
        Ok(drawn)
    }

    /// The host's name, without lineages: a reload with other groups is no start.
    fn name_for_starts(self, cluster: ClusterId) -> Result<u64, Error> {
        let (boot, runtime) = (self.runtime.boot(), self.runtime.file_facts()?);
        let parts = IncarnationParts { boot, runtime, lineages: Vec::new(), cluster };
        Ok(parts.incarnation(salt_of(self.runtime) & !UNPROVEN_BIT))
    }

    fn word(self, at: usize) -> &'r AtomicU64 {
        &self.runtime.extension_words()[at]
    }

    fn load(self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    fn store(self, at: usize, value: u64) {
        put(self.word(at), value);
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
