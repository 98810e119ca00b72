//! Answers of the admin plane: a status, fields and a body, or a refusal in words.

use std::sync::Arc;
use std::time::Duration;

use crate::process::change_log::Author;
use crate::protocol::element_tree::{Element, Layout};
use crate::protocol::response_head::reason;
use crate::protocol::{self, Code, Format};
use frs_base::clock::Millis;

/// The name of a header field and its value.
pub type HeaderField = (&'static str, &'static str);

/// A document and the status of its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusDocument {
    /// HTTP status.
    pub status: u16,
    /// The document's root.
    pub root: Element,
}

/// A value with the client that requests or receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addressed<W, T> {
    /// The client.
    pub requester: W,
    /// The value.
    pub content: T,
}

/// The receiver of an answer, and its request for the log.
#[derive(Debug, Clone)]
pub struct Requester {
    /// The number of the connection.
    pub client: usize,
    /// The format of the answer.
    pub format: Format,
    /// The peer, as text for the log.
    pub peer: Arc<str>,
    /// The name of the client's token, or its user. `None` if it has neither, so that it changes
    /// nothing.
    pub name: Option<Arc<str>>,
    /// The method, path and parameters without the key.
    pub line: String,
    /// Whether the request is a change.
    pub changes: bool,
}

impl Requester {
    /// The author of a change, for the log of changes.
    pub fn author(&self) -> Author {
        let who = self.name.clone().unwrap_or_else(|| "unknown".into());
        Author { who, peer: Some(Arc::clone(&self.peer)) }
    }

    /// An answer for this client.
    pub fn answered(self, answer: Result<Response, Refusal>) -> Addressed<Requester, Response> {
        let content = answer.unwrap_or_else(|refusal| Response::refusal(self.format, &refusal));
        Addressed { requester: self, content }
    }
}

/// An answer without its head.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// The media type of the body.
    pub kind: &'static str,
    /// The body, shared by all clients that request the same.
    pub body: Arc<[u8]>,
    /// An additional header field.
    pub field: Option<HeaderField>,
}

/// The media type of a format.
const fn media_type(format: Format) -> &'static str {
    match format {
        Format::Xml => "application/xml",
        Format::Json => "application/json",
    }
}

impl Response {
    /// A document.
    pub fn document(status: u16, format: Format, root: &Element) -> Response {
        let text = root.document(format, Layout::Lines);
        Response { status, ..Response::text(format, text.into_bytes()) }
    }

    /// A text of this format, sent unchanged.
    pub fn text(format: Format, text: impl Into<Arc<[u8]>>) -> Response {
        Response::page(media_type(format), text)
    }

    /// A page of another media type.
    pub fn page(kind: &'static str, body: impl Into<Arc<[u8]>>) -> Response {
        Response { status: 200, kind, body: body.into(), field: None }
    }

    /// A refusal.
    pub fn refusal(format: Format, refusal: &Refusal) -> Response {
        let position = refusal.position;
        let root = Element::text("error", &*refusal.words)
            .with("code", refusal.code.word())
            .with_some("line", position.map(|position| u64::from(position.line)))
            .with_some("column", position.map(|position| u64::from(position.column)));
        Response { field: refusal.field, ..Response::document(refusal.status, format, &root) }
    }
}

/// The reason why a request is not served or a change not made.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// The code of the error, for clients.
    pub code: Code,
    /// The explanation, with a line for each fault.
    pub words: String,
    /// Whether the token was wrong. The brake counts such refusals.
    pub wrong_token: bool,
    /// Whether the connection closes after the answer.
    pub closes: bool,
    position: Option<protocol::TextPosition>,
    field: Option<HeaderField>,
}

impl Refusal {
    /// A refusal with this status, code and explanation.
    pub fn new(status: u16, code: Code, words: impl Into<String>) -> Refusal {
        let (wrong_token, closes, position, field) = (false, false, None, None);
        Refusal { status, code, words: words.into(), wrong_token, closes, position, field }
    }

    /// The requested object does not exist.
    pub fn not_found(words: impl Into<String>) -> Refusal {
        Refusal::new(404, Code::NotFound, words)
    }

    /// The client has no access.
    pub fn forbidden(words: impl Into<String>) -> Refusal {
        Refusal::new(403, Code::Forbidden, words)
    }

    /// A parameter or body is invalid.
    pub fn bad(words: impl Into<String>) -> Refusal {
        Refusal::new(400, Code::BadRequest, words)
    }

    /// The body has a fault at this position.
    pub fn in_body(
        code: Code,
        words: impl Into<String>,
        position: protocol::TextPosition,
    ) -> Refusal {
        Refusal { position: Some(position), ..Refusal::new(400, code, words) }
    }

    /// The position of the fault in the body.
    #[cfg(test)]
    pub fn position(&self) -> Option<protocol::TextPosition> {
        self.position
    }

