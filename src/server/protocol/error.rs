//! The errors of a whole request.
//!
//! Invariant: each error knows its status, its code, its words, and whether the position in the
//! byte stream is known after it. No error owns memory, so a flood of faulty requests costs almost
//! nothing.

use std::fmt;

use frs_base::named;
use frs_conf::Listen;

/// The most header fields of a request.
pub const MAX_FIELDS: usize = 96;

/// A whole request that cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The head, or the framing of the body, is not HTTP.
    #[error("{0}")]
    BadHttp(&'static str),
    /// The body is no request. [`Code::BadXml`] and [`Code::BadJson`] mean that it is not
    /// well-formed, or is XML or JSON that frs rejects. [`Code::BadRequest`] means a wrong root,
    /// element, attribute, member or value.
    #[error("{what}{found}")]
    BadBody {
        /// The code of the error.
        code: Code,
        /// The expected content.
        what: &'static str,
        /// The text that was found.
        found: Excerpt,
        /// The position of the error.
        position: TextPosition,
    },
    /// A wrong parameter or path segment of a target.
    #[error("{what}{found}")]
    BadTarget {
        /// The expected content.
        what: &'static str,
        /// The text that was found.
        found: Excerpt,
    },
    /// A wrong field of a head.
    #[error("{what}{found}")]
    BadField {
        /// The expected content.
        what: &'static str,
        /// The text that was found.
        found: Excerpt,
    },
    /// A request on a listener that speaks RESP.
    #[error("this listener speaks RESP: send requests in HTTP to a <listen> of srv.xml")]
    OnResp,
    /// Plain text on a listener that speaks TLS.
    #[error("this port speaks TLS: call it by https://")]
    OnTls,
    /// The path does not exist.
    #[error("no such path: expected /query, /update, /health or /authz/BIZ")]
    NotFound,
    /// The path is served only by the admin plane. [`Error::write_words`] names its address.
    #[error("no such path: the admin plane serves it")]
    AdminPath,
    /// The path does not support this method.
    #[error("the path does not take this method: expected one of {allow}")]
    BadMethod {
        /// The methods that the path supports.
        allow: &'static str,
    },
    /// The peer is in none of the allowed networks.
    #[error("this peer is in no <allow> network")]
    PeerForbidden,
    /// A page of another site made a browser send the request.
    #[error("a page of another site sent this request: such requests are not served")]
    CrossSite,
    /// A browser sent the request for a page whose site the configuration does not name.
    #[error("a web page sent this request: <http allow-origin> does not name its Origin")]
    OriginForbidden,
    /// The request shows no token, and needs one.
    #[error("expected a token or a certificate of a <client>: this request shows neither")]
    Unauthorized,
    /// The token of the request is no client's.
    #[error("the token is wrong")]
    WrongToken,
    /// The client may do nothing of this kind.
    #[error("this client has no right to do this: see <clients> of srv.xml")]
    NoRight,
    /// The request names a host that the configuration does not name.
    #[error("the request names a host that <http hosts> does not name")]
    HostForbidden,
    /// A request was not completed in time.
    #[error("the request was not complete in time")]
    Timeout,
    /// The body is longer than max-body.
    #[error("the body is longer than {max_bytes} bytes")]
    TooLarge {
        /// The bound.
        max_bytes: u32,
    },
    /// The request has too many items.
    #[error("more than {max} items in {}", if *.atomic { "an atomic request" } else { "a request" })]
    TooManyItems {
        /// The bound.
        max: u32,
        /// Whether it is the bound of atomic requests.
        atomic: bool,
    },
    /// The type, charset or coding of the body is not supported.
    #[error("{0}")]
    BadContentType(&'static str),
    /// The head is longer than max-head.
    #[error("the head is longer than {max_bytes} bytes or {} fields", MAX_FIELDS)]
    HeadTooLarge {
        /// The bound of bytes.
        max_bytes: u32,
    },
    /// The body has a transfer coding other than chunked.
    #[error("expected no transfer coding but chunked")]
    BadTransferEncoding,
    /// The version is neither HTTP/1.0 nor HTTP/1.1.
    #[error("expected HTTP/1.1 or HTTP/1.0")]
    BadVersion,
    /// There is no room for another connection.
    #[error("all connections are in use")]
    Overloaded,
    /// The worker takes no new work.
    #[error("draining")]
    Draining,
}

impl Error {
    /// HTTP status.
    pub const fn status(&self) -> u16 {
        self.consequences().0
    }

    /// The code of the error, for clients.
    pub const fn code(&self) -> Code {
        self.consequences().1
    }

    /// Whether the connection must close after the answer, because the position in the byte stream
    /// is unknown, or because the documented protocol says so.
    pub const fn closes(&self) -> bool {
        self.consequences().2
    }

    /// The status, the code, and whether the connection closes.
    const fn consequences(&self) -> (u16, Code, bool) {
        match self {
            Error::BadHttp(_) | Error::OnResp | Error::OnTls => (400, Code::BadHttp, true),
            Error::BadBody { code, .. } => (400, *code, false),
            Error::BadTarget { .. } | Error::BadField { .. } => (400, Code::BadRequest, false),
            Error::PeerForbidden => (403, Code::Forbidden, true),
            Error::CrossSite | Error::OriginForbidden | Error::HostForbidden => {
                (403, Code::Forbidden, false)
            }
            Error::Unauthorized | Error::WrongToken => (401, Code::Unauthorized, false),
            Error::NoRight => (403, Code::Forbidden, false),
            Error::NotFound | Error::AdminPath => (404, Code::NotFound, false),
            Error::BadMethod { .. } => (405, Code::BadMethod, false),
            Error::Timeout => (408, Code::Timeout, true),
            Error::TooLarge { .. } => (413, Code::TooLarge, true),
            Error::TooManyItems { .. } => (413, Code::TooManyItems, true),
            Error::BadContentType(_) => (415, Code::BadContentType, false),
            Error::HeadTooLarge { .. } => (431, Code::HeadTooLarge, true),
            Error::BadTransferEncoding => (501, Code::BadTransferEncoding, true),
            Error::Overloaded => (503, Code::Overloaded, true),
            Error::Draining => (503, Code::Overloaded, false),
            Error::BadVersion => (505, Code::BadVersion, true),
        }
    }

    /// Writes the words for clients. `admin` is the address of the admin plane, if there is one.
    pub fn write_words(&self, out: &mut impl fmt::Write, admin: Option<&Listen>) -> fmt::Result {
        match (self, admin) {
            (Error::AdminPath, None) => write!(out, "{}", Error::NotFound),
            (Error::AdminPath, Some(Listen::Tcp(address))) => write!(out, "{self} at {address}"),
            (Error::AdminPath, Some(Listen::Unix(path))) => {
                write!(out, "{self} at unix:{}", path.display())
            }
            _ => write!(out, "{self}"),
        }
    }

    /// The position of the error in the body, if it has one.
    pub const fn position(&self) -> Option<TextPosition> {
        match self {
            Error::BadBody { position, .. } => Some(*position),
            _ => None,
        }
    }
}

named! {
    /// The code of an error, for clients. The codes after `Overloaded` occur only in the admin
    /// plane.
    #[expect(missing_docs)]
    Code {
        BadHttp "bad-http",
        BadXml "bad-xml",
        BadJson "bad-json",
        BadRequest "bad-request",
        NotFound "not-found",
        BadMethod "bad-method",
        Forbidden "forbidden",
        Timeout "timeout",
        TooLarge "too-large",
        TooManyItems "too-many-items",
        BadContentType "bad-content-type",
        HeadTooLarge "head-too-large",
        BadTransferEncoding "bad-transfer-encoding",
        BadVersion "bad-version",
        Overloaded "overloaded",
        Unauthorized "unauthorized",
        Conflict "conflict",
        Faulty "faulty",
        Refused "refused",
        Io "io",
        Busy "busy",
        Store "store",
        Full "full",
        NoAnswer "no-answer",
        NoRoom "no-room",
    }
}

/// A position in a body. Lines and columns count from 1, and columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPosition {
    /// The line. LF, CR and CR LF end a line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl TextPosition {
    /// The position of the byte `at` in `text`, which may be any bytes.
    pub fn of(text: &[u8], at: usize) -> TextPosition {
        let before = &text[..at.min(text.len())];
        let mut position = TextPosition { line: 1, column: 1 };
        for (index, &byte) in before.iter().enumerate() {
            match byte {
                // The LF that follows ends the line.
                b'\r' if text.get(index + 1) == Some(&b'\n') => {}
                b'\n' | b'\r' => position = TextPosition { line: position.line + 1, column: 1 },
                // These bytes continue a character.
                0x80..=0xBF => {}
                _ => position.column += 1,
            }
        }
        position
    }
}

