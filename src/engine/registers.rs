//! Registers: records of numbers and texts, changed together in one transaction.
//!
//! Invariant: what the work of a transaction has set, removed or made to expire is stored as a
//! whole, or nothing of it is. A register that is absent has no record.

mod ahead;
mod database;
mod scan;
mod transaction;
mod working;

use frs_base::clock::Millis;
use frs_limit::{Register, RegisterValue};
use frs_store::{BizRow, Refused};

use super::{ItemError, Outcome, RETRIES, Service};
use transaction::{Attempted, Failed};

pub use ahead::EXPECTED_REGISTERS;
use database::{database_of, stored_key};
pub use frs_conf::MAX_REGISTERS;
pub use scan::RegisterScan;
pub(super) use transaction::RegisterBuffers;

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
        mut work: impl FnMut(&mut dyn Registers) -> T,
    ) -> Result<T, ItemError> {
        self.set_now(now);
        let has_registers = |biz: &usize| {
            self.table.get(*biz).is_some_and(|entry| entry.rules.register().is_some())
        };
        let result = match Some(biz).filter(has_registers) {
            Some(biz) if keys.len() <= MAX_REGISTERS => {
                self.last_row = self.table.entry(biz).row;
                self.try_registers(biz, database, keys, now, &mut work)
            }
            Some(_) => Err(ItemError::BadKey),
            None => {
                self.last_row = BizRow::UNKNOWN;
                Err(ItemError::UnknownBiz)
            }
        };
        self.count_registers(&result);
        result.map(|done| done.result)
    }

    fn try_registers<T>(
        &mut self,
        mut biz: usize,
        database: u16,
        keys: &[&[u8]],
        now: Millis,
        work: &mut impl FnMut(&mut dyn Registers) -> T,
    ) -> Result<Attempted<T>, ItemError> {
        let id = self.table.entry(biz).id;
        for _ in 0..RETRIES {
            match self.attempt_registers(biz, database, keys, now, work) {
                Ok(done) => return Ok(done),
                Err(Failed::Item(error)) => return Err(error),
                Err(Failed::Refused(Refused::Newer)) if self.take_newer() => {
                    self.set_now(now);
                    let known = self.table.index_of(id);
                    let has = |&at: &usize| self.table.entry(at).rules.register().is_some();
                    biz = known.filter(has).ok_or(ItemError::UnknownBiz)?;
                }
                Err(Failed::Refused(Refused::Busy)) => return Err(ItemError::Busy),
                Err(Failed::Refused(Refused::Newer | Refused::Unavailable)) => {
                    return Err(ItemError::Store);
                }
            }
        }
        Err(ItemError::Busy)
    }

    /// Counts a transaction as an item of its business: an Update if it changed a register, else a
    /// Query.
    fn count_registers<T>(&mut self, result: &Result<Attempted<T>, ItemError>) {
        let Some(counters) = self.handle.counters() else { return };
        let (is_update, outcome) = match result {
            Ok(done) if done.was_full => {
                counters.count_item_error(ItemError::Full as usize);
                (true, Outcome::Error)
            }
            Ok(done) => (done.is_changed, Outcome::Allowed),
            Err(error) => {
                counters.count_item_error(*error as usize);
                (false, Outcome::Error)
            }
        };
        counters.count_item(self.last_row, is_update, outcome as usize);
        self.last_outcome = outcome;
    }
}
