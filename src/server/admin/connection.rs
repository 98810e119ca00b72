//! One connection without its socket: bytes in, a request out; an answer in, bytes out.
//!
//! Invariant: it holds at most one request, its head and body within their bounds, and one answer;
//! a body is read only of a request that is served.

use std::sync::Arc;

use super::response::{HeadOptions, Refusal, Response, head};
use super::route::Route;
use crate::protocol::chunked::Chunked;
use crate::protocol::http::{self, Body, Head, Search};
use crate::protocol::{Error, Format};
use frs::base::clock::Millis;

/// Bytes of a head.
pub const MAX_HEAD_BYTES: u32 = 8 << 10;
/// Bytes of a body: a `<biz>` that lists some ten thousand keys.
pub const MAX_BODY_BYTES: u32 = 1 << 20;

/// A whole request that may be served.
#[derive(Debug)]
pub struct Asked {
    /// What is asked.
    pub route: Route,
    /// Of the answer.
    pub format: Format,
    /// Empty but where the route takes one.
    pub body: Vec<u8>,
    /// Method, path and parameters but for a key, for the log.
    pub line: String,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    input: Vec<u8>,
    stage: Stage,
    options: HeadOptions,
    out: Vec<u8>,
    body: Arc<[u8]>,
    sent: usize,
}

#[derive(Debug)]
enum Stage {
    Head(Search),
    Body(Box<Asked>, Framed),
    /// The request is out.
    Answering,
    /// Its answer is being written.
    Answered,
    /// The last one is written.
    Over,
}

#[derive(Debug)]
enum Framed {
    Length(usize),
    Chunked(Chunked),
}

/// A request that is refused.
struct RefusedRequest {
    /// In words, for the log.
    line: String,
    refusal: Refusal,
    /// In which that is said.
    format: Format,
}

impl RefusedRequest {
    /// One whose head cannot be read.
    fn unread(error: Error) -> RefusedRequest {
        RefusedRequest { line: "?".to_owned(), refusal: error.into(), format: Format::Xml }
    }
}

/// What came of the input.
#[derive(Debug)]
pub enum Step {
    /// More is to come, or an answer first.
    Wait,
    /// A request.
    Run(Box<Asked>),
    /// One that was refused: the answer is there, these are its words for the log.
    Refused(String, Refusal),
}

const CLOSING: HeadOptions = HeadOptions { head_only: false, http10: false, closes: true };

impl Default for Connection {
    fn default() -> Self {
        Connection {
            input: Vec::new(),
            stage: Stage::Head(Search::START),
            options: CLOSING,
            out: Vec::new(),
            body: Arc::from([]),
            sent: 0,
        }
    }
}

impl Connection {
    /// Is more input wanted.
    pub fn wants_input(&self) -> bool {
        matches!(self.stage, Stage::Head(_) | Stage::Body(..))
    }

    /// Has a request begun, and not ended.
    pub fn has_begun(&self) -> bool {
        match self.stage {
            // Empty lines are no part of one.
            Stage::Head(_) => self.input.iter().any(|byte| !b"\r\n".contains(byte)),
            Stage::Body(..) => true,
            Stage::Answering | Stage::Answered | Stage::Over => false,
        }
    }

    /// Does it hold a body, or an answer that is not here or not written yet?
    pub fn holds(&self) -> bool {
        match self.stage {
            Stage::Head(_) | Stage::Over => false,
            Stage::Body(..) | Stage::Answering | Stage::Answered => true,
        }
    }

