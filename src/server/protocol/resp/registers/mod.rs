//! Redis' own commands over registers: arguments to a command, a command to its reply.
//!
//! Invariant: replies and errors are those of Redis 7.0, of INCREX those of Redis 8.8, byte for
//! byte. Only errors that Redis cannot have (a text over `text-bytes`, a full group, options that
//! registers do not know) are words of frs. A command knows no store and no clock: it changes the
//! registers that it is lent, at the time that it is told.
//!
//! | file | duty |
//! | --- | --- |
//! | `verb` | the commands that there are |
//! | `table` | what COMMAND says of them |
//! | `strings` | GET, SET and their kin |
//! | `counters` | INCR and its kin |
//! | `increx` | INCREX |
//! | `expiry` | EXPIRE, TTL and their kin |
//! | `keyspace` | EXISTS, DEL, TYPE and TOUCH, and the arguments of SCAN |
//! | `glob` | the patterns of SCAN |
//! | `errors` | what fails a command |

mod counters;
mod errors;
mod expiry;
mod glob;
mod increx;
mod keyspace;
mod strings;
mod table;
mod verb;

#[cfg(any(test, feature = "testing"))]
pub mod mock;

use super::{Args, Command, Writer};
use expiry::{Clause, Expire, Left};
use frs_engine::{Register, RegisterValue, Registers};
use increx::Increx;
use strings::Set;

pub use errors::RegisterFault;
pub use glob::matches;
pub use keyspace::read_scan;
pub use table::REGISTER_COMMANDS;
pub use verb::Verb;

/// Bytes of the shortest key of a command: of an empty bulk.
pub const KEY_BYTES: usize = "$0\r\n\r\n".len();
/// Bytes of a value in a reply, besides its text, at most. Other replies have fewer bytes than
/// values, for the bytes of their commands.
pub const VALUE_BYTES: usize = "$512\r\n\r\n".len();
/// Bytes of the longest number.
pub const NUMBER_BYTES: usize = "-9223372036854775808".len();

/// A command over registers, whose arguments are read.
#[derive(Debug, Clone, Copy)]
pub struct RegisterCommand<'a> {
    /// The keys, in order.
    pub keys: Args<'a>,
    action: Action<'a>,
}

