//! What is wrong with the bytes of a connection, or with one command.
//!
//! Invariant: words hold no line end, whatever a client has sent. No error owns memory.

use std::fmt;

use super::registers::RegisterFault;
use super::shown::Shown;
use super::unknown::instead_of;
use crate::protocol::response_head::error_status;
use frs_engine::ItemError;

/// Bytes that are no command. The connection is closed after the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The header of an array holds no number.
    #[error("Protocol error: invalid multibulk length")]
    BadCount,
    /// An array has too many elements.
    #[error("Protocol error: a command has at most {most} arguments")]
    TooManyArguments {
        /// The bound.
        most: u32,
    },
    /// An element of an array is no bulk.
    #[error("Protocol error: expected '$', got '{}'", Shown(&[*.0]))]
    ExpectedBulk(u8),
    /// The header of a bulk holds no number.
    #[error("Protocol error: invalid bulk length")]
    BadLength,
    /// A bulk over the bound.
    #[error("Protocol error: a bulk has at most {most} bytes")]
    BulkTooLong {
        /// The bound.
        most: usize,
    },
    /// Something else than a line end behind a bulk.
    #[error("Protocol error: expected a line end behind a bulk")]
    UnendedBulk,
    /// A command over max-body.
    #[error("Protocol error: a command has at most {most} bytes (max-body)")]
    CommandTooLong {
        /// The bound.
        most: usize,
    },
    /// A transaction over max-body.
    #[error("Protocol error: the commands of a MULTI have at most {most} bytes (max-body)")]
    TransactionTooLong {
        /// The bound.
        most: usize,
    },
    /// A line over the bound.
    #[error("Protocol error: a command that is a line has at most {most} bytes")]
    LineTooLong {
        /// The bound.
        most: usize,
    },
    /// A quotation that does not end.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// Neither an array nor a line of text, as the beginning of TLS is.
    #[error("Protocol error: expected a command of RESP, not TLS or other binary data")]
    NoCommand,
    /// A command was not completed in time.
    #[error("Protocol error: the command was not complete in time (request-timeout)")]
    Timeout,
    /// RESP where HTTP is spoken.
    #[error("this listener speaks HTTP: send commands in RESP to a <resp> of srv.xml")]
    OnHttp,
    /// No room for another connection.
    #[error("max number of clients reached")]
    Overloaded,
    /// The peer is in none of the allowed networks.
    #[error("this peer is in no <allow> network")]
    PeerForbidden,
    /// Plain text on a listener that speaks TLS.
    #[error("this port speaks TLS: call it by rediss://")]
    OnTls,
}

impl Fault {
    /// The status by which it is counted.
    pub const fn status(self) -> u16 {
        match self {
            Fault::TooManyArguments { .. }
            | Fault::BulkTooLong { .. }
            | Fault::CommandTooLong { .. }
            | Fault::TransactionTooLong { .. }
            | Fault::LineTooLong { .. } => 413,
            Fault::Timeout => 408,
            Fault::Overloaded => 503,
            Fault::PeerForbidden => 403,
            Fault::BadCount
            | Fault::ExpectedBulk(_)
            | Fault::BadLength
            | Fault::UnendedBulk
            | Fault::UnbalancedQuotes
            | Fault::NoCommand
            | Fault::OnHttp
            | Fault::OnTls => 400,
        }
    }
}