    /// Takes input.
    pub fn take(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Looks for the next request; `admit` says which are served.
    pub fn step(
        &mut self,
        now: Millis,
        admit: impl Fn(&Head<'_, '_>) -> Result<Route, Refusal>,
    ) -> Step {
        if let Stage::Head(search) = &mut self.stage {
            // Empty lines before a request line are let pass (RFC 9112, section 2.2).
            if *search == Search::START {
                let lines = self.input.chunks_exact(2).take_while(|pair| *pair == b"\r\n").count();
                self.input.drain(..lines * 2);
                if self.input == b"\r" {
                    return Step::Wait;
                }
            }
            match search.end(&self.input, MAX_HEAD_BYTES) {
                Ok(None) => return Step::Wait,
                Ok(Some(end)) => {
                    let bytes: Vec<u8> = self.input.drain(..end).collect();
                    let bytes = http::as_http11(&bytes).unwrap_or(bytes);
                    if let Err(refused) = self.begin(&bytes, admit) {
                        return self.refuse(refused, now);
                    }
                }
                Err(error) => {
                    return self.refuse(RefusedRequest::unread(error), now);
                }
            }
        }
        match self.read_body() {
            Ok(Some(asked)) => Step::Run(asked),
            Ok(None) => Step::Wait,
            Err(refused) => self.refuse(refused, now),
        }
    }

    fn begin(
        &mut self,
        bytes: &[u8],
        admit: impl Fn(&Head<'_, '_>) -> Result<Route, Refusal>,
    ) -> Result<(), RefusedRequest> {
        self.options = CLOSING;
        let mut room = http::fields();
        let head = Head::parse(bytes, &mut room, MAX_HEAD_BYTES).map_err(RefusedRequest::unread)?;
        let format = head.answer_format(head.own_format());
        let line = shown(&head);
        // What follows a request that is not served is not read, so nothing can follow it.
        self.options = HeadOptions {
            head_only: head.method == "HEAD",
            http10: head.http10,
            closes: !head.keep_alive || head.body != Body::Length(0),
        };
        let refused = |refusal: Refusal| RefusedRequest { line: line.clone(), refusal, format };
        let route = admit(&head).map_err(refused)?;
        if route.takes_body() {
            head.xml_content().map_err(|error| refused(error.into()))?;
        }
        let framed = match head.body {
            Body::Length(length) if length > u64::from(MAX_BODY_BYTES) => {
                return Err(refused(Error::TooLarge { max_bytes: MAX_BODY_BYTES }.into()));
            }
            Body::Length(length) => Framed::Length(length as usize),
            Body::Chunked => Framed::Chunked(Chunked::new(MAX_BODY_BYTES, MAX_HEAD_BYTES)),
        };
        self.options.closes = !head.keep_alive;
        if head.expects_continue {
            self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let asked = Asked { route, format, body: Vec::new(), line };
        self.stage = Stage::Body(Box::new(asked), framed);
        Ok(())
    }

    /// The request, once all of its body is there.
    fn read_body(&mut self) -> Result<Option<Box<Asked>>, RefusedRequest> {
        let Stage::Body(asked, framed) = &mut self.stage else { return Ok(None) };
        let done = match framed {
            Framed::Length(length) => {
                let taken = self.input.len().min(*length - asked.body.len());
                asked.body.extend(self.input.drain(..taken));
                asked.body.len() == *length
            }
            Framed::Chunked(chunked) => {
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
        match std::mem::replace(&mut self.stage, Stage::Answering) {
            Stage::Body(asked, _) => Ok(Some(asked)),
            _ => Ok(None),
        }
    }

    fn refuse(&mut self, refused: RefusedRequest, now: Millis) -> Step {
        let RefusedRequest { line, refusal, format } = refused;
        // Where a body ends that was begun is not known.
        self.options.closes |= refusal.closes || matches!(self.stage, Stage::Body(..));
        self.answer(&Response::refusal(format, &refusal), now);
        Step::Refused(line, refusal)
    }

    /// A request begun was not finished in time.
    pub fn time_out(&mut self, now: Millis) {
        self.options.closes = true;
        self.answer(&Response::refusal(Format::Xml, &Error::Timeout.into()), now);
    }

    /// There is no place for it: answers that, unless another answer has begun.
    pub fn turn_away(&mut self, now: Millis) -> bool {
        let says = match self.stage {
            Stage::Head(_) | Stage::Body(..) => true,
            Stage::Answered => self.sent == 0,
            Stage::Answering | Stage::Over => false,
        };
        if says {
            if let Stage::Answered = self.stage {
                self.out.clear();
            }
            self.options.closes = true;
            self.answer(&Response::refusal(Format::Xml, &Refusal::overloaded()), now);
        }
        says
    }

    /// Gives the answer to the request that is out.
    pub fn answer(&mut self, response: &Response, now: Millis) {
        self.out.extend_from_slice(&head(response, self.options, now));
        self.body = if self.options.head_only { Arc::from([]) } else { Arc::clone(&response.body) };
        self.stage = Stage::Answered;
    }

    /// What is to be written next; empty: nothing.
    pub fn output(&self) -> &[u8] {
        match self.out.get(self.sent..) {
            Some(head) if !head.is_empty() => head,
            _ => self.body.get(self.sent.saturating_sub(self.out.len())..).unwrap_or_default(),
        }
    }

    /// Notes that so much of it was written.
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent < self.out.len() + self.body.len() {
            return;
        }
        self.out.clear();
        self.body = Arc::from([]);
        self.sent = 0;
        if let Stage::Answered = self.stage {
            let next = Stage::Head(Search::START);
            self.stage = if self.options.closes { Stage::Over } else { next };
        }
    }

    /// Is a request out, and its answer not here yet.
    pub fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Answering)
    }

    /// Is more input to be read? Not where there is as much as a head can have: that comes first.
    pub fn has_room(&self) -> bool {
        self.wants_input() && self.input.len() < MAX_HEAD_BYTES as usize
    }

    /// Is it to be closed: the last answer is written.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Is something to be written.
    pub fn has_output(&self) -> bool {
        !self.output().is_empty()
    }
}

/// Parameters that the log shows.
const SHOWN: [&str; 6] = ["biz", "limit", "used", "on", "n", "by"];

/// Method, path and parameters for the log, but for the key: that is nobody's business there.
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
mod tests {
    use super::*;
    use crate::protocol::route::Target;

