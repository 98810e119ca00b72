//! Redis' commands over registers, as COMMAND describes them.
//!
//! Invariant: they are served where `<resp>` of srv.xml names a business of registers, and only
//! there.

use super::super::command::{Arity, Command, Name, command};
use super::verb::Verb;

const READ: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write", "fast"];
const WRITE_SLOW: &[&str] = &["write"];
const ADDS: &[&str] = &["write", "denyoom", "fast"];
const ADDS_SLOW: &[&str] = &["write", "denyoom"];
const READ_SLOW: &[&str] = &["readonly"];
const FAST: &[&str] = &["loading", "stale", "fast"];

/// A command on its first argument.
const fn one(
    verb: Verb,
    word: &'static str,
    arity: Arity,
    flags: &'static [&'static str],
    summary: &'static str,
) -> Command {
    let group = match verb {
        Verb::Get | Verb::Set | Verb::SetEx | Verb::PSetEx | Verb::SetNx | Verb::GetSet => "string",
        Verb::GetDel | Verb::GetEx | Verb::MGet | Verb::StrLen => "string",
        Verb::Incr | Verb::Decr | Verb::IncrBy | Verb::DecrBy | Verb::IncrEx => "string",
        _ => "generic",
    };
    let command = command(Name::Register(verb), word, arity, flags, group, summary);
    Command { key: 1, last_key: 1, ..command }
}

/// A command on all of its arguments.
const fn many(
    verb: Verb,
    word: &'static str,
    flags: &'static [&'static str],
    summary: &'static str,
) -> Command {
    Command { last_key: -1, ..one(verb, word, Arity::From(2), flags, summary) }
}

/// All of them, the frequent ones first.
pub const REGISTER_COMMANDS: [Command; 32] = {
    use Arity::{From, Of};
    use Verb as V;
    [
        one(V::Incr, "INCR", Of(2), ADDS, "Adds one"),
        one(V::Get, "GET", Of(2), READ, "Gets a value"),
        one(V::Expire, "EXPIRE", From(3), WRITE, "Sets an expiry, in seconds from now"),
        one(V::Set, "SET", From(3), ADDS_SLOW, "Sets a value"),
        one(V::IncrBy, "INCRBY", Of(3), ADDS, "Adds a number"),
        one(V::PExpire, "PEXPIRE", From(3), WRITE, "Sets an expiry, in milliseconds from now"),
        one(V::Ttl, "TTL", Of(2), READ, "Tells the seconds until the expiry"),
        one(V::PTtl, "PTTL", Of(2), READ, "Tells the milliseconds until the expiry"),
        one(V::IncrEx, "INCREX", From(2), ADDS, "Adds within bounds, and sets the expiry"),
        many(V::MGet, "MGET", READ, "Gets values"),
        many(V::Del, "DEL", WRITE_SLOW, "Removes keys"),
        many(V::Exists, "EXISTS", READ, "Counts the keys that are there"),
        one(V::SetEx, "SETEX", Of(4), ADDS_SLOW, "Sets a value and its seconds"),
        one(V::PSetEx, "PSETEX", Of(4), ADDS_SLOW, "Sets a value and its milliseconds"),
        one(V::SetNx, "SETNX", Of(3), ADDS, "Sets a value that is not there"),
        one(V::GetSet, "GETSET", Of(3), ADDS, "Sets a value and gets the one before"),
        one(V::GetDel, "GETDEL", Of(2), WRITE, "Gets a value and removes it"),
        one(V::GetEx, "GETEX", From(2), WRITE, "Gets a value and sets its expiry"),
        one(V::StrLen, "STRLEN", Of(2), READ, "Tells the length of a value"),
        one(V::Decr, "DECR", Of(2), ADDS, "Subtracts one"),
        one(V::DecrBy, "DECRBY", Of(3), ADDS, "Subtracts a number"),
        one(V::ExpireAt, "EXPIREAT", From(3), WRITE, "Sets an expiry, in seconds of the clock"),
        one(V::PExpireAt, "PEXPIREAT", From(3), WRITE, "Sets an expiry, in ms of the clock"),
        one(V::Persist, "PERSIST", Of(2), WRITE, "Takes the expiry away"),
        one(V::ExpireTime, "EXPIRETIME", Of(2), READ, "Tells the expiry in seconds"),
        one(V::PExpireTime, "PEXPIRETIME", Of(2), READ, "Tells the expiry in milliseconds"),
        one(V::Type, "TYPE", Of(2), READ, "Tells what a key holds: string, or none"),
        many(V::Unlink, "UNLINK", WRITE, "Removes keys"),
        many(V::Touch, "TOUCH", READ, "Notes that keys are used"),
        command(Name::Time, "TIME", Of(1), FAST, "server", "Tells the time"),
        command(Name::Scan, "SCAN", From(2), READ_SLOW, "generic", "Lists keys, from a cursor on"),
        command(Name::DbSize, "DBSIZE", Of(1), READ, "server", "Counts the keys"),
    ]
};
