//! The head of a request: its end, its fields, and the framing of its body (RFC 9110, RFC 9112).
//!
//! A head that arrives whole is parsed at once. If a head arrives in pieces, each new byte is
//! searched once for its end, and then the head is parsed.
//!
//! Invariant: both ways give the same result. A head whose framing has two readings is an error
//! that closes the connection.

use std::mem::MaybeUninit;

use httparse::Header;

use super::Error;
use super::accept_header::Accept;
use super::chunked::is_token;
use super::error::MAX_FIELDS;
use super::format::Format;
use frs_conf::Authority;

/// The progress of the search for the end of a head, in offsets from its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Search {
    scanned: usize,
    line: usize,
}

impl Search {
    /// The start of a search.
    pub const START: Search = Search { scanned: 0, line: 0 };

    /// Searches for the end of the head at the start of `input`, from where the last call stopped.
    /// Returns `None` if the end has not arrived.
    pub fn end(&mut self, input: &[u8], max_head_bytes: u32) -> Result<Option<usize>, Error> {
        let window = &input[..input.len().min(max_head_bytes as usize)];
        // Garbage is refused at once, because its line may never end.
        if let Some(&first) = window.first()
            && !is_token(first)
        {
            return Err(if first == TLS_HANDSHAKE { TLS_REQUEST } else { BAD_REQUEST_LINE });
        }
        while let Some(found) = memchr::memchr(b'\n', &window[self.scanned..]) {
            let lf = self.scanned + found;
            if lf == 0 || window[lf - 1] != b'\r' {
                return Err(Error::BadHttp("bare LF: lines end in CR LF"));
            }
            if lf == self.line + 1 {
                return Ok(Some(lf + 1));
            }
            self.scanned = lf + 1;
            self.line = lf + 1;
        }
        self.scanned = window.len();
        if window.len() == max_head_bytes as usize {
            return Err(Error::HeadTooLarge { max_bytes: max_head_bytes });
        }
        Ok(None)
    }
}

/// Room for the header fields of one head.
pub type Fields<'b> = [MaybeUninit<Header<'b>>; MAX_FIELDS];

/// Room for [`Head::parse`].
pub const fn fields<'b>() -> Fields<'b> {
    [const { MaybeUninit::uninit() }; MAX_FIELDS]
}

/// The framing of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// A body of this many bytes. 0 without a body.
    Length(u64),
    /// The chunked transfer coding.
    Chunked,
}

/// The value of a field that may occur at most once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lone<'b> {
    /// The field is absent.
    #[default]
    Absent,
    /// The field occurs once, with this value.
    Once(&'b [u8]),
    /// The field occurs several times.
    Repeated,
}

impl<'b> Lone<'b> {
    fn add(&mut self, value: &'b [u8]) {
        *self = if *self == Lone::Absent { Lone::Once(value) } else { Lone::Repeated };
    }
}

/// A parsed head.
#[derive(Debug)]
pub struct Head<'h, 'b> {
    /// The method as sent. Methods are case-sensitive.
    pub method: &'b str,
    /// The request target.
    pub target: &'b str,
    /// All header fields.
    pub fields: &'h [Header<'b>],
    /// The body that follows the head.
    pub body: Body,
    /// Whether the version is HTTP/1.0 rather than 1.1.
    pub http10: bool,
    /// Whether the client wants to use the connection again.
    pub keep_alive: bool,
    /// Whether the client waits for 100 before it sends its body.
    pub expects_continue: bool,
    /// The value of the Host field.
    pub host: Lone<'b>,
    /// The site of the page for which a browser sends the request.
    pub origin: Lone<'b>,
    /// The id under which an Update is charged once, as it was sent.
    pub idempotency_key: Lone<'b>,
    /// Whether a browser says by `Sec-Fetch-Site` that the request comes from another site, and not
    /// from its user or a page of this host.
    pub cross_site: bool,
    accept: Accept,
    content_type: Option<&'b [u8]>,
    content_fault: Option<&'static str>,
}

impl<'h, 'b> Head<'h, 'b> {
    /// Parses a whole head, including the empty line at its end.
    pub fn parse(
        bytes: &'b [u8],
        fields: &'h mut Fields<'b>,
        max_head_bytes: u32,
    ) -> Result<Head<'h, 'b>, Error> {
        let mut parsed = httparse::Request::new(&mut []);
        match parsed.parse_with_uninit_headers(bytes, fields) {
            Ok(httparse::Status::Complete(end)) if end == bytes.len() => {}
            Ok(_) => return Err(BAD_REQUEST_LINE),
            Err(error) => return Err(fault(error, bytes, max_head_bytes)),
        }
        Head::of(parsed)
    }