    /// A system call failed.
    pub fn io(words: impl ToString) -> Refusal {
        Refusal::new(500, Code::Io, words.to_string())
    }

    /// A file could not be written, perhaps because the disk is full.
    pub fn of_io(error: &std::io::Error, words: String) -> Refusal {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded => Refusal::new(507, Code::NoRoom, words),
            _ => Refusal::io(words),
        }
    }

    /// The requested service is not available at the moment.
    pub fn busy(words: impl Into<String>) -> Refusal {
        Refusal { field: Some(("Retry-After", "1")), ..Refusal::new(503, Code::Busy, words) }
    }

    /// The address has sent too many wrong tokens, so this token was not examined.
    pub fn braked(wait: Duration) -> Refusal {
        const WAITS: [(u64, &str); 7] =
            [(1, "1"), (2, "2"), (4, "4"), (8, "8"), (16, "16"), (32, "32"), (u64::MAX, "60")];
        let seconds = wait.as_millis().div_ceil(1000) as u64;
        let fits = |(most, _): &&(u64, &'static str)| seconds <= *most;
        let words = WAITS.iter().find(fits).map_or("60", |(_, words)| words);
        let field = Some(("Retry-After", words));
        let said = format!(
            "this address has sent too many wrong tokens: the one shown was not looked at: wait \
             {seconds} s"
        );
        Refusal { field, ..Refusal::new(503, Code::Busy, said) }
    }

    /// Other clients need the place.
    pub fn overloaded() -> Refusal {
        Refusal { field: Some(("Retry-After", "1")), ..Refusal::from(protocol::Error::Overloaded) }
    }

    /// The token is missing.
    pub fn unauthorized(words: impl Into<String>) -> Refusal {
        let field = Some(("WWW-Authenticate", "Bearer realm=\"frs\""));
        Refusal { field, ..Refusal::new(401, Code::Unauthorized, words) }
    }

    /// The token is wrong.
    pub fn wrong_token() -> Refusal {
        let words = "wrong token: expected Authorization: Bearer TOKEN";
        Refusal { wrong_token: true, ..Refusal::unauthorized(words) }
    }

    /// The path does not support this method.
    pub fn method(allow: &'static str) -> Refusal {
        let error = protocol::Error::BadMethod { allow };
        Refusal { field: Some(("Allow", allow)), ..Refusal::from(error) }
    }
}

impl From<protocol::Error> for Refusal {
    fn from(error: protocol::Error) -> Refusal {
        let (closes, position) = (error.closes(), error.position());
        Refusal {
            closes,
            position,
            ..Refusal::new(error.status(), error.code(), error.to_string())
        }
    }
}

/// The framing of an answer, and whether the connection closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadOptions {
    /// Whether no body follows.
    pub head_only: bool,
    /// Whether the request was HTTP/1.0.
    pub http10: bool,
    /// Whether the connection closes.
    pub closes: bool,
}

/// The head of an answer.
pub fn head(response: &Response, options: HeadOptions, now: Millis) -> Vec<u8> {
    let seconds = std::time::Duration::from_secs((now / 1000).min(253_402_300_799));
    let date = httpdate::HttpDate::from(std::time::UNIX_EPOCH + seconds);
    let mut text = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nDate: {date}\r\nContent-Length: {}\r\n",
        response.status,
        reason(response.status),
        response.kind,
        response.body.len(),
    );
    if let Some((name, value)) = response.field {
        text += &format!("{name}: {value}\r\n");
    }
    text += match (options.closes, options.http10) {
        (true, _) => "Connection: close\r\n\r\n",
        (false, true) => "Connection: keep-alive\r\n\r\n",
        (false, false) => "\r\n",
    };
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_how_the_connection_stands() {
        let refusal = Refusal::unauthorized("no");
        let response = Response::refusal(Format::Json, &refusal);
        let options = HeadOptions { head_only: false, http10: false, closes: true };
        let text = String::from_utf8(head(&response, options, 0)).unwrap();
        assert!(
            text.starts_with("HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\n")
        );
        assert!(
            text.contains("WWW-Authenticate: Bearer realm=\"frs\"\r\nConnection: close\r\n\r\n")
        );
        assert!(text.contains(&format!("Content-Length: {}\r\n", response.body.len())));
        assert!(text.contains("Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"), "{text}");
        let response = Response::refusal(Format::Xml, &Refusal::method("GET, HEAD"));
        let options = HeadOptions { head_only: false, http10: true, closes: false };
        let text = String::from_utf8(head(&response, options, 0)).unwrap();
        assert!(text.contains("405 Method Not Allowed") && text.contains("Allow: GET, HEAD\r\n"));
        assert!(text.ends_with("Connection: keep-alive\r\n\r\n"));
    }
}