/// The start of a found text, for the words of an error. Displays as `, found "…"`, or as nothing
/// if the text is empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; Excerpt::MAX_BYTES],
    len: u8,
    cut: bool,
}

impl Excerpt {
    const MAX_BYTES: usize = 30;

    /// The excerpt of an empty text.
    pub const NONE: Excerpt = Excerpt { bytes: [0; Excerpt::MAX_BYTES], len: 0, cut: false };

    /// The first bytes of `text`, in whole characters.
    pub fn of(text: &str) -> Excerpt {
        let mut end = text.len().min(Excerpt::MAX_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut excerpt = Excerpt::NONE;
        excerpt.bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        excerpt.len = end as u8;
        excerpt.cut = end < text.len();
        excerpt
    }

    /// The text of the excerpt.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len as usize]).unwrap_or_default()
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == 0 {
            return Ok(());
        }
        write!(f, ", found \"{}{}\"", self.text(), if self.cut { "…" } else { "" })
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        let text = "a\nbé\r\nc\rd".as_bytes();
        let at = |at| {
            let position = TextPosition::of(text, at);
            (position.line, position.column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (2, 1));
        assert_eq!(at(3), (2, 2));
        assert_eq!(at(5), (2, 3));
        assert_eq!(at(7), (3, 1));
        assert_eq!(at(9), (4, 1));
        assert_eq!(at(99), (4, 2));
    }

    #[test]
    fn excerpts_end_at_a_character() {
        assert_eq!(Excerpt::of("").to_string(), "");
        assert_eq!(Excerpt::of("bizz").to_string(), ", found \"bizz\"");
        let long = "é".repeat(20);
        assert_eq!(Excerpt::of(&long).text(), "é".repeat(15));
        assert!(Excerpt::of(&long).to_string().ends_with("…\""));
        let odd = format!("a{long}");
        assert_eq!(Excerpt::of(&odd).text().len(), 29);
    }
}
