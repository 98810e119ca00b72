//! A connection of the admin plane without its socket: bytes in, a request out; an answer in, bytes
//! out.
//!
//! Invariant: a connection holds at most one request, with head and body within their bounds, and
//! one answer. A body is read only for a request that is served.

use std::sync::Arc;

use super::access::Admitted;
use super::response::{HeadOptions, Refusal, Response, head};
use super::route::Route;
use crate::protocol::chunked::Chunked;
use crate::protocol::request_head::{self, Body, Head, Search};
use crate::protocol::{Error, Format};
use frs_base::clock::Millis;

/// The largest head, in bytes.
pub const MAX_HEAD_BYTES: u32 = 8 << 10;
/// The largest body, in bytes: a `<biz>` that lists some ten thousand keys.
pub const MAX_BODY_BYTES: u32 = 1 << 20;

/// A complete request that may be served.
#[derive(Debug)]
pub struct AdminRequest {
    /// The route.
    pub route: Route,
    /// The name of the request's token, if it has one.
    pub name: Option<Arc<str>>,
    /// The format of the answer.
    pub format: Format,
    /// The body. Empty unless the route takes one.
    pub body: Vec<u8>,
    /// The format of the body.
    pub body_format: Format,
    /// The method, path and parameters without the key, for the log.
    pub line: String,
}

/// A connection.
#[derive(Debug)]
pub struct AdminConnection {
    input: Vec<u8>,
    stage: RequestStage,
    options: HeadOptions,
    out: Vec<u8>,
    body: Arc<[u8]>,
    sent: usize,
}

#[derive(Debug)]
enum RequestStage {
    Head(Search),
    Body(Box<AdminRequest>, BodyFraming),
    /// The request was returned, and its answer is not ready.
    Answering,
    /// The answer is being written.
    Answered,
    /// The last answer is written.
    Over,
}

#[derive(Debug)]
enum BodyFraming {
    Length(usize),
    Chunked(Chunked),
}

/// A request that is refused.
struct RefusedRequest {
    /// The request as text for the log.
    line: String,
    refusal: Refusal,
    /// The format of the answer.
    format: Format,
}

impl RefusedRequest {
    /// A request with an unreadable head.
    fn unread(error: Error) -> RefusedRequest {
        RefusedRequest { line: "?".to_owned(), refusal: error.into(), format: Format::Xml }
    }
}

/// The result of a step.
#[derive(Debug)]
pub enum ConnectionStep {
    /// The connection needs more input, or first an answer.
    Wait,
    /// A request to be answered.
    Run(Box<AdminRequest>),
    /// A refused request, as text for the log. Its answer is ready.
    Refused(String, Refusal),
}

const CLOSING: HeadOptions = HeadOptions { head_only: false, http10: false, closes: true };

impl Default for AdminConnection {
    fn default() -> Self {
        AdminConnection {
            input: Vec::new(),
            stage: RequestStage::Head(Search::START),
            options: CLOSING,
            out: Vec::new(),
            body: Arc::from([]),
            sent: 0,
        }
    }
}

impl AdminConnection {
    /// Whether the connection accepts more input.
    pub fn wants_input(&self) -> bool {
        matches!(self.stage, RequestStage::Head(_) | RequestStage::Body(..))
    }

    /// Whether a request has begun and not ended.
    pub fn has_begun(&self) -> bool {
        match self.stage {
            // Empty lines do not count.
            RequestStage::Head(_) => self.input.iter().any(|byte| !b"\r\n".contains(byte)),
            RequestStage::Body(..) => true,
            RequestStage::Answering | RequestStage::Answered | RequestStage::Over => false,
        }
    }

    /// Whether the connection holds a body, or an answer that is not ready or not written.
    pub fn holds(&self) -> bool {
        match self.stage {
            RequestStage::Head(_) | RequestStage::Over => false,
            RequestStage::Body(..) | RequestStage::Answering | RequestStage::Answered => true,
        }
    }

