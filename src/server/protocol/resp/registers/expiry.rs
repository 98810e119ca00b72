//! EXPIRE, TTL and their kin, and the times of other commands.
//!
//! Invariant: an expiry is 0 (none) or in the range of an `i64`. A register whose time has come is
//! gone, also if the time is before the epoch.

use super::{Args, RegisterFault, Verb, Within, Writer, number};

const SECOND_MS: i64 = 1000;

/// An option of SET, GETEX or INCREX that gives a time, or takes it away.
#[derive(Debug, Clone, Copy)]
pub(super) enum Clause<'a> {
    /// EX, PX, EXAT or PXAT.
    At(Time<'a>),
    /// PERSIST.
    Persist,
}

/// A time as a client gives it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time<'a> {
    /// The command, as errors call it.
    command: &'static str,
    unit: Unit,
    is_absolute: bool,
    text: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
}

/// Reads EX, PX, EXAT or PXAT and its value. The same option may be given again where it is not
/// forbidden: the last one counts. `before` is the one that was given.
pub(super) fn clause<'a>(
    command: &'static str,
    option: &[u8],
    before: Option<Clause<'a>>,
    args: &mut Args<'a>,
) -> Result<Clause<'a>, RegisterFault<'a>> {
    let kinds = [
        ("EX", Unit::Seconds, false),
        ("PX", Unit::Milliseconds, false),
        ("EXAT", Unit::Seconds, true),
        ("PXAT", Unit::Milliseconds, true),
    ];
    let is_it = |(word, ..): &&(&str, Unit, bool)| option.eq_ignore_ascii_case(word.as_bytes());
    let &(_, unit, is_absolute) = kinds.iter().find(is_it).ok_or(RegisterFault::Syntax)?;
    let is_same = match before {
        None => true,
        Some(Clause::At(time)) => (time.unit, time.is_absolute) == (unit, is_absolute),
        Some(Clause::Persist) => false,
    };
    let text = args.next().filter(|_| is_same).ok_or(RegisterFault::Syntax)?;
    Ok(Clause::At(Time { command, unit, is_absolute, text }))
}

impl<'a> Clause<'a> {
    /// A number of seconds from now.
    pub fn seconds(command: &'static str, text: &'a [u8]) -> Clause<'a> {
        Clause::At(Time { command, unit: Unit::Seconds, is_absolute: false, text })
    }

    /// A number of milliseconds from now.
    pub fn milliseconds(command: &'static str, text: &'a [u8]) -> Clause<'a> {
        Clause::At(Time { command, unit: Unit::Milliseconds, is_absolute: false, text })
    }

    /// The expiry. 0: none.
    pub fn resolve(self, now_ms: u64) -> Result<u64, RegisterFault<'static>> {
        let Clause::At(Time { command, unit, is_absolute, text }) = self else { return Ok(0) };
        let given = number(text)?;
        let base = if is_absolute { 0 } else { milliseconds(now_ms) };
        let ms = match unit {
            Unit::Seconds => given.checked_mul(SECOND_MS),
            Unit::Milliseconds => Some(given),
        };
        let at = ms.filter(|&ms| ms > 0).and_then(|ms| ms.checked_add(base));
        at.map(i64::cast_unsigned).ok_or(RegisterFault::ExpireTime(command))
    }
}

