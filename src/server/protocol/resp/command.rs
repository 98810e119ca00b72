//! The commands that there are, as COMMAND describes them.
//!
//! Invariant: what is in the table is served, and nothing else is. A command with too many or too
//! few arguments is refused before it is looked at.

use super::Args;
use super::registers::Verb;

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Name {
    Update,
    Query,
    ManyUpdate,
    ManyQuery,
    Throttle,
    Ping,
    Echo,
    Multi,
    Exec,
    Discard,
    Hello,
    Auth,
    Client,
    Select,
    Quit,
    Reset,
    ReadOnly,
    Info,
    Command,
    Config,
    Cluster,
    Register(Verb),
    Time,
    Scan,
    DbSize,
}

/// The number of arguments that a command takes, with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// Exactly so many.
    Of(usize),
    /// At least so many.
    From(usize),
    /// From so many to so many.
    Between(usize, usize),
}

/// What is known of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Which.
    pub name: Name,
    /// Its word.
    pub word: &'static str,
    /// How many arguments it takes.
    pub arity: Arity,
    /// Its flags, as Redis calls them.
    pub flags: &'static [&'static str],
    /// The position of its first key. 0: it has none, or not at one place.
    pub key: i64,
    /// The position of its last key. -1: the last argument.
    pub last_key: i64,
    /// What it is for.
    pub summary: &'static str,
    /// The group of Redis to which it belongs.
    pub group: &'static str,
}

impl Command {
    /// Whether it takes so many arguments, with its name.
    #[inline]
    pub fn takes(&self, arguments: usize) -> bool {
        match self.arity {
            Arity::Of(count) => arguments == count,
            Arity::From(least) => arguments >= least,
            Arity::Between(least, most) => (least..=most).contains(&arguments),
        }
    }

    /// The keys among its arguments, if it is over registers.
    #[inline]
    pub fn registers<'a>(&self, args: Args<'a>) -> Option<Args<'a>> {
        matches!(self.name, Name::Register(_)).then_some(self.keys(args))
    }

    /// The keys among its arguments, which begin with a key.
    #[inline]
    pub fn keys<'a>(&self, args: Args<'a>) -> Args<'a> {
        if self.last_key == self.key { args.first(1) } else { args }
    }

    /// Whether it writes.
    #[inline]
    pub fn is_write(&self) -> bool {
        self.flags.contains(&"write")
    }

    /// Its arity in the words of Redis: negative if it is a least one.
    pub fn redis_arity(&self) -> i64 {
        match self.arity {
            Arity::Of(count) => count as i64,
            Arity::From(least) | Arity::Between(least, _) => -(least as i64),
        }
    }

    /// Whether it is served before the client has said who it is.
    #[inline]
    pub fn needs_no_auth(&self) -> bool {
        matches!(self.name, Name::Auth | Name::Hello | Name::Quit | Name::Reset)
    }

    /// Whether it runs at once within a transaction.
    #[inline]
    pub fn is_never_queued(&self) -> bool {
        matches!(self.name, Name::Multi | Name::Exec | Name::Discard | Name::Quit | Name::Reset)
    }
}

const WRITE: &[&str] = &["write", "fast"];
const WRITE_MANY: &[&str] = &["write", "movablekeys"];
const READ: &[&str] = &["readonly", "fast"];
const READ_MANY: &[&str] = &["readonly", "movablekeys"];
const FAST: &[&str] = &["loading", "stale", "fast"];
const ANYONE: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth"];
const SLOW: &[&str] = &["loading", "stale"];

pub(super) const fn command(
    name: Name,
    word: &'static str,
    arity: Arity,
    flags: &'static [&'static str],
    group: &'static str,
    summary: &'static str,
) -> Command {
    Command { name, word, arity, flags, key: 0, last_key: 0, summary, group }
}

const fn keyed(command: Command, key: i64) -> Command {
    Command { key, last_key: key, ..command }
}

/// All of them, the frequent ones first.
pub const COMMANDS: [Command; 21] = {
    use Arity::{Between, From, Of};
    use Name as N;
    [
        keyed(command(N::Update, "FRS.UPDATE", From(3), WRITE, "generic", "Charges one item"), 2),
        keyed(
            command(N::Throttle, "CL.THROTTLE", Between(5, 6), WRITE, "generic", "Throttles a key"),
            1,
        ),
        keyed(command(N::Query, "FRS.QUERY", From(3), READ, "generic", "Asks for one item"), 2),
        command(N::ManyUpdate, "FRS.MUPDATE", From(6), WRITE_MANY, "generic", "Charges items"),
        command(N::ManyQuery, "FRS.MQUERY", From(6), READ_MANY, "generic", "Asks for items"),
        command(N::Ping, "PING", Between(1, 2), FAST, "connection", "Answers PONG"),
        command(N::Multi, "MULTI", Of(1), FAST, "transactions", "Begins a transaction"),
        command(N::Exec, "EXEC", Of(1), SLOW, "transactions", "Runs a transaction"),
        command(N::Discard, "DISCARD", Of(1), FAST, "transactions", "Drops a transaction"),
        command(N::Echo, "ECHO", Of(2), FAST, "connection", "Answers its argument"),
        command(N::Hello, "HELLO", From(1), ANYONE, "connection", "Chooses the protocol"),
        command(N::Auth, "AUTH", Between(2, 3), ANYONE, "connection", "Names the token"),
        command(N::Client, "CLIENT", From(2), SLOW, "connection", "Names the client"),
        command(N::Select, "SELECT", Of(2), FAST, "connection", "Chooses database 0"),
        command(N::Quit, "QUIT", From(1), ANYONE, "connection", "Ends the connection"),
        command(N::Reset, "RESET", Of(1), ANYONE, "connection", "Begins anew"),
        command(N::ReadOnly, "READONLY", Of(1), FAST, "cluster", "Changes nothing"),
        command(N::Info, "INFO", From(1), SLOW, "server", "Describes the server"),
        command(N::Command, "COMMAND", From(1), SLOW, "server", "Describes commands"),
        command(N::Config, "CONFIG", From(2), SLOW, "server", "Has no parameters"),
        command(N::Cluster, "CLUSTER", From(2), SLOW, "cluster", "Is disabled"),
    ]
};
