//! INCREX, as Redis 8.8 defines it (`redis/docs`, commands/increx.md), of whole numbers.
//!
//! Invariant: a result out of bounds changes nothing, neither value nor expiry, unless SATURATE is
//! said. Then it is the bound, and the reply says what was added.

use super::expiry::{Clause, clause};
use super::{Args, RegisterFault, Within, number};
use frs_engine::RegisterValue;

/// INCREX.
#[derive(Debug, Clone, Copy)]
pub(super) struct Increx<'a> {
    by: i64,
    least: i64,
    most: i64,
    saturates: bool,
    expiry: Option<Clause<'a>>,
    /// The time is set only where there is none.
    only_new: bool,
}

impl<'a> Increx<'a> {
    /// The options. Each stands at most once.
    pub fn read(mut args: Args<'a>) -> Result<Increx<'a>, RegisterFault<'a>> {
        let (mut by, mut least, mut most) = (None, None, None);
        let (mut saturates, mut only_new, mut expiry) = (false, false, None);
        let mut is_other = None;
        while let Some(option) = args.next() {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            let mut value = || args.next().ok_or(RegisterFault::Syntax);
            if is("BYINT") && by.is_none() {
                by = Some(value()?);
            } else if is("LBOUND") && least.is_none() {
                least = Some(value()?);
            } else if is("UBOUND") && most.is_none() {
                most = Some(value()?);
            } else if is("BYFLOAT") && by.is_none() {
                by = Some(value()?);
                is_other = Some(RegisterFault::IncrexFloat);
            } else if is("NX") || is("XX") {
                is_other = Some(RegisterFault::IncrexCondition);
            } else if is("SATURATE") && !saturates {
                saturates = true;
            } else if is("ENX") && !only_new && !matches!(expiry, Some(Clause::Persist)) {
                only_new = true;
            } else if is("PERSIST") && expiry.is_none() && !only_new {
                expiry = Some(Clause::Persist);
            } else if expiry.is_none() {
                expiry = Some(clause("increx", option, None, &mut args)?);
            } else {
                return Err(RegisterFault::Syntax);
            }
        }
        if let Some(fault) = is_other {
            return Err(fault);
        }
        if only_new && expiry.is_none() {
            return Err(RegisterFault::EnxAlone);
        }
        let named = |text: Option<&[u8]>, name: &'static str, otherwise: i64| {
            let number = text.map_or(Ok(otherwise), number);
            number.map_err(|_| RegisterFault::IncrexNumber(name))
        };
        let by = named(by, "Increment", 1)?;
        let least = named(least, "LBOUND", i64::MIN)?;
        let most = named(most, "UBOUND", i64::MAX)?;
        if least > most {
            return Err(RegisterFault::Bounds);
        }
        Ok(Increx { by, least, most, saturates, expiry, only_new })
    }

    /// Returns the value after it, and what was added.
    pub fn run(
        &self,
        within: &mut Within<'_>,
        nth: usize,
    ) -> Result<[i64; 2], RegisterFault<'static>> {
        let given = self.expiry.map(|clause| clause.resolve(within.now_ms)).transpose()?;
        let (old, old_expires_ms) = within.number(nth)?;
        let sum = i128::from(old) + i128::from(self.by);
        let bounded = sum.clamp(self.least.into(), self.most.into());
        if bounded != sum && !self.saturates {
            return Ok([old, 0]);
        }
        let applied = bounded - i128::from(old);
        let applied = i64::try_from(applied).map_err(|_| RegisterFault::AppliedOverflow)?;
        let value = old + applied;
        let given = given.filter(|_| !(self.only_new && old_expires_ms != 0));
        let expires_ms = given.unwrap_or(old_expires_ms);
        within.registers.set(nth, RegisterValue::Number(value), expires_ms)?;
        Ok([value, applied])
    }
}