    fn admit(head: &Head<'_, '_>) -> Result<Route, Refusal> {
        super::super::route::route(head.method, &Target::parse(head.target)?)
    }

    /// Every request that comes of the pieces, each answered at once; what was written.
    fn run(pieces: &[&[u8]]) -> (Vec<Asked>, String, bool) {
        let (mut connection, mut asked, mut out) = (Connection::default(), vec![], vec![]);
        for piece in pieces {
            if connection.wants_input() {
                connection.take(piece);
            }
            loop {
                let step = connection.step(0, admit);
                let run = matches!(step, Step::Run(_));
                if let Step::Run(one) = step {
                    asked.push(*one);
                    connection.answer(&Response::xml(Arc::from(*b"<ok/>")), 0);
                }
                while connection.has_output() {
                    out.push(connection.output()[0]);
                    connection.note_sent(1);
                }
                if !run {
                    break;
                }
            }
        }
        (asked, String::from_utf8(out).unwrap(), connection.is_over())
    }

    #[test]
    fn requests_in_any_pieces() {
        let input = b"PUT /biz/a HTTP/1.1\r\nContent-Length: 6\r\n\r\n<biz/>\
            PUT /biz/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n<bi\r\n3\r\nz/>\r\n0\r\n\r\n\
            HEAD /health HTTP/1.1\r\nConnection: close\r\n\r\nrest";
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        for cut in 0..input.len() {
            let (asked, out, over) = run(&[&input[..cut], &input[cut..]]);
            let bodies: Vec<&[u8]> = asked.iter().map(|asked| &asked.body[..]).collect();
            assert_eq!(bodies, [&b"<biz/>"[..], b"<biz/>", b""], "cut at {cut}");
            assert_eq!(out.matches("200 OK").count(), 3);
            assert_eq!(out.matches("<ok/>").count(), 2, "none follows on HEAD");
            assert!(over);
        }
        assert_eq!(run(&bytes).0.len(), 3);
    }

    #[test]
    fn bounds_and_refusals_close_where_a_body_would_follow() {
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(9000));
        let over = MAX_BODY_BYTES + 1;
        let chunk = format!("{over:x}\r\n");
        for (input, status, closes) in [
            ("GET /none HTTP/1.1\r\n\r\n".to_owned(), 404, false),
            ("GET /none HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc".to_owned(), 404, true),
            (long, 431, true),
            (format!("PUT /biz/a HTTP/1.1\r\nContent-Length: {over}\r\n\r\n"), 413, true),
            (
                format!("PUT /biz/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"),
                413,
                true,
            ),
            ("POST /reload HTTP/1.1\r\nContent-Length: 1, 2\r\n\r\n".to_owned(), 400, true),
            ("GET /health#top HTTP/1.1\r\n\r\n".to_owned(), 400, true),
            ("GET /health?x HTTP/1.1\r\n\r\n".to_owned(), 400, false),
            ("GET / HTTP/2.0\r\n\r\n".to_owned(), 505, true),
            ("GET / HTTP/1.10\r\n\r\n".to_owned(), 400, true),
            ("\0".to_owned(), 400, true),
            (
                "PUT /biz/a HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                 Content-Length: 1\r\n\r\na"
                    .to_owned(),
                415,
                true,
            ),
        ] {
            let (asked, out, is_over) = run(&[input.as_bytes()]);
            assert!(asked.is_empty(), "{input:?}");
            assert!(out.starts_with(&format!("HTTP/1.1 {status} ")), "{input:?} {out}");
            assert_eq!(is_over, closes, "{input:?}");
            assert_eq!(out.contains("Connection: close"), closes, "{input:?}");
        }
    }

