//! What fails a command over registers.
//!
//! Invariant: the words are those of Redis where Redis has the error. They hold no line end,
//! whatever a client has sent.

use super::super::shown::Shown;
use frs_engine::RegisterError;

/// Why a command failed. The connection stays usable, and the register is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegisterFault<'a> {
    /// An argument or a value is no number of 64 bits.
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    /// Words that do not make a command.
    #[error("ERR syntax error")]
    Syntax,
    /// A time that is no time, or too far.
    #[error("ERR invalid expire time in '{0}' command")]
    ExpireTime(&'static str),
    /// The sum does not fit into 64 bits.
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    /// The number to subtract has no counterpart.
    #[error("ERR decrement would overflow")]
    DecrementOverflow,
    /// An option that EXPIRE does not know.
    #[error("ERR Unsupported option {}", Shown(.0))]
    ExpireOption(&'a [u8]),
    /// NX with another condition.
    #[error("ERR NX and XX, GT or LT options at the same time are not compatible")]
    NxWithOther,
    /// GT with LT.
    #[error("ERR GT and LT options at the same time are not compatible")]
    GtWithLt,
    /// A cursor that is no number.
    #[error("ERR invalid cursor")]
    Cursor,
    /// A pattern that is longer than a key.
    #[error("ERR MATCH takes a pattern of at most {most} bytes (docs/redis.md)")]
    PatternTooLong {
        /// The bound.
        most: usize,
    },
    /// A number of INCREX.
    #[error("ERR {0} is not an integer or out of range")]
    IncrexNumber(&'static str),
    /// Bounds of INCREX that leave nothing between them.
    #[error("ERR LBOUND can't be greater than UBOUND")]
    Bounds,
    /// ENX without a time.
    #[error("ERR ENX flag requires an expiration")]
    EnxAlone,
    /// What INCREX would say it has added does not fit into 64 bits.
    #[error("ERR applied increment would overflow")]
    AppliedOverflow,
    /// INCREX of floats.
    #[error("ERR INCREX without BYFLOAT: registers hold whole numbers and texts (docs/redis.md)")]
    IncrexFloat,
    /// Conditions of Valkey's INCREX.
    #[error("ERR INCREX without NX and XX: it is that of Redis 8.8 (docs/redis.md)")]
    IncrexCondition,
    /// A text that the register has no room for, or a group without room.
    #[error("ERR {word} ({0})", word = word(.0))]
    NotSet(RegisterError),
}

impl RegisterFault<'_> {
    /// The status by which it is counted.
    pub const fn status(self) -> u16 {
        match self {
            RegisterFault::NotSet(RegisterError::Full) => 503,
            _ => 400,
        }
    }
}

const fn word(error: &RegisterError) -> &'static str {
    match error {
        RegisterError::TextTooLong { .. } => "text-too-long",
        RegisterError::Full => "full",
    }
}

impl From<RegisterError> for RegisterFault<'_> {
    fn from(error: RegisterError) -> Self {
        RegisterFault::NotSet(error)
    }
}
