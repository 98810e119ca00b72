//! Heads of answers, and answers of the whole request.
//!
//! What is appended is a whole answer: status line, fields, an empty line, the body, which never
//! follows on HEAD.

use std::time::{Duration, UNIX_EPOCH};

use super::{Error, xml};
use crate::clock::Millis;
use crate::service::{Answer, ItemError, Verdict};

/// Seconds after which an overloaded server may be asked again.
const OVERLOAD_RETRY_SECONDS: u64 = 1;

/// The last second that HTTP dates can name: the end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// The fields that every answer carries, Date among them, written once a second.
#[derive(Debug, Clone)]
pub struct Common {
    second: u64,
    fields: [u8; Common::FIELDS.len()],
}

impl Common {
    const FIELDS: &[u8] =
        b"Cache-Control: no-store\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: ";
    const DATE_AT: usize = 31;
    const DATE_LEN: usize = 29;

    /// At the epoch.
    pub fn new() -> Common {
        let mut fields = [0; Common::FIELDS.len()];
        fields.copy_from_slice(Common::FIELDS);
        Common { second: 0, fields }
    }

    /// Sets the date.
    pub fn set_now(&mut self, now: Millis) {
        let second = (now / 1000).min(LAST_SECOND);
        if second == self.second {
            return;
        }
        self.second = second;
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(second));
        let mut room = &mut self.fields[Common::DATE_AT..Common::DATE_AT + Common::DATE_LEN];
        // A date is 29 characters long up to the last second.
        let _ = std::io::Write::write_fmt(&mut room, format_args!("{date}"));
    }
}

impl Default for Common {
    fn default() -> Self {
        Common::new()
    }
}

/// What the client is told of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// It goes on, as HTTP/1.1 does unless told otherwise.
    Default,
    /// It goes on, as HTTP/1.0 must be told.
    KeepAlive,
    /// It is closed after this answer.
    Close,
}

/// What an answer's head depends on beside the answer itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manners {
    /// What is said of the connection.
    pub persistence: Persistence,
    /// HEAD: no body follows.
    pub head_only: bool,
}

impl Manners {
    /// Of a connection that is closed after the answer.
    pub const CLOSE: Manners = Manners { persistence: Persistence::Close, head_only: false };
}

/// Types of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Documents.
    Xml,
    /// Words.
    Text,
}

/// What an answer to a single item tells in its head.
#[derive(Debug, Clone, Copy)]
pub struct Single<'a> {
    /// The biz's name, where the biz is known.
    pub name: Option<&'a str>,
    /// The verdict.
    pub verdict: &'a Verdict,
    /// Tell `FRS-Limited`, for proxies.
    pub proxied: bool,
}

/// Appends an answer.
pub fn write(
    out: &mut Vec<u8>,
    common: &Common,
    manners: Manners,
    (status, kind, body): (u16, Kind, &[u8]),
    single: Option<Single<'_>>,
) {
    begin(out, common, manners, status, kind, body.len());
    if let Some(single) = single {
        write_single(out, &single);
    }
    end(out, manners, body);
}

/// Appends the answer of a whole request that cannot be served; `body` is scratch.
pub fn write_error(
    out: &mut Vec<u8>,
    common: &Common,
    manners: Manners,
    error: &Error,
    body: &mut Vec<u8>,
) {
    body.clear();
    xml::write_error(body, error);
    begin(out, common, manners, error.status(), Kind::Xml, body.len());
    match error {
        Error::BadMethod { allow } => {
            out.extend_from_slice(b"Allow: ");
            out.extend_from_slice(allow.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Error::Overloaded | Error::Draining => {
            put_number(out, b"Retry-After: ", OVERLOAD_RETRY_SECONDS, b"\r\n");
        }
        _ => {}
    }
    end(out, manners, body);
}

/// The status of the answer to a single item that stands in a GET or stands for a gateway's
/// request; `refusal` is the status of a limited one.
pub fn status_of(answer: &Answer, refusal: u16) -> u16 {
    match &answer.result {
        Ok(verdict) if verdict.limited => refusal,
        Ok(_) => 200,
        Err(ItemError::UnknownBiz | ItemError::BadKey | ItemError::BadCount) => 400,
        Err(ItemError::Store | ItemError::Busy | ItemError::Full) => 503,
    }
}

fn begin(
    out: &mut Vec<u8>,
    common: &Common,
    manners: Manners,
    status: u16,
    kind: Kind,
    body_len: usize,
) {
    match status {
        200 => out.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
        _ => {
            put_number(out, b"HTTP/1.1 ", u64::from(status), b" ");
            out.extend_from_slice(reason(status).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(match kind {
        Kind::Xml => b"Content-Type: application/xml\r\n",
        Kind::Text => b"Content-Type: text/plain; charset=utf-8\r\n",
    });
    put_number(out, &common.fields, body_len as u64, b"\r\n");
    match manners.persistence {
        Persistence::Default => {}
        Persistence::KeepAlive => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        Persistence::Close => out.extend_from_slice(b"Connection: close\r\n"),
    }
}

fn end(out: &mut Vec<u8>, manners: Manners, body: &[u8]) {
    out.extend_from_slice(b"\r\n");
    if !manners.head_only {
        out.extend_from_slice(body);
    }
}

fn write_single(out: &mut Vec<u8>, single: &Single<'_>) {
    let verdict = single.verdict;
    if let (Some(name), true) = (single.name, verdict.limit != 0) {
        write_rate_limit(out, name, verdict);
    }
    if let (true, Some(retry_ms)) = (verdict.limited, verdict.retry_ms) {
        put_number(out, b"Retry-After: ", seconds(retry_ms).max(1), b"\r\n");
    }
    if single.proxied {
        out.extend_from_slice(match verdict.limited {
            true => b"FRS-Limited: true\r\n",
            false => b"FRS-Limited: false\r\n",
        });
    }
}

/// RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers).
fn write_rate_limit(out: &mut Vec<u8>, name: &str, verdict: &Verdict) {
    let figures = &verdict.figures;
    // A biz's name holds nothing that a quoted string would have to escape.
    out.extend_from_slice(b"RateLimit-Policy: \"");
    out.extend_from_slice(name.as_bytes());
    put_number(out, b"\";q=", figures.max, b"");
    if let Some(window_ms) = verdict.window_ms {
        put_number(out, b";w=", seconds(window_ms), b"");
    }
    out.extend_from_slice(b"\r\nRateLimit: \"");
    out.extend_from_slice(name.as_bytes());
    put_number(out, b"\";r=", figures.remaining, b"");
    if let Some(reset_ms) = figures.reset_ms {
        put_number(out, b";t=", seconds(reset_ms), b"");
    }
    out.extend_from_slice(b"\r\n");
}

/// Whole seconds, rounded up.
fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1000)
}

fn put_number(out: &mut Vec<u8>, before: &[u8], number: u64, after: &[u8]) {
    out.extend_from_slice(before);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(after);
}

/// Words for the statuses that are answered, or that a refusal is likely to ask for.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        444 => "No Response",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        509 => "Bandwidth Limit Exceeded",
        _ => "Refused",
    }
}

#[cfg(test)]
mod tests;
