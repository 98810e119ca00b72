//! GET, SET and their kin.
//!
//! Invariant: a value that reads as a number is a number, and is shown with the same bytes.

use super::expiry::{Clause, clause};
use super::{Args, RegisterFault, Verb, Within, Writer, show};
use frs_engine::RegisterValue;

/// SET, SETNX, SETEX, PSETEX and GETSET.
#[derive(Debug, Clone, Copy)]
pub(super) struct Set<'a> {
    value: &'a [u8],
    condition: Condition,
    expiry: SetExpiry<'a>,
    reply: SetReply,
}

/// When SET sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    IfAbsent,
    IfThere,
}

/// The expiry after SET.
#[derive(Debug, Clone, Copy)]
enum SetExpiry<'a> {
    None,
    Kept,
    Of(Clause<'a>),
}

/// What SET answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetReply {
    /// OK, or nothing.
    Ok,
    /// The value before.
    Old,
    /// 1 or 0.
    Flag,
}

impl<'a> Set<'a> {
    /// Value and options of SET.
    pub fn read(mut args: Args<'a>) -> Result<Set<'a>, RegisterFault<'a>> {
        let value = args.next().unwrap_or_default();
        let (mut condition, mut expiry) = (Condition::Always, SetExpiry::None);
        let mut reply = SetReply::Ok;
        while let Some(option) = args.next() {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            if is("NX") && condition != Condition::IfThere {
                condition = Condition::IfAbsent;
            } else if is("XX") && condition != Condition::IfAbsent {
                condition = Condition::IfThere;
            } else if is("GET") {
                reply = SetReply::Old;
            } else if is("KEEPTTL") && !matches!(expiry, SetExpiry::Of(_)) {
                expiry = SetExpiry::Kept;
            } else {
                let before = match expiry {
                    SetExpiry::None => None,
                    SetExpiry::Kept => return Err(RegisterFault::Syntax),
                    SetExpiry::Of(clause) => Some(clause),
                };
                expiry = SetExpiry::Of(clause("set", option, before, &mut args)?);
            }
        }
        Ok(Set { value, condition, expiry, reply })
    }

    pub fn read_setnx(mut args: Args<'a>) -> Set<'a> {
        let value = args.next().unwrap_or_default();
        let (condition, reply) = (Condition::IfAbsent, SetReply::Flag);
        Set { value, condition, expiry: SetExpiry::None, reply }
    }

    pub fn read_setex(verb: Verb, mut args: Args<'a>) -> Set<'a> {
        let text = args.next().unwrap_or_default();
        let clause = match verb {
            Verb::PSetEx => Clause::milliseconds("psetex", text),
            _ => Clause::seconds("setex", text),
        };
        let value = args.next().unwrap_or_default();
        let (condition, expiry) = (Condition::Always, SetExpiry::Of(clause));
        Set { value, condition, expiry, reply: SetReply::Ok }
    }

    pub fn read_getset(mut args: Args<'a>) -> Set<'a> {
        let value = args.next().unwrap_or_default();
        let (condition, reply) = (Condition::Always, SetReply::Old);
        Set { value, condition, expiry: SetExpiry::None, reply }
    }

    pub fn run(
        &self,
        within: &mut Within<'_>,
        nth: usize,
        writer: &mut Writer<'_>,
    ) -> Result<(), RegisterFault<'static>> {
        let given = match self.expiry {
            SetExpiry::Of(clause) => Some(clause.resolve(within.now_ms)?),
            SetExpiry::None | SetExpiry::Kept => None,
        };
        let begin = writer.written();
        let old = within.get(nth);
        if self.reply == SetReply::Old {
            match old {
                Some(register) => show(register.value, writer),
                None => writer.null(),
            }
        }
        let kept = match (self.expiry, old) {
            (SetExpiry::Kept, Some(register)) => register.expires_ms,
            _ => 0,
        };
        let is_met = match self.condition {
            Condition::Always => true,
            Condition::IfAbsent => old.is_none(),
            Condition::IfThere => old.is_some(),
        };
        if is_met {
            let value = RegisterValue::of(self.value);
            if let Err(error) = within.registers.set(nth, value, given.unwrap_or(kept)) {
                writer.truncate(begin);
                return Err(error.into());
            }
        }
        match (self.reply, is_met) {
            (SetReply::Old, _) => {}
            (SetReply::Ok, true) => writer.simple("OK"),
            (SetReply::Ok, false) => writer.null(),
            (SetReply::Flag, is_met) => writer.integer(is_met.into()),
        }
        Ok(())
    }
}

/// The options of GETEX. `None`: it leaves the expiry.
pub(super) fn read_getex(mut args: Args<'_>) -> Result<Option<Clause<'_>>, RegisterFault<'_>> {
    let mut found = None;
    while let Some(option) = args.next() {
        let is_persist = option.eq_ignore_ascii_case(b"PERSIST");
        found = Some(match found {
            None | Some(Clause::Persist) if is_persist => Clause::Persist,
            Some(Clause::Persist) => return Err(RegisterFault::Syntax),
            before => clause("getex", option, before, &mut args)?,
        });
    }
    Ok(found)
}

pub(super) fn get(within: &mut Within<'_>, nth: usize, writer: &mut Writer<'_>) {
    match within.get(nth) {
        Some(register) => {
            show(register.value, writer);
            within.registers.touch(nth);
        }
        None => writer.null(),
    }
}

pub(super) fn get_delete(within: &mut Within<'_>, nth: usize, writer: &mut Writer<'_>) {
    get(within, nth, writer);
    within.registers.remove(nth);
}

pub(super) fn get_expire(
    within: &mut Within<'_>,
    nth: usize,
    clause: Option<Clause<'_>>,
    writer: &mut Writer<'_>,
) -> Result<(), RegisterFault<'static>> {
    let clause = clause.filter(|_| within.get(nth).is_some());
    let expires_ms = clause.map(|clause| clause.resolve(within.now_ms)).transpose()?;
    get(within, nth, writer);
    if let Some(expires_ms) = expires_ms {
        within.registers.set_expiry(nth, expires_ms);
    }
    Ok(())
}

pub(super) fn length(within: &mut Within<'_>, nth: usize, writer: &mut Writer<'_>) {
    let length = within.get(nth).map(|register| match register.value {
        RegisterValue::Number(number) => itoa::Buffer::new().format(number).len(),
        RegisterValue::Text(text) => text.len(),
    });
    writer.integer(length.unwrap_or(0) as i64);
    within.registers.touch(nth);
}
