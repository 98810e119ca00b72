//! The codes of frs.h, and what they mean.
//!
//! Invariant: a code that was once given out keeps its meaning.

use std::ffi::{CStr, c_int};

use frs_core::{AttachError, Error, ItemError};

pub(crate) const OK: c_int = 0;
pub(crate) const UNKNOWN_BIZ: c_int = -1;
pub(crate) const BAD_KEY: c_int = -2;
pub(crate) const BAD_COUNT: c_int = -3;
pub(crate) const BAD_RATE: c_int = -4;
pub(crate) const STORE: c_int = -5;
pub(crate) const BUSY: c_int = -6;
pub(crate) const FULL: c_int = -7;
pub(crate) const BAD_MEMBER: c_int = -8;
pub(crate) const NO_SERVER: c_int = -20;
pub(crate) const DENIED: c_int = -21;
pub(crate) const NO_PLACE: c_int = -22;
pub(crate) const FORKED: c_int = -23;
pub(crate) const ATTACH: c_int = -24;
pub(crate) const TOO_MANY: c_int = -40;
pub(crate) const WOULD_WAIT: c_int = -41;
pub(crate) const ARGUMENT: c_int = -60;
pub(crate) const OTHER: c_int = -98;
pub(crate) const PANIC: c_int = -99;

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

/// What a code means.
pub(crate) fn words(code: c_int) -> &'static CStr {
    match code {
        OK => c"no error",
        UNKNOWN_BIZ => c"unknown-biz: map.xml names no such business",
        BAD_KEY => c"bad-key: the key is empty, too long, not UTF-8, or not of the business's type",
        BAD_COUNT => c"bad-count: the count is out of range",
        BAD_MEMBER => c"bad-member: a limit notes members, and there is none of 1 to 1024 bytes",
        BAD_RATE => c"bad-rate: rate, period or burst are out of bounds, or no limit takes them",
        STORE => c"store: the files of the business failed",
        BUSY => c"busy: another process held the record for the whole lock-timeout",
        FULL => c"full: there is no room for another key",
        NO_SERVER => c"no server runs on the data directory",
        DENIED => c"the data directory is for another user or group",
        NO_PLACE => c"all places for programs are taken",
        FORKED => c"too many forks lie between frs_open and this process",
        ATTACH => c"cannot attach to the data directory",
        TOO_MANY => c"more items than srv.xml allows",
        WOULD_WAIT => c"the lease of a shared limit has yet to come",
        ARGUMENT => c"an argument is not what frs.h says",
        OTHER => c"an error that this interface does not name",
        PANIC => c"a fault of the library, which was caught",
        _ => c"no code of this library",
    }
}
