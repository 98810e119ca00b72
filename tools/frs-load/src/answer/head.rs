//! Where an answer ends, and what its head says.
//!
//! Invariant: a reply that is returned lies completely in the buffer, and has the fields that every
//! answer of its protocol has.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

use super::resp;
use super::said::number;
use crate::arguments::Format;

/// The longest answer: 65,536 items of the longest kind fit.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// A complete answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reply<'b> {
    /// 200 for every answer over RESP, which has no head: it is all body.
    pub status: u16,
    /// Whether the connection closes after it.
    pub closes: bool,
    pub content_type: &'b str,
    /// Values of fields, as they came.
    pub retry_after: Option<&'b [u8]>,
    pub rate_limit: Option<&'b [u8]>,
    pub rate_limit_policy: Option<&'b [u8]>,
    pub body: &'b [u8],
    /// Bytes of head and body.
    pub bytes: usize,
}

impl<'b> Reply<'b> {
    /// The answer at the start of `bytes`; none while it is incomplete.
    pub fn read(format: Format, bytes: &'b [u8]) -> Result<Option<Reply<'b>>, String> {
        match format {
            Format::Xml | Format::Json => Reply::read_http(bytes),
            Format::Resp => {
                let end = resp::end(bytes)?;
                let reply = |bytes: &'b [u8]| Reply {
                    status: 200,
                    body: bytes,
                    bytes: bytes.len(),
                    ..Reply::default()
                };
                Ok(end.map(|end| reply(&bytes[..end])))
            }
        }
    }

    fn read_http(bytes: &'b [u8]) -> Result<Option<Reply<'b>>, String> {
        // Not cleared for each answer.
        let mut fields = [const { MaybeUninit::uninit() }; 48];
        let mut response = Response::new(&mut []);
        let parsed = ParserConfig::default()
            .parse_response_with_uninit_headers(&mut response, bytes, &mut fields)
            .map_err(|error| format!("no HTTP: {error}"))?;
        let Status::Complete(head_bytes) = parsed else { return Ok(None) };
        let mut reply = Reply { status: response.code.unwrap_or(0), ..Reply::default() };
        let (mut length, mut no_store) = (None, false);
        for field in response.headers.iter() {
            reply.take(field, &mut length, &mut no_store)?;
        }
        let length = length.ok_or("no Content-Length")?;
        if !no_store {
            return Err("no Cache-Control: no-store".to_owned());
        }
        reply.bytes = head_bytes.saturating_add(length);
        if reply.bytes > REPLY_BYTES_MAX {
            return Err(format!("an answer of {} bytes", reply.bytes));
        }
        Ok(bytes.get(head_bytes..reply.bytes).map(|body| Reply { body, ..reply }))
    }

    fn take(
        &mut self,
        field: &Header<'b>,
        length: &mut Option<usize>,
        no_store: &mut bool,
    ) -> Result<(), String> {
        let value = || {
            let text = std::str::from_utf8(field.value);
            text.map_err(|_| format!("{} is not UTF-8", field.name))
        };
        // Most are written as here.
        let is = |name: &str| field.name == name || field.name.eq_ignore_ascii_case(name);
        if is("Content-Length") {
            let number = number(field.value).and_then(|number| usize::try_from(number).ok());
            let number = number.ok_or_else(|| {
                format!("Content-Length: {}", String::from_utf8_lossy(field.value))
            })?;
            if length.replace(number).is_some() {
                return Err("Content-Length twice".to_owned());
            }
        } else if is("Content-Type") {
            self.content_type = value()?;
        } else if is("Cache-Control") {
            *no_store = field.value == b"no-store";
        } else if is("Connection") {
            self.closes = field.value.eq_ignore_ascii_case(b"close");
        } else if is("Retry-After") {
            self.retry_after = Some(field.value);
        } else if is("RateLimit") {
            self.rate_limit = Some(field.value);
        } else if is("RateLimit-Policy") {
            self.rate_limit_policy = Some(field.value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\
                         Cache-Control: no-store\r\nContent-Length: 2\r\n\r\nab";

    #[test]
    fn an_answer_is_read_once_it_is_whole() {
        for end in 0..WHOLE.len() {
            assert!(Reply::read_http(&WHOLE.as_bytes()[..end]).unwrap().is_none(), "{end}");
        }
        let more = format!("{WHOLE}HTTP");
        let reply = Reply::read_http(more.as_bytes()).unwrap().unwrap();
        assert_eq!((reply.status, reply.body, reply.bytes), (200, &b"ab"[..], WHOLE.len()));
        assert!(!reply.closes);
    }

    #[test]
    fn heads_that_are_wrong() {
        let wrong = |from: &str, to: &str| {
            let text = WHOLE.replace(from, to);
            Reply::read_http(text.as_bytes()).map(|_| ()).expect_err(&text)
        };
        assert!(wrong("HTTP/1.1", "HTTQ/1.1").starts_with("no HTTP"));
        assert_eq!(wrong("Content-Length: 2\r\n", ""), "no Content-Length");
        assert_eq!(wrong("Length: 2", "Length: -2"), "Content-Length: -2");
        assert_eq!(wrong("no-store", "public"), "no Cache-Control: no-store");
        let twice = wrong("Content-Length: 2", "Content-Length: 2\r\nContent-Length: 2");
        assert_eq!(twice, "Content-Length twice");
        let endless = wrong("Length: 2", "Length: 18446744073709551615");
        assert!(endless.starts_with("an answer of"));
    }
}