    #[test]
    fn a_body_of_another_type_is_told_which_are_read() {
        for (kind, expected) in [
            ("text/plain", "expected application/xml or text/xml"),
            ("application/json", "expected application/xml or text/xml"),
            ("application/xml; charset=latin1", "expected the charset UTF-8"),
        ] {
            let input = format!("PUT /biz/a HTTP/1.1\r\nContent-Type: {kind}\r\n\r\n");
            let (_, out, _) = run(&[input.as_bytes()]);
            assert!(out.starts_with("HTTP/1.1 415 "), "{out}");
            assert!(
                out.contains(&format!(">{expected}<")) || out.contains(&format!("\"{expected}\"")),
                "{out}"
            );
        }
    }

    #[test]
    fn later_minor_versions_are_served_as_the_one_that_is_spoken() {
        let input =
            b"PUT /biz/a HTTP/1.2\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n<biz/>\r\n0\r\n\r\n\
            GET /health HTTP/1.9\r\n\r\n";
        for cut in 0..input.len() {
            let (asked, out, over) = run(&[&input[..cut], &input[cut..]]);
            assert_eq!(asked.len(), 2, "cut at {cut}: {out}");
            assert_eq!((&asked[0].body[..], over), (&b"<biz/>"[..], false), "cut at {cut}");
        }
    }

    #[test]
    fn empty_lines_before_a_request_are_let_pass_and_begin_none() {
        let input = b"\r\n\r\nGET /health HTTP/1.1\r\n\r\n\r\nGET /biz HTTP/1.1\r\n\r\n";
        for cut in 0..input.len() {
            let (asked, out, _) = run(&[&input[..cut], &input[cut..]]);
            assert_eq!(asked.len(), 2, "cut at {cut}: {out}");
        }
        let mut connection = Connection::default();
        for byte in b"\r\n\r\n\r" {
            connection.take(&[*byte]);
            assert!(matches!(connection.step(0, admit), Step::Wait));
            assert!(!connection.has_begun());
        }
        assert!(connection.input.len() < 2, "they are not kept");
        for wrong in [&b"\n"[..], b"\rGET", b"\r\n\n", b"\r\n\r\r"] {
            assert!(run(&[wrong]).1.starts_with("HTTP/1.1 400 "), "{wrong:?}");
        }
    }

    #[test]
    fn who_is_turned_away_is_told_unless_an_answer_has_begun() {
        let told = |input: &[u8], answered: bool, written: usize| {
            let mut connection = Connection::default();
            connection.take(input);
            if let (Step::Run(_), true) = (connection.step(0, admit), answered) {
                connection.answer(&Response::xml(Arc::from(*b"<ok/>")), 0);
                connection.note_sent(written);
            }
            let told = connection.turn_away(0);
            let out = connection.output();
            assert_eq!(out.starts_with(b"HTTP/1.1 503 Service Unavailable\r\n"), told);
            let out = String::from_utf8_lossy(out).into_owned();
            assert_eq!(out.contains("Connection: close"), told, "{out}");
            told
        };
        let request = b"GET /health HTTP/1.1\r\n\r\n";
        assert!(told(b"", false, 0) && told(b"GET /he", false, 0) && told(request, true, 0));
        assert!(told(b"PUT /biz/a HTTP/1.1\r\nContent-Length: 9\r\n\r\n<biz", false, 0));
        assert!(!told(request, false, 0) && !told(request, true, 1));
    }

    #[test]
    fn who_waits_for_100_gets_it() {
        let head = b"PUT /biz/a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n";
        let (asked, out, _) = run(&[head]);
        assert!(asked.is_empty());
        assert_eq!(out, "HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(run(&[head, b"<biz/>"]).0.len(), 1);
    }
}
