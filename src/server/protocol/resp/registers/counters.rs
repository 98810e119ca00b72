//! INCR, DECR, INCRBY and DECRBY.
//!
//! Invariant: a counter keeps its expiry.

use super::{Args, RegisterFault, Verb, Within, number};
use frs_engine::RegisterValue;

/// The number of INCRBY or DECRBY, as it is added.
pub(super) fn read_by(verb: Verb, mut args: Args<'_>) -> Result<i64, RegisterFault<'_>> {
    let by = number(args.next().unwrap_or_default())?;
    match verb {
        Verb::DecrBy => by.checked_neg().ok_or(RegisterFault::DecrementOverflow),
        _ => Ok(by),
    }
}

/// Adds, and returns the sum.
pub(super) fn add(
    within: &mut Within<'_>,
    nth: usize,
    by: i64,
) -> Result<i64, RegisterFault<'static>> {
    let (old, expires_ms) = within.number(nth)?;
    let sum = old.checked_add(by).ok_or(RegisterFault::Overflow)?;
    within.registers.set(nth, RegisterValue::Number(sum), expires_ms)?;
    Ok(sum)
}
