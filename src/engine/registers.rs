//! Registers: records of numbers and texts, changed together in one transaction.
//!
//! Invariant: what the work of a transaction has set, removed or made to expire is stored as a
//! whole, or nothing of it is. A register that is absent has no record.

use frs_base::clock::Millis;
use frs_limit::{Register, RegisterValue};

use super::{ItemError, Service};

/// The most registers of one transaction.
pub const MAX_REGISTERS: usize = 16;

/// The most databases of a business of registers.
pub const MAX_DATABASES: u16 = 1024;

/// The registers of one transaction, in the order of their keys. Equal keys are one register: what
/// is set under one of them is there under the others.
pub trait Registers {
    /// The register. `None`: it is absent, or expired at the time of the transaction.
    fn get(&self, nth: usize) -> Option<Register<'_>>;

    /// Sets value and expiry. An expiry of 0 is none; one that is not after the time of the
    /// transaction removes the register.
    ///
    /// # Errors
    /// The text is too long, or the group has no room for another register. Then this register is
    /// as before.
    fn set(
        &mut self,
        nth: usize,
        value: RegisterValue<'_>,
        expires_ms: u64,
    ) -> Result<(), RegisterError>;

    /// Sets the expiry of a register that is there, as [`Registers::set`] does. Nothing happens to
    /// one that is absent.
    fn set_expiry(&mut self, nth: usize, expires_ms: u64);

    /// Removes the register, if it is there.
    fn remove(&mut self, nth: usize);

    /// Notes that the register was used, if it is there: a full group evicts the registers that
    /// were not used for the longest time. What changes a register notes that by itself.
    fn touch(&mut self, nth: usize);
}

/// Why a register was not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The text is longer than `text-bytes` of the business.
    #[error("a text has at most {most} bytes here")]
    TextTooLong {
        /// `text-bytes`.
        most: usize,
    },
    /// The group has no room for another register.
    #[error("no room for another register")]
    Full,
}

impl Service {
    /// Runs `work` on registers of a business, and commits. `biz` is its index in the map, a key is
    /// what the client sent, within a database. `work` may run again if the transaction has to
    /// begin anew.
    ///
    /// # Errors
    /// The business has no registers (`unknown-biz`), a key is not one or there are more than
    /// [`MAX_REGISTERS`] (`bad-key`), or the records are unavailable now (`busy`, `store`). Then
    /// nothing is stored.
    pub fn on_registers<T>(
        &mut self,
        biz: usize,
        database: u16,
        keys: &[&[u8]],
        now: Millis,
        work: impl FnMut(&mut dyn Registers) -> T,
    ) -> Result<T, ItemError> {
        let _ = (biz, database, keys, now, work);
        Err(ItemError::Store)
    }

    /// Calls `each` with keys of registers of a database that are there, from a cursor on, and
    /// returns the cursor to go on from. 0 is the beginning, and the end. Stops behind the chain in
    /// which `count` keys are reached, or after a bounded number of chains, so there may be more
    /// keys or none. A key whose register is there from the beginning to the end is seen at least
    /// once. Keys that are longer than the key fields are stored as digests, and are left out.
    pub fn scan_registers(
        &self,
        biz: usize,
        database: u16,
        cursor: u64,
        count: usize,
        now: Millis,
        each: impl FnMut(&[u8]),
    ) -> u64 {
        let _ = (biz, database, cursor, count, now, each);
        0
    }

    /// How many registers of a database are there. Exact in a group of which a bounded look sees
    /// all; otherwise an estimate from a part of it. Registers whose keys are stored as digests
    /// count for database 0.
    pub fn registers_len(&self, biz: usize, database: u16, now: Millis) -> u64 {
        let _ = (biz, database, now);
        0
    }
}