    /// Appends input.
    pub fn take(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Looks for the next request. `admit` decides whether it is served.
    pub fn step(
        &mut self,
        now: Millis,
        admit: impl Fn(&Head<'_, '_>) -> Result<Admitted, Refusal>,
    ) -> ConnectionStep {
        match self.advance(admit) {
            Ok(Some(asked)) => ConnectionStep::Run(asked),
            Ok(None) => ConnectionStep::Wait,
            Err(refused) => self.refuse(refused, now),
        }
    }

    /// The next request, once it is complete.
    fn advance(
        &mut self,
        admit: impl Fn(&Head<'_, '_>) -> Result<Admitted, Refusal>,
    ) -> Result<Option<Box<AdminRequest>>, RefusedRequest> {
        if let RequestStage::Head(search) = &mut self.stage {
            // Empty lines before a request line are skipped (RFC 9112, section 2.2).
            if *search == Search::START {
                let lines = self.input.chunks_exact(2).take_while(|pair| *pair == b"\r\n").count();
                self.input.drain(..lines * 2);
                if self.input == b"\r" {
                    return Ok(None);
                }
            }
            let end = search.end(&self.input, MAX_HEAD_BYTES).map_err(RefusedRequest::unread)?;
            let Some(end) = end else { return Ok(None) };
            let bytes: Vec<u8> = self.input.drain(..end).collect();
            self.begin(&request_head::as_http11(&bytes).unwrap_or(bytes), admit)?;
        }
        self.read_body()
    }

    fn begin(
        &mut self,
        bytes: &[u8],
        admit: impl Fn(&Head<'_, '_>) -> Result<Admitted, Refusal>,
    ) -> Result<(), RefusedRequest> {
        self.options = CLOSING;
        let mut room = request_head::fields();
        let head = Head::parse(bytes, &mut room, MAX_HEAD_BYTES).map_err(RefusedRequest::unread)?;
        let format = head.answer_format(head.own_format());
        let line = shown(&head);
        // The body of a refused request is not read, so no request can follow it.
        self.options = HeadOptions {
            head_only: head.method == "HEAD",
            http10: head.http10,
            closes: !head.keep_alive || head.body != Body::Length(0),
        };
        let refused = |refusal: Refusal| RefusedRequest { line: line.clone(), refusal, format };
        let Admitted { route, name } = admit(&head).map_err(refused)?;
        let body_format = match route.takes_body() {
            true => head.content().map_err(|error| refused(error.into()))?,
            false => Format::Xml,
        };
        let framed = match head.body {
            Body::Length(length) if length > u64::from(MAX_BODY_BYTES) => {
                return Err(refused(Error::TooLarge { max_bytes: MAX_BODY_BYTES }.into()));
            }
            Body::Length(length) => BodyFraming::Length(length as usize),
            Body::Chunked => BodyFraming::Chunked(Chunked::new(MAX_BODY_BYTES, MAX_HEAD_BYTES)),
        };
        self.options.closes = !head.keep_alive;
        if head.expects_continue {
            self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let body = Vec::new();
        let asked = AdminRequest { route, name, format, body, body_format, line };
        self.stage = RequestStage::Body(Box::new(asked), framed);
        Ok(())
    }

    /// The request, once its whole body is present.
    fn read_body(&mut self) -> Result<Option<Box<AdminRequest>>, RefusedRequest> {
        let RequestStage::Body(asked, framed) = &mut self.stage else { return Ok(None) };
        let done = match framed {
            BodyFraming::Length(length) => {
                let taken = self.input.len().min(*length - asked.body.len());
                asked.body.extend(self.input.drain(..taken));
                asked.body.len() == *length
            }
            BodyFraming::Chunked(chunked) => {
                let body = &mut asked.body;
                let taken = chunked.decode(&self.input, |piece| body.extend_from_slice(piece));
                let taken = taken.map_err(|error| RefusedRequest {
                    line: asked.line.clone(),
                    refusal: error.into(),
                    format: asked.format,
                })?;
                self.input.drain(..taken);
                chunked.is_done()
            }
        };
        if !done {
            return Ok(None);
        }
        match std::mem::replace(&mut self.stage, RequestStage::Answering) {
            RequestStage::Body(asked, _) => Ok(Some(asked)),
            _ => Ok(None),
        }
    }

    fn refuse(&mut self, refused: RefusedRequest, now: Millis) -> ConnectionStep {
        let RefusedRequest { line, refusal, format } = refused;
        // If a body has begun, its end is unknown, so the connection closes.
        self.options.closes |= refusal.closes || matches!(self.stage, RequestStage::Body(..));
        self.answer(&Response::refusal(format, &refusal), now);
        ConnectionStep::Refused(line, refusal)
    }

    /// Answers a request that was not completed in time.
    pub fn time_out(&mut self, now: Millis) {
        self.options.closes = true;
        self.answer(&Response::refusal(Format::Xml, &Error::Timeout.into()), now);
    }

    /// Tells the client that there is no place for it, unless another answer has begun. Returns
    /// whether it did.
    pub fn turn_away(&mut self, now: Millis) -> bool {
        let says = match self.stage {
            RequestStage::Head(_) | RequestStage::Body(..) => true,
            RequestStage::Answered => self.sent == 0,
            RequestStage::Answering | RequestStage::Over => false,
        };
        if says {
            if let RequestStage::Answered = self.stage {
                self.out.clear();
            }
            self.options.closes = true;
            self.answer(&Response::refusal(Format::Xml, &Refusal::overloaded()), now);
        }
        says
    }

    /// Refuses the client before it sends a request.
    pub fn forbid(&mut self, error: Error, now: Millis) {
        self.options = CLOSING;
        self.answer(&Response::refusal(Format::Xml, &error.into()), now);
    }

    /// Gives the answer to the current request.
    pub fn answer(&mut self, response: &Response, now: Millis) {
        self.out.extend_from_slice(&head(response, self.options, now));
        self.body = if self.options.head_only { Arc::from([]) } else { Arc::clone(&response.body) };
        self.stage = RequestStage::Answered;
    }

    /// The bytes to write next. Empty if there are none.
    pub fn output(&self) -> &[u8] {
        match self.out.get(self.sent..) {
            Some(head) if !head.is_empty() => head,
            _ => self.body.get(self.sent.saturating_sub(self.out.len())..).unwrap_or_default(),
        }
    }

    /// Notes that this many bytes were written.
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent < self.out.len() + self.body.len() {
            return;
        }
        self.out.clear();
        self.body = Arc::from([]);
        self.sent = 0;
        if let RequestStage::Answered = self.stage {
            let next = RequestStage::Head(Search::START);
            self.stage = if self.options.closes { RequestStage::Over } else { next };
        }
    }

    /// Whether a request was returned and has no answer yet.
    pub fn is_waiting(&self) -> bool {
        matches!(self.stage, RequestStage::Answering)
    }

    /// Whether to read more input. If there is already as much as a head can have, that is
    /// processed first.
    pub fn has_room(&self) -> bool {
        self.wants_input() && self.input.len() < MAX_HEAD_BYTES as usize
    }

    /// Whether the last answer is written, so that the connection must close.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, RequestStage::Over)
    }

    /// Whether there is something to write.
    pub fn has_output(&self) -> bool {
        !self.output().is_empty()
    }
}

/// The parameters that the log shows.
const SHOWN: [&str; 12] = [
    "biz",
    "limit",
    "used",
    "on",
    "n",
    "by",
    "window",
    "since",
    "before",
    "grow",
    "lossy",
    "lift-bans",
];

/// The method, path and parameters for the log, without the key, which is private.
fn shown(head: &Head<'_, '_>) -> String {
    let (path, query) = head.target.split_once('?').unwrap_or((head.target, ""));
    let is_shown = |pair: &&str| SHOWN.contains(&pair.split('=').next().unwrap_or_default());
    let shown: Vec<&str> = query.split('&').filter(is_shown).collect();
    let between = if shown.is_empty() { "" } else { "?" };
    let target = format!("{path}{between}{}", shown.join("&"));
    let safe = |c: &char| c.is_ascii_graphic();
    format!("{} {}", head.method, target.chars().filter(safe).take(128).collect::<String>())
}

#[cfg(test)]
mod tests;