/// What fails a command. The connection stays usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError<'a> {
    /// There is no such command.
    #[error("ERR unknown command '{}' ({})", Shown(.0), instead_of(.0))]
    Unknown(&'a [u8]),
    /// There is no such subcommand.
    #[error("ERR unknown subcommand '{}'. Try {of} HELP.", Shown(.word))]
    UnknownSubcommand {
        /// The command.
        of: &'static str,
        /// What it does not know.
        word: &'a [u8],
    },
    /// Too many or too few arguments.
    #[error("ERR wrong number of arguments for '{}' command", Lower(.0))]
    Arguments(&'static str),
    /// The client has not said who it is.
    #[error("NOAUTH Authentication required.")]
    NoAuth,
    /// The same, of HELLO.
    #[error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
         <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
         RESP protocol version at the same time"
    )]
    HelloNoAuth,
    /// The client has no right to use the registers.
    #[error("NOPERM this client has no right to use the registers of the biz")]
    NoPerm,
    /// The wrong token.
    #[error("WRONGPASS invalid username-password pair or user is disabled.")]
    WrongPass,
    /// There is no token.
    #[error("ERR AUTH without a token-file: <resp> of srv.xml names none")]
    NoToken,
    /// Neither RESP2 nor RESP3.
    #[error("NOPROTO unsupported protocol version")]
    NoProto,
    /// A database that is not there.
    #[error("ERR DB index is out of range")]
    DbIndex,
    /// A number that is no database anywhere.
    #[error("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX)]
    OutOfRange,
    /// A kind of clients that Redis does not have.
    #[error("ERR Unknown client type '{}'", Shown(.0))]
    ClientType(&'a [u8]),
    /// The id of a client that is no id.
    #[error("ERR Invalid client ID")]
    ClientId,
    /// An option that the command does not know, or has already, or without its value.
    #[error("ERR syntax error at '{}'", Shown(.0))]
    Syntax(&'a [u8]),
    /// A name that Redis would not take.
    #[error("ERR Client names cannot contain spaces, newlines or special characters.")]
    ClientName,
    /// A name that is too long.
    #[error("ERR Client names have at most {0} bytes")]
    ClientNameTooLong(usize),
    /// There is one server.
    #[error("ERR This instance has cluster support disabled")]
    NoCluster,
    /// MULTI within MULTI.
    #[error("ERR MULTI calls can not be nested")]
    NestedMulti,
    /// EXEC or DISCARD without MULTI.
    #[error("ERR {0} without MULTI")]
    WithoutMulti(&'static str),
    /// EXEC after a command that could not be queued.
    #[error("EXECABORT Transaction discarded because of previous errors.")]
    ExecAbort,
    /// EXEC with arguments.
    #[error(
        "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"
    )]
    ExecArguments,
    /// The items are not as many as is said.
    #[error("ERR ITEMS n must be followed by n times biz, key and count")]
    Items,
    /// Over max-items or max-atomic-items.
    #[error("ERR too-many-items (at most {0})")]
    TooManyItems(u32),
    /// No business is named for it.
    #[error("ERR CL.THROTTLE needs <resp throttle> of srv.xml, which names its business")]
    NoThrottle,
    /// An argument of CL.THROTTLE.
    #[error("ERR {name} must be a whole number from {least} to {most}")]
    ThrottleNumber {
        /// Which.
        name: &'static str,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// More uses than the arithmetic can tell apart.
    #[error("ERR count_per_period is too large: at most one use in a nanosecond")]
    TooFast,
    /// A command over registers.
    #[error("{0}")]
    Register(RegisterFault<'a>),
    /// A transaction over registers.
    #[error("ERR {} ({})", .0.word(), words(*.0))]
    Item(ItemError),
    /// COMMAND GETKEYS of no command.
    #[error("ERR Invalid command specified")]
    NoSuchCommand,
    /// COMMAND GETKEYS of a command with too many or too few arguments.
    #[error("ERR Invalid number of arguments specified for command")]
    ArgumentsOfOther,
    /// COMMAND GETKEYS of a command without keys.
    #[error("ERR The command has no key arguments")]
    NoKeys,
    /// A bucket that takes too long to fill.
    #[error("ERR max_burst is too large: the bucket must fill within 2^62 nanoseconds")]
    TooLarge,
}

impl CommandError<'_> {
    /// The status by which it is counted.
    pub const fn status(self) -> u16 {
        match self {
            CommandError::NoAuth | CommandError::HelloNoAuth | CommandError::WrongPass => 401,
            CommandError::NoPerm => 403,
            CommandError::Unknown(_) => 404,
            CommandError::TooManyItems(_) => 413,
            CommandError::Item(error) => error_status(error),
            CommandError::Register(fault) => fault.status(),
            _ => 400,
        }
    }
}

/// A word in lower case.
struct Lower<'a>(&'a str);

impl fmt::Display for Lower<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        self.0.chars().try_for_each(|c| f.write_char(c.to_ascii_lowercase()))
    }
}

/// What an error of an item means, in the words of its page.
pub(super) const fn words(error: ItemError) -> &'static str {
    match error {
        ItemError::Forbidden => "this client has no right to do this with the biz: see <clients>",
        ItemError::UnknownBiz => "map.xml names no such business",
        ItemError::BadKey => "the key is empty, too long, not UTF-8, or not of the type of the biz",
        ItemError::BadCount => {
            "expected a whole number of 32 bits, at least 0 with HOLD and at least 1 with PARTIAL, \
             which takes neither FORCE nor HOLD, nor a distinct or concurrent limit"
        }
        ItemError::BadMember => "the biz notes members, and MEMBER has 1 to 1024 bytes of UTF-8",
        ItemError::BadRate => {
            "RATE, BURST or MAX are out of bounds, over most or max-period, or more than the biz \
             has limits with per-call"
        }
        ItemError::Store => "the files of the group failed, or the configuration cannot be read",
        ItemError::Busy => {
            "the record was not free within lock-timeout, or the cluster has not answered in time"
        }
        ItemError::Full => "the group has no room for another key",
        ItemError::BadOnce => "ONCE has 1 to 64 bytes, and the biz has once in map.xml",
        ItemError::BadHold => {
            "HOLD has 1 to 64 bytes, TTL is at most hold-ttl, and the biz has holds: SETTLE and \
             TTL need HOLD, and a concurrent limit needs HOLD and takes no SETTLE"
        }
        ItemError::FullHolds => "all entries of the record are live holds: see holds in map.xml",
    }
}

/// Whether bytes that are no HTTP are the beginning of a command of RESP.
pub fn looks_like_resp(input: &[u8]) -> bool {
    let Some(digits) = input.strip_prefix(b"*") else { return false };
    let end = digits.iter().position(|byte| !byte.is_ascii_digit());
    end.is_some_and(|end| end > 0 && digits[end] == b'\r')
}