    /// Parses the head at the start of `input` if it is complete and all its lines end in CR LF,
    /// and returns it with its length. On `None`, the caller searches for the end of the head,
    /// which finds any fault.
    pub fn parse_at_once(
        input: &'b [u8],
        fields: &'h mut Fields<'b>,
        max_head_bytes: u32,
    ) -> Option<(usize, Result<Head<'h, 'b>, Error>)> {
        let window = &input[..input.len().min(max_head_bytes as usize)];
        let mut parsed = httparse::Request::new(&mut []);
        let Ok(httparse::Status::Complete(end)) = parsed.parse_with_uninit_headers(window, fields)
        else {
            return None;
        };
        // The parser accepts a bare LF, and empty lines before the head.
        let strict = is_token(window[0])
            && window[..end].ends_with(b"\r\n\r\n")
            && parsed.headers.iter().all(|field| {
                let start = field.name.as_ptr().addr() - window.as_ptr().addr();
                window[..start].ends_with(b"\r\n")
            });
        strict.then(|| (end, Head::of(parsed)))
    }

    fn of(parsed: httparse::Request<'h, 'b>) -> Result<Head<'h, 'b>, Error> {
        let (Some(method), Some(target), Some(minor)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Err(BAD_REQUEST_LINE);
        };
        let mut head = Head {
            method,
            target,
            fields: parsed.headers,
            body: Body::Length(0),
            http10: minor == 0,
            keep_alive: minor != 0,
            expects_continue: false,
            host: Lone::Absent,
            origin: Lone::Absent,
            idempotency_key: Lone::Absent,
            cross_site: false,
            accept: Accept::default(),
            content_type: None,
            content_fault: None,
        };
        head.read_fields()?;
        Ok(head)
    }

    fn read_fields(&mut self) -> Result<(), Error> {
        let mut framing = Framing::default();
        let (mut close, mut keep_alive) = (false, false);
        for Header { name, value } in self.fields {
            // The length is compared first, because most fields are none of these.
            match name.len() {
                4 if is(name, b"host") => self.host.add(value),
                6 if is(name, b"accept") => self.accept.add(value),
                6 if is(name, b"origin") => self.origin.add(value),
                6 if is(name, b"expect") => {
                    self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
                }
                10 if is(name, b"connection") => {
                    for option in value.split(|&byte| byte == b',') {
                        close |= option.trim_ascii().eq_ignore_ascii_case(b"close");
                        keep_alive |= option.trim_ascii().eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                12 if is(name, b"content-type") => {
                    let earlier = self.content_type.replace(value);
                    self.content_fault = earlier.map(|_| TWO_TYPES).or(self.content_fault);
                }
                14 if is(name, b"content-length") => framing.length(value)?,
                14 if is(name, b"sec-fetch-site") => {
                    self.cross_site |= !matches!(*value, b"none" | b"same-origin");
                }
                15 if is(name, b"idempotency-key") => self.idempotency_key.add(value),
                16 if is(name, b"content-encoding") && !value.eq_ignore_ascii_case(b"identity") => {
                    self.content_fault = Some(CODED);
                }
                17 if is(name, b"transfer-encoding") => framing.transfer(value),
                _ => {}
            }
        }
        self.body = framing.body(self.http10)?;
        self.keep_alive = !close && (self.keep_alive || keep_alive);
        self.expects_continue &= !self.http10 && self.body != Body::Length(0);
        Ok(())
    }

    /// The host of the Host field, which HTTP/1.1 requires (RFC 9112, section 3.2). `None` if a
    /// client of HTTP/1.0 names no host.
    pub fn authority(&self) -> Result<Option<Authority<'b>>, Error> {
        match self.host {
            Lone::Once(host) => Authority::parse(host).ok_or(BAD_HOST).map(Some),
            Lone::Absent if self.http10 => Ok(None),
            Lone::Absent => Err(Error::BadHttp("no Host: HTTP/1.1 asks for one")),
            Lone::Repeated => Err(Error::BadHttp("several Hosts: expected one")),
        }
    }

    /// The digits of Content-Length, if the field occurs once and consists of digits.
    pub fn lone_length(&self) -> Option<&'b [u8]> {
        let mut lengths =
            self.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("content-length"));
        match (lengths.next(), lengths.next()) {
            (Some(field), None) if decimal(field.value).is_some() => Some(field.value),
            _ => None,
        }
    }

    /// The format of the body, which is XML unless the head names another. frs must support it, and
    /// the charset must be UTF-8.
    pub fn content(&self) -> Result<Format, Error> {
        if let Some(what) = self.content_fault {
            return Err(Error::BadContentType(what));
        }
        let Some(value) = self.content_type else { return Ok(Format::Xml) };
        if value == b"application/xml" {
            return Ok(Format::Xml);
        }
        let mut parts = value.split(|&byte| byte == b';');
        let format = media_type(&mut parts).ok_or(NO_FORMAT)?;
        for part in parts {
            let mut pair = part.splitn(2, |&byte| byte == b'=');
            let name = pair.next().unwrap_or_default().trim_ascii();
            if name.eq_ignore_ascii_case(b"charset") {
                let value = pair.next().unwrap_or_default().trim_ascii();
                let quoted = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\""));
                if !quoted.unwrap_or(value).eq_ignore_ascii_case(b"utf-8") {
                    return Err(Error::BadContentType("expected the charset UTF-8"));
                }
            }
        }
        Ok(format)
    }

    /// The format of the answer: `own`, unless the client prefers the other one.
    pub fn answer_format(&self, own: Format) -> Format {
        self.accept.choose(own)
    }

    /// The format of a request that may be faulty: the format that its head names for the body,
    /// else XML.
    pub fn own_format(&self) -> Format {
        if self.method == "GET" || self.method == "HEAD" {
            return Format::Xml;
        }
        let Some(value) = self.content_type else { return Format::Xml };
        media_type(&mut value.split(|&byte| byte == b';')).unwrap_or(Format::Xml)
    }
}