/// What a command does.
#[derive(Debug, Clone, Copy)]
enum Action<'a> {
    Get,
    GetDelete,
    GetExpire(Option<Clause<'a>>),
    GetMany,
    Length,
    Set(Set<'a>),
    Add(i64),
    Increx(Increx<'a>),
    Expire(Expire),
    Persist,
    Left(Left),
    Exists,
    Delete,
    Touch,
    Type,
}

/// The registers of a command, and the time of the transaction.
struct Within<'r> {
    registers: &'r mut dyn Registers,
    now_ms: u64,
}

impl<'a> RegisterCommand<'a> {
    /// Reads the arguments of a command, without its name. Their number was checked. `verb` is that
    /// of the command.
    ///
    /// # Errors
    /// What Redis answers before it looks for the key.
    pub fn read(
        verb: Verb,
        command: &Command,
        args: Args<'a>,
    ) -> Result<RegisterCommand<'a>, RegisterFault<'a>> {
        let mut rest = args;
        rest.next();
        let action = match verb {
            Verb::Get => Action::Get,
            Verb::GetDel => Action::GetDelete,
            Verb::GetEx => Action::GetExpire(strings::read_getex(rest)?),
            Verb::MGet => Action::GetMany,
            Verb::StrLen => Action::Length,
            Verb::Set => Action::Set(Set::read(rest)?),
            Verb::SetNx => Action::Set(Set::read_setnx(rest)),
            Verb::SetEx | Verb::PSetEx => Action::Set(Set::read_setex(verb, rest)),
            Verb::GetSet => Action::Set(Set::read_getset(rest)),
            Verb::Incr => Action::Add(1),
            Verb::Decr => Action::Add(-1),
            Verb::IncrBy | Verb::DecrBy => Action::Add(counters::read_by(verb, rest)?),
            Verb::IncrEx => Action::Increx(Increx::read(rest)?),
            Verb::Expire | Verb::PExpire | Verb::ExpireAt | Verb::PExpireAt => {
                Action::Expire(Expire::read(verb, rest)?)
            }
            Verb::Persist => Action::Persist,
            Verb::Ttl | Verb::PTtl | Verb::ExpireTime | Verb::PExpireTime => {
                Action::Left(Left::of(verb))
            }
            Verb::Exists => Action::Exists,
            Verb::Del | Verb::Unlink => Action::Delete,
            Verb::Touch => Action::Touch,
            Verb::Type => Action::Type,
        };
        Ok(RegisterCommand { keys: command.keys(args), action })
    }

    /// Appends the beginning of a reply whose parts follow.
    pub fn begin(&self, writer: &mut Writer<'_>) {
        if matches!(self.action, Action::GetMany) {
            writer.array(self.keys.len());
        }
    }

    /// Runs the command on the registers at `places`, which are those of its keys or of some of
    /// them, and appends its reply. What the end of the reply counts is added to `sum`.
    ///
    /// # Errors
    /// What fails the command at its key. The registers are as before, and nothing is appended.
    pub fn run(
        &self,
        places: &[usize],
        registers: &mut dyn Registers,
        now_ms: u64,
        sum: &mut i64,
        writer: &mut Writer<'_>,
    ) -> Result<(), RegisterFault<'static>> {
        let within = &mut Within { registers, now_ms };
        let many = |each: fn(&mut Within<'_>, usize) -> bool, within: &mut Within<'_>| {
            places.iter().filter(|&&nth| each(within, nth)).count() as i64
        };
        match self.action {
            Action::GetMany => {
                places.iter().for_each(|&nth| strings::get(within, nth, writer));
                return Ok(());
            }
            Action::Exists => *sum += many(keyspace::is_there, within),
            Action::Delete => *sum += many(keyspace::delete, within),
            Action::Touch => *sum += many(keyspace::touch, within),
            _ => {}
        }
        let [nth] = *places else { return Ok(()) };
        match self.action {
            Action::Get => strings::get(within, nth, writer),
            Action::GetDelete => strings::get_delete(within, nth, writer),
            Action::GetExpire(clause) => strings::get_expire(within, nth, clause, writer)?,
            Action::Length => strings::length(within, nth, writer),
            Action::Set(set) => set.run(within, nth, writer)?,
            Action::Add(by) => writer.integer(counters::add(within, nth, by)?),
            Action::Increx(increx) => {
                let figures = increx.run(within, nth)?;
                writer.array(figures.len());
                figures.into_iter().for_each(|figure| writer.integer(figure));
            }
            Action::Expire(expire) => writer.integer(expire.run(within, nth)?.into()),
            Action::Persist => expiry::persist(within, nth, writer),
            Action::Left(left) => left.run(within, nth, writer),
            Action::Type => keyspace::kind(within, nth, writer),
            Action::GetMany | Action::Exists | Action::Delete | Action::Touch => {}
        }
        Ok(())
    }

    /// Appends the end of the reply.
    pub fn end(&self, sum: i64, writer: &mut Writer<'_>) {
        if matches!(self.action, Action::Exists | Action::Delete | Action::Touch) {
            writer.integer(sum);
        }
    }
}

impl Within<'_> {
    fn get(&self, nth: usize) -> Option<Register<'_>> {
        self.registers.get(nth)
    }

    /// The number in a register and its expiry. An absent one is 0 without an expiry.
    fn number(&self, nth: usize) -> Result<(i64, u64), RegisterFault<'static>> {
        match self.get(nth) {
            None => Ok((0, 0)),
            Some(Register { value: RegisterValue::Number(number), expires_ms }) => {
                Ok((number, expires_ms))
            }
            Some(_) => Err(RegisterFault::NotInteger),
        }
    }
}

/// The number whose one decimal form these bytes are, as Redis reads it.
///
/// # Errors
/// It is none.
pub fn number(bytes: &[u8]) -> Result<i64, RegisterFault<'static>> {
    match RegisterValue::of(bytes) {
        RegisterValue::Number(number) => Ok(number),
        RegisterValue::Text(_) => Err(RegisterFault::NotInteger),
    }
}

/// Appends a value as Redis shows it.
fn show(value: RegisterValue<'_>, writer: &mut Writer<'_>) {
    match value {
        RegisterValue::Number(number) => {
            writer.bulk(itoa::Buffer::new().format(number).as_bytes());
        }
        RegisterValue::Text(text) => writer.bulk(text),
    }
}

#[cfg(test)]
mod tests;
