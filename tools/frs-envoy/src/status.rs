//! The gRPC status of a call that is not answered.
//!
//! Invariant: `Unavailable` means that the same call may succeed later. Nothing was charged for the
//! descriptors that were not judged.

use frs::ItemError;

/// A gRPC status, with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum StatusCode {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// The status of a call that failed, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct Status {
    /// The code.
    pub code: StatusCode,
    /// The message, for people: what was found and what was expected.
    pub message: String,
}

impl Status {
    /// A status with this code and message.
    pub fn new(code: StatusCode, message: impl Into<String>) -> Status {
        Status { code, message: message.into() }
    }

    /// The status of a call that can never succeed.
    pub fn invalid(message: impl Into<String>) -> Status {
        Status::new(StatusCode::InvalidArgument, message)
    }
}

impl From<frs::Error> for Status {
    fn from(error: frs::Error) -> Status {
        let code = match &error {
            frs::Error::Item(
                ItemError::BadKey
                | ItemError::BadCount
                | ItemError::BadMember
                | ItemError::BadRate
                | ItemError::BadOnce
                | ItemError::BadHold,
            )
            | frs::Error::TooMany { .. } => StatusCode::InvalidArgument,
            frs::Error::Item(ItemError::Forbidden) => StatusCode::PermissionDenied,
            _ => StatusCode::Unavailable,
        };
        Status::new(code, error.to_string())
    }
}

/// The most bytes of a message that are sent, because it may repeat what a client sent.
const SHOWN_BYTES_MAX: usize = 512;

/// The message as the header field `grpc-message` carries it. Of a long message, only the
/// beginning.
pub fn escaped(message: &str) -> String {
    let mut ends = (0..=message.len().min(SHOWN_BYTES_MAX)).rev();
    let end = ends.find(|&at| message.is_char_boundary(at)).unwrap_or(0);
    let mut escaped = String::with_capacity(end);
    for byte in message[..end].bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_printable() {
        assert_eq!(escaped("a b: 5 % of é\n"), "a b: 5 %25 of %C3%A9%0A");
    }

    #[test]
    fn of_a_long_message_the_beginning_is_told() {
        let long = format!("{}éx", "a".repeat(SHOWN_BYTES_MAX - 1));
        assert_eq!(escaped(&long), "a".repeat(SHOWN_BYTES_MAX - 1));
        assert_eq!(escaped(&long[1..]), format!("{}%C3%A9", "a".repeat(SHOWN_BYTES_MAX - 2)));
    }

    #[test]
    fn what_may_pass_later_is_unavailable() {
        let code = |error: ItemError| Status::from(frs::Error::from(error)).code;
        use ItemError::{Busy, Full, FullHolds, Store, UnknownBiz};
        for error in [Busy, Store, Full, FullHolds, UnknownBiz] {
            assert_eq!(code(error), StatusCode::Unavailable, "{error}");
        }
        use ItemError::{BadCount, BadHold, BadKey, BadMember, BadOnce, BadRate};
        for error in [BadKey, BadCount, BadMember, BadRate, BadOnce, BadHold] {
            assert_eq!(code(error), StatusCode::InvalidArgument, "{error}");
        }
        assert_eq!(code(ItemError::Forbidden), StatusCode::PermissionDenied);
        let error = frs::Error::TooMany { items: 65, most: 64 };
        assert_eq!(Status::from(error).code, StatusCode::InvalidArgument);
    }
}
