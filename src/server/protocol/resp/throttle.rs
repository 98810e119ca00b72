//! `CL.THROTTLE`, as redis-cell answers it (Brandur Leach, "Rate Limiting, Cells, and GCRA", 2015),
//! on a limit that takes its rate from the call.
//!
//! Invariant: all arithmetic holds: burst and rate are within the bounds of a `gcra`, and figures
//! in seconds are rounded as redis-cell rounds them.

use super::{Args, CommandError};
use crate::protocol::Pen;
use frs_conf::MAX_GCRA_NS;
use frs_engine::{CallNumbers, CallRate, Command, Item, ItemOptions, Request, Verdict};

const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;
/// The most that an item charges.
const MAX_QUANTITY: u64 = i32::MAX as u64;
/// What an integer of RESP holds, and one less, because the burst is one more.
const MAX_BURST: u64 = i64::MAX as u64 - 1;
const MAX_NUMBER: u64 = i64::MAX as u64;

/// Reads the arguments into `request`, which is emptied first, for the business `biz`.
pub fn read_throttle<'a>(
    mut args: Args<'a>,
    biz: Option<&str>,
    request: &mut Request,
) -> Result<(), CommandError<'a>> {
    request.begin(Command::Update);
    let biz = biz.ok_or(CommandError::NoThrottle)?;
    let key = args.next().and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
    let max_burst = number(args.next(), "max_burst", 0, MAX_BURST)?;
    let count = number(args.next(), "count_per_period", 1, MAX_NUMBER)?;
    // A longer one does not fit into nanoseconds of 64 bits.
    let period = number(args.next(), "period", 1, u64::MAX / SECOND_NS)? * SECOND_NS;
    let quantity = match args.next() {
        None => 1,
        quantity => number(quantity, "quantity", 0, MAX_QUANTITY)?,
    };
    let burst = max_burst + 1;
    let emission = period / count;
    if emission == 0 {
        return Err(CommandError::TooFast);
    }
    if u128::from(emission) * u128::from(burst) > MAX_GCRA_NS.into() {
        return Err(CommandError::TooLarge);
    }
    let charged = i32::try_from(quantity).ok();
    request.push(biz, key, ItemOptions { count: charged, ..ItemOptions::ONE });
    request.bring_rate(CallRate::per(count, period), burst);
    Ok(())
}

fn number<'a>(
    argument: Option<&'a [u8]>,
    name: &'static str,
    least: u64,
    most: u64,
) -> Result<u64, CommandError<'a>> {
    let text = argument.filter(|text| !text.is_empty() && text.iter().all(u8::is_ascii_digit));
    let number = text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or(CommandError::ThrottleNumber { name, least, most })
}

/// The five figures of the answer: limited, limit, remaining, retry and reset in seconds.
fn figures(numbers: Option<CallNumbers<'_>>, item: &Item, verdict: &Verdict) -> [i64; 5] {
    // What is judged has a pace: a rate without one is answered as an error.
    let pace = numbers.and_then(CallNumbers::pace);
    let (emission, capacity, burst) =
        pace.map_or((1, 0, 0), |pace| (pace.emission(), pace.capacity(), pace.burst()));
    let quantity = item.count.unwrap_or(0).unsigned_abs();
    let (level, capacity) = (u128::from(verdict.level_ns), u128::from(capacity));
    let cost = u128::from(emission) * u128::from(quantity);
    let remaining = capacity.saturating_sub(level) / u128::from(emission);
    let waits = verdict.limited && verdict.limit != 0 && cost <= capacity;
    let by_level = if waits { seconds((level + cost).saturating_sub(capacity)) } else { -1 };
    let retry = if verdict.banned { banned_seconds(verdict) } else { by_level };
    let remaining = i64::try_from(remaining).unwrap_or(i64::MAX);
    [verdict.limited.into(), burst.cast_signed(), remaining, retry, seconds(level)]
}

/// Seconds until a banned key may be asked again, rounded up; -1: never.
#[cold]
fn banned_seconds(verdict: &Verdict) -> i64 {
    verdict.retry_ms.map_or(-1, |ms| i64::try_from(ms.div_ceil(1000)).unwrap_or(i64::MAX))
}

/// Whole seconds. A millisecond more counts as another one.
fn seconds(ns: u128) -> i64 {
    let (whole, rest) = (ns / u128::from(SECOND_NS), ns % u128::from(SECOND_NS));
    let whole = i64::try_from(whole).unwrap_or(i64::MAX);
    whole.saturating_add((rest >= u128::from(MILLISECOND_NS)).into())
}

impl Pen<'_> {
    /// The answer of `CL.THROTTLE` to an item that was judged.
    #[inline(never)]
    pub(super) fn throttled(&mut self, request: &Request, item: &Item, verdict: &Verdict) {
        self.text(b"*5\r\n");
        for figure in figures(request.numbers(item), item, verdict) {
            self.text(if figure < 0 { b":-" } else { b":" });
            self.number(figure.unsigned_abs());
            self.text(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests;