/// A time of the clock as Redis counts it.
fn milliseconds(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expire {
    command: &'static str,
    unit: Unit,
    is_absolute: bool,
    given: i64,
    conditions: Conditions,
}

/// When EXPIRE sets the time.
#[derive(Debug, Clone, Copy, Default)]
struct Conditions {
    /// NX: there is none.
    absent: bool,
    /// XX: there is one.
    there: bool,
    /// GT: the new one is later.
    later: bool,
    /// LT: the new one is earlier.
    earlier: bool,
}

impl Conditions {
    fn read(args: Args<'_>) -> Result<Conditions, RegisterFault<'_>> {
        let mut found = Conditions::default();
        for option in args {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            let flag = if is("NX") {
                &mut found.absent
            } else if is("XX") {
                &mut found.there
            } else if is("GT") {
                &mut found.later
            } else if is("LT") {
                &mut found.earlier
            } else {
                return Err(RegisterFault::ExpireOption(option));
            };
            *flag = true;
        }
        if found.absent && (found.there || found.later || found.earlier) {
            return Err(RegisterFault::NxWithOther);
        }
        if found.later && found.earlier {
            return Err(RegisterFault::GtWithLt);
        }
        Ok(found)
    }

    /// Whether a register that expires at `old_ms`, 0: never, is to expire at `new_ms`.
    fn are_met(self, old_ms: u64, new_ms: i64) -> bool {
        let old = (old_ms != 0).then(|| milliseconds(old_ms));
        let is_later = old.is_some_and(|old| new_ms > old);
        let is_earlier = old.is_none_or(|old| new_ms < old);
        (!self.absent || old.is_none())
            && (!self.there || old.is_some())
            && (!self.later || is_later)
            && (!self.earlier || is_earlier)
    }
}

impl Expire {
    pub fn read(verb: Verb, mut args: Args<'_>) -> Result<Expire, RegisterFault<'_>> {
        let (command, unit, is_absolute) = match verb {
            Verb::Expire => ("expire", Unit::Seconds, false),
            Verb::PExpire => ("pexpire", Unit::Milliseconds, false),
            Verb::ExpireAt => ("expireat", Unit::Seconds, true),
            _ => ("pexpireat", Unit::Milliseconds, true),
        };
        let text = args.next().unwrap_or_default();
        let conditions = Conditions::read(args)?;
        let given = number(text)?;
        Ok(Expire { command, unit, is_absolute, given, conditions })
    }

    /// Returns whether it has set the time.
    pub fn run(&self, within: &mut Within<'_>, nth: usize) -> Result<bool, RegisterFault<'static>> {
        let base = if self.is_absolute { 0 } else { milliseconds(within.now_ms) };
        let ms = match self.unit {
            Unit::Seconds => self.given.checked_mul(SECOND_MS),
            Unit::Milliseconds => Some(self.given),
        };
        let at = ms.and_then(|ms| ms.checked_add(base));
        let at = at.ok_or(RegisterFault::ExpireTime(self.command))?;
        let old_ms = within.get(nth).map(|register| register.expires_ms);
        let is_set = old_ms.is_some_and(|old_ms| self.conditions.are_met(old_ms, at));
        if is_set {
            if at <= milliseconds(within.now_ms) {
                within.registers.remove(nth);
            } else {
                within.registers.set_expiry(nth, at.cast_unsigned());
            }
        }
        Ok(is_set)
    }
}

/// TTL, PTTL, EXPIRETIME and PEXPIRETIME.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    unit: Unit,
    is_absolute: bool,
}

impl Left {
    pub fn of(verb: Verb) -> Left {
        let unit = match verb {
            Verb::Ttl | Verb::ExpireTime => Unit::Seconds,
            _ => Unit::Milliseconds,
        };
        Left { unit, is_absolute: matches!(verb, Verb::ExpireTime | Verb::PExpireTime) }
    }

    pub fn run(&self, within: &mut Within<'_>, nth: usize, writer: &mut Writer<'_>) {
        let expires_ms = within.get(nth).map(|register| register.expires_ms);
        writer.integer(match expires_ms {
            None => -2,
            Some(0) => -1,
            Some(at) => {
                let base = if self.is_absolute { 0 } else { within.now_ms };
                let left = at.saturating_sub(base);
                milliseconds(match self.unit {
                    Unit::Seconds => left.saturating_add(500) / SECOND_MS.cast_unsigned(),
                    Unit::Milliseconds => left,
                })
            }
        });
    }
}

pub(super) fn persist(within: &mut Within<'_>, nth: usize, writer: &mut Writer<'_>) {
    let expires = within.get(nth).is_some_and(|register| register.expires_ms != 0);
    if expires {
        within.registers.set_expiry(nth, 0);
    }
    writer.integer(expires.into());
}