/// The format that the first part of a Content-Type names.
fn media_type<'v>(parts: &mut impl Iterator<Item = &'v [u8]>) -> Option<Format> {
    Format::of_media_type(parts.next().unwrap_or_default().trim_ascii())
}

/// Whether this is the name of a field. In tokens, only letters may differ in the bit of case.
fn is<const N: usize>(name: &str, lower: &[u8; N]) -> bool {
    let bytes: Result<&[u8; N], _> = name.as_bytes().try_into();
    // The comparison has no branch for each byte.
    bytes.is_ok_and(|bytes| {
        bytes
            .iter()
            .zip(lower)
            .fold(0, |differing, (byte, lower)| differing | (byte | 0x20) ^ lower)
            == 0
    })
}

/// The first byte of a client that speaks TLS: the type of a record of the handshake (RFC 8446).
const TLS_HANDSHAKE: u8 = 22;
const TLS_REQUEST: Error =
    Error::BadHttp("found a handshake of TLS: this port speaks plain HTTP, call it by http://");
const BAD_REQUEST_LINE: Error = Error::BadHttp("expected a request line: METHOD TARGET HTTP/1.1");
const BAD_HOST: Error = Error::BadHttp("bad Host: expected HOST or HOST:PORT");
const NO_FORMAT: Error =
    Error::BadContentType("expected application/xml, text/xml or application/json");
const TWO_TYPES: &str = "expected one Content-Type, found several";
const CODED: &str = "expected no Content-Encoding but identity";
const BAD_LENGTH: Error = Error::BadHttp("bad Content-Length: expected decimal digits");

/// The framing of the body by the header fields.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    codings: usize,
    chunked: bool,
}

impl Framing {
    /// Adds a Content-Length field. A list in one field is equivalent to several fields.
    fn length(&mut self, value: &[u8]) -> Result<(), Error> {
        for element in value.split(|&byte| byte == b',') {
            let length = decimal(element.trim_ascii()).ok_or(BAD_LENGTH)?;
            if self.length.is_some_and(|earlier| earlier != length) {
                return Err(Error::BadHttp("two different Content-Lengths"));
            }
            self.length = Some(length);
        }
        Ok(())
    }

    fn transfer(&mut self, value: &[u8]) {
        self.codings += 1;
        self.chunked = value.eq_ignore_ascii_case(b"chunked");
    }

    fn body(&self, http10: bool) -> Result<Body, Error> {
        match (self.codings, self.length) {
            (0, length) => Ok(Body::Length(length.unwrap_or(0))),
            (_, Some(_)) => Err(Error::BadHttp("both Content-Length and Transfer-Encoding")),
            (_, None) if http10 => Err(Error::BadHttp("Transfer-Encoding in HTTP/1.0")),
            (1, None) if self.chunked => Ok(Body::Chunked),
            _ => Err(Error::BadTransferEncoding),
        }
    }
}

/// Parses decimal digits. A larger number saturates, and is then over any bound, too.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let value = digit.wrapping_sub(b'0');
        (value < 10).then(|| number.saturating_mul(10).saturating_add(u64::from(value)))
    })
}

fn fault(error: httparse::Error, bytes: &[u8], max_head_bytes: u32) -> Error {
    match error {
        httparse::Error::HeaderName => Error::BadHttp(
            "bad header name: expected a token, at once a colon, and no folded line before it",
        ),
        httparse::Error::HeaderValue => Error::BadHttp("control character in a header's value"),
        httparse::Error::TooManyHeaders => Error::HeadTooLarge { max_bytes: max_head_bytes },
        httparse::Error::Version if names_another_version(bytes) => Error::BadVersion,
        _ => BAD_REQUEST_LINE,
    }
}

/// Copies a whole head of HTTP/1.2 to 1.9 with 1.1 as its version, because a server answers a later
/// minor version as the highest one that it supports (RFC 9110, section 2.5). Returns `None` for
/// any other version.
///
/// No such clients exist yet, so no real request pays for the copy.
pub fn as_http11(bytes: &[u8]) -> Option<Vec<u8>> {
    let minor = memchr::memchr(b'\r', bytes)?.checked_sub(1)?;
    let is_later = bytes[..minor].ends_with(b" HTTP/1.") && matches!(bytes[minor], b'2'..=b'9');
    is_later.then(|| {
        let mut copy = bytes.to_vec();
        copy[minor] = b'1';
        copy
    })
}

/// Whether the request line ends in a version, even one that frs does not support.
fn names_another_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (_, _, Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return false;
    };
    version.strip_prefix(b"HTTP/").is_some_and(|number| {
        number.first().is_some_and(u8::is_ascii_digit)
            && number.iter().all(|&byte| byte == b'.' || byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests;
