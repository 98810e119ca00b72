//! The codes of frs.h, and what they mean.
//!
//! Invariant: a code that was once given out keeps its meaning.

use std::ffi::{CStr, c_int};

use frs_core::{AttachError, Error, ItemError};

/// Makes a constant of each code, and `words`.
macro_rules! codes {
    ($($name:ident = $code:literal $words:literal;)*) => {
        $(pub(crate) const $name: c_int = $code;)*

        /// What a code means.
        pub(crate) fn words(code: c_int) -> &'static CStr {
            match code {
                $($name => $words,)*
                _ => c"no code of this library",
            }
        }
    };
}

codes! {
    OK = 0 c"no error";
    UNKNOWN_BIZ = -1 c"unknown-biz: map.xml names no such business";
    BAD_KEY = -2 c"bad-key: the key is empty, too long, not UTF-8, or not of the business's type";
    BAD_COUNT = -3 c"bad-count: the count is out of range";
    BAD_RATE = -4 c"bad-rate: rate, period or burst are out of bounds, or no limit takes them";
    STORE = -5 c"store: the files of the business failed";
    BUSY = -6 c"busy: another process held the record for the whole lock-timeout";
    FULL = -7 c"full: there is no room for another key";
    BAD_MEMBER = -8 c"bad-member: a limit notes members, and there is none of 1 to 1024 bytes";
    BAD_ONCE = -9 c"bad-once: the id is not of 1 to 64 bytes, or the business remembers no ids";
    BAD_HOLD = -10 c"bad-hold: hold, ttl or settle are out of bounds, or not for this business";
    FULL_HOLDS = -11 c"full-holds: there is no room for another hold of the key";
    NO_SERVER = -20 c"no server runs on the data directory";
    DENIED = -21 c"the data directory is for another user or group";
    NO_PLACE = -22 c"all places for programs are taken";
    FORKED = -23 c"too many forks lie between frs_open and this process";
    ATTACH = -24 c"cannot attach to the data directory";
    TOO_MANY = -40 c"more items than srv.xml allows";
    WOULD_WAIT = -41 c"the lease of a shared limit has yet to come";
    ARGUMENT = -60 c"an argument is not what frs.h says";
    OTHER = -98 c"an error that this interface does not name";
    PANIC = -99 c"a fault of the library, which was caught";
}

/// Why a call failed. Boxed: it is large, and hardly any call fails.
pub(crate) type Fault = Box<Cause>;

/// What made a call fail.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cause {
    /// The caller's arguments violate frs.h.
    #[error("{place}: found {found}, expected {expected}")]
    Argument { place: &'static str, found: String, expected: String },
    #[error(transparent)]
    Call(Error),
    #[error(transparent)]
    Attach(AttachError),
}

impl Cause {
    #[cold]
    #[inline(never)]
    pub fn argument(
        place: &'static str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Fault {
        Box::new(Cause::Argument { place, found: found.into(), expected: expected.into() })
    }

    pub fn code(&self) -> c_int {
        match self {
            Cause::Argument { .. } => ARGUMENT,
            Cause::Call(error) => code_of(error),
            Cause::Attach(error) => code_of_attach(error),
        }
    }
}

impl From<Error> for Fault {
    #[cold]
    fn from(error: Error) -> Fault {
        Box::new(Cause::Call(error))
    }
}

impl From<AttachError> for Fault {
    fn from(error: AttachError) -> Fault {
        Box::new(Cause::Attach(error))
    }
}

/// The code of an error.
pub(crate) fn code_of(error: &Error) -> c_int {
    match error {
        Error::Item(error) => code_of_item(*error),
        Error::Attach(error) => code_of_attach(error),
        Error::TooMany { .. } => TOO_MANY,
        Error::WouldWait => WOULD_WAIT,
        _ => OTHER,
    }
}

pub(crate) fn code_of_item(error: ItemError) -> c_int {
    match error {
        ItemError::UnknownBiz => UNKNOWN_BIZ,
        ItemError::BadKey => BAD_KEY,
        ItemError::BadCount => BAD_COUNT,
        ItemError::BadMember => BAD_MEMBER,
        ItemError::BadRate => BAD_RATE,
        ItemError::Store => STORE,
        ItemError::Busy => BUSY,
        ItemError::Full => FULL,
        ItemError::BadOnce => BAD_ONCE,
        ItemError::BadHold => BAD_HOLD,
        ItemError::FullHolds => FULL_HOLDS,
        // Rights are asked of clients of the server, and not of programs.
        ItemError::Forbidden => OTHER,
    }
}

fn code_of_attach(error: &AttachError) -> c_int {
    match error {
        AttachError::NoServer { .. } => NO_SERVER,
        AttachError::Denied { .. } => DENIED,
        AttachError::Full { .. } => NO_PLACE,
        AttachError::Forked { .. } => FORKED,
        _ => ATTACH,
    }
}
