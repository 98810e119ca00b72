//! What the admin plane answers: a status, some fields, a body; and what it refuses, in words.

use std::sync::Arc;

use crate::protocol::element::{Element, Layout};
use crate::protocol::response_head::reason;
use crate::protocol::{self, Format};
use frs::base::clock::Millis;

/// A header field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderField {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: &'static str,
}

impl HeaderField {
    /// A field of this name and value.
    pub const fn new(name: &'static str, value: &'static str) -> HeaderField {
        HeaderField { name, value }
    }
}

/// A document and the status that it is answered with.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusDocument {
    /// HTTP status.
    pub status: u16,
    /// The document's root.
    pub root: Element,
}

/// Something for one who has asked, or by one who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addressed<W, T> {
    /// Who.
    pub who: W,
    /// What.
    pub what: T,
}

/// An answer without its head.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Its media type.
    pub kind: &'static str,
    /// Shared by all who ask for the same.
    pub body: Arc<[u8]>,
    /// One more header field.
    pub field: Option<HeaderField>,
}

/// Media types.
pub(super) const XML: &str = "application/xml";
pub(super) const JSON: &str = "application/json";

impl Response {
    /// A document.
    pub fn document(status: u16, format: Format, root: &Element) -> Response {
        let kind = match format {
            Format::Xml => XML,
            Format::Json => JSON,
        };
        Response {
            status,
            kind,
            body: root.document(format, Layout::Lines).into_bytes().into(),
            field: None,
        }
    }

    /// Text in XML that stands as it is.
    pub fn xml(text: Arc<[u8]>) -> Response {
        Response { status: 200, kind: XML, body: text, field: None }
    }

    /// A page of another kind.
    pub fn page(kind: &'static str, body: Vec<u8>) -> Response {
        Response { status: 200, kind, body: body.into(), field: None }
    }

    /// A refusal.
    pub fn refusal(format: Format, refusal: &Refusal) -> Response {
        let position = refusal.position;
        let root = Element::text("error", &*refusal.words)
            .with("code", refusal.code)
            .with_some("line", position.map(|position| u64::from(position.line)))
            .with_some("column", position.map(|position| u64::from(position.column)));
        Response { field: refusal.field, ..Response::document(refusal.status, format, &root) }
    }
}

/// Why a request is not served, or a change not made.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// The code clients see.
    pub code: &'static str,
    /// In words; several faults are several lines.
    pub words: String,
    /// Is it for a token that is not the one: such answers have a brake.
    pub wrong_token: bool,
    /// Is the connection closed after it.
    pub closes: bool,
    position: Option<protocol::TextPosition>,
    field: Option<HeaderField>,
}

impl Refusal {
    /// Of a status, with a code and words.
    pub fn new(status: u16, code: &'static str, words: impl Into<String>) -> Refusal {
        let (wrong_token, closes, position, field) = (false, false, None, None);
        Refusal { status, code, words: words.into(), wrong_token, closes, position, field }
    }

    /// Nothing is there.
    pub fn not_found(words: impl Into<String>) -> Refusal {
        Refusal::new(404, "not-found", words)
    }

    /// Who asks may not.
    pub fn forbidden(words: impl Into<String>) -> Refusal {
        Refusal::new(403, "forbidden", words)
    }

    /// A parameter or body that is none.
    pub fn bad(words: impl Into<String>) -> Refusal {
        Refusal::new(400, "bad-request", words)
    }

    /// The system does not let it happen.
    pub fn io(words: impl Into<String>) -> Refusal {
        Refusal::new(500, "io", words)
    }

    /// It is not to be had at the moment.
    pub fn busy(words: impl Into<String>) -> Refusal {
        Refusal {
            field: Some(HeaderField::new("Retry-After", "1")),
            ..Refusal::new(503, "busy", words)
        }
    }

    /// Others need the place.
    pub fn overloaded() -> Refusal {
        Refusal {
            field: Some(HeaderField::new("Retry-After", "1")),
            ..Refusal::from(protocol::Error::Overloaded)
        }
    }

    /// The token is missing.
    pub fn unauthorized(words: impl Into<String>) -> Refusal {
        let field = Some(HeaderField::new("WWW-Authenticate", "Bearer realm=\"frs\""));
        Refusal { field, ..Refusal::new(401, "unauthorized", words) }
    }

    /// There is a token, and it is not the one.
    pub fn wrong_token() -> Refusal {
        let words = "wrong token: expected Authorization: Bearer TOKEN";
        Refusal { wrong_token: true, ..Refusal::unauthorized(words) }
    }

    /// The path does not take this method.
    pub fn method(allow: &'static str) -> Refusal {
        let error = protocol::Error::BadMethod { allow };
        Refusal { field: Some(HeaderField::new("Allow", allow)), ..Refusal::from(error) }
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

/// How the connection stands after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadOptions {
    /// No body follows.
    pub head_only: bool,
    /// HTTP/1.0.
    pub http10: bool,
    /// It is closed.
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
    if let Some(HeaderField { name, value }) = response.field {
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
