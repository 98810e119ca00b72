//! The worker's side of a connection: what it lends, and how answers are run and written.
//!
//! Each call of [`Side`] appends exactly one whole answer, and counts it.

use super::memo::Memos;
use crate::clock::Millis;
use crate::conf::{AuthzKey, Cidr, Http, Srv};
use crate::protocol::http::Head;
use crate::protocol::reply::{self, Common, Kind, Manners, Persistence, Single};
use crate::protocol::{Error, Line, form, xml};
use crate::service::{Answer, Answers, Command, Request};

/// What a connection needs of the worker.
pub trait Serve {
    /// Runs a request: one answer for each item, in order. `answers` is empty.
    fn run(&mut self, request: &Request, answers: &mut Answers);

    /// The name of the biz with this index in the map, if there is one.
    fn biz_name(&self, index: usize) -> Option<&str>;

    /// Is the worker about to end? Then a connection is closed with the last answer to what was
    /// read, and /health answers 503.
    fn draining(&self) -> bool;

    /// Notes an answer, for the counters.
    fn answered(&mut self, _call: Call, _status: u16) {}
}

/// What an answer is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Query, however it was asked.
    Query,
    /// Update, likewise.
    Update,
    /// Update for a gateway.
    Authz,
    /// Is this worker serving?
    Health,
    /// What could not be told apart.
    Other,
}

impl From<Command> for Call {
    fn from(command: Command) -> Call {
        match command {
            Command::Query => Call::Query,
            Command::Update => Call::Update,
        }
    }
}

/// What of the configuration a connection goes by.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// Bounds.
    pub http: &'a Http,
    /// What /authz takes as its key.
    pub authz: &'a AuthzKey,
    /// Proxies whose X-Forwarded-For entries are skipped.
    pub trusted: &'a [Cidr],
}

impl<'a> From<&'a Srv> for Rules<'a> {
    fn from(srv: &'a Srv) -> Rules<'a> {
        Rules { http: &srv.http, authz: &srv.authz, trusted: &srv.trusted }
    }
}

/// Buffers for the request in hand: one for a worker, for all of its connections.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) memos: Memos,
    pub(super) common: Common,
    pub(super) request: Request,
    pub(super) answers: Answers,
    pub(super) xml: xml::Decoded,
    pub(super) form: form::Decoded,
    pub(super) key: String,
    pub(super) chunks: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) line: Line,
}

impl Scratch {
    /// Starts a turn: the time that answers are dated with.
    pub fn set_now(&mut self, now: Millis) {
        self.common.set_now(now);
    }

    /// Appends an answer for a connection that is closed after it: [`Error::Overloaded`],
    /// [`Error::PeerForbidden`].
    pub fn refuse(&mut self, error: &Error, out: &mut Vec<u8>) {
        let Scratch { line, common, body, .. } = self;
        reply::write_error(out, line, common, Manners::CLOSE, error, body);
    }
}

/// What the client said of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Courtesy {
    http10: bool,
    keep_alive: bool,
    head_only: bool,
}

impl Courtesy {
    pub fn of(head: &Head<'_, '_>) -> Courtesy {
        Courtesy {
            http10: head.http10,
            keep_alive: head.keep_alive,
            head_only: head.method == "HEAD",
        }
    }

    pub fn manners(&self, close: bool) -> Manners {
        let persistence = match (close || !self.keep_alive, self.http10) {
            (true, _) => Persistence::Close,
            (false, true) => Persistence::KeepAlive,
            (false, false) => Persistence::Default,
        };
        Manners { persistence, head_only: self.head_only }
    }
}

/// The worker's side of a connection.
pub(super) struct Side<'a, S> {
    pub rules: Rules<'a>,
    pub serve: &'a mut S,
    pub scratch: &'a mut Scratch,
    pub out: &'a mut Vec<u8>,
}

impl<S: Serve> Side<'_, S> {
    /// Runs the request and writes its document.
    fn run(&mut self) {
        let Scratch { request, answers, body, line, .. } = self.scratch;
        answers.refused = false;
        answers.items.clear();
        answers.details.clear();
        self.serve.run(request, answers);
        debug_assert_eq!(answers.items.len(), request.items().len());
        body.clear();
        xml::write(body, line, request, answers);
    }

    pub fn run_items(&mut self, command: Command, manners: Manners) {
        self.run();
        let Scratch { common, answers, body, line, .. } = self.scratch;
        let single = match &answers.items[..] {
            [answer] => single(answer, self.serve, false),
            _ => None,
        };
        reply::write(self.out, line, common, manners, (200, Kind::Xml, body), single);
        self.serve.answered(Call::from(command), 200);
    }

    pub fn run_single(&mut self, call: Call, refusal: u16, manners: Manners) {
        self.run();
        let Scratch { common, answers, body, line, .. } = self.scratch;
        let answer = answers.items.first();
        let status = answer.map_or(503, |answer| reply::status_of(answer, refusal));
        let single = answer.and_then(|answer| single(answer, self.serve, true));
        reply::write(self.out, line, common, manners, (status, Kind::Xml, body), single);
        self.serve.answered(call, status);
    }

    pub fn write(&mut self, call: Call, manners: Manners, answer: (u16, Kind, &[u8])) {
        let Scratch { common, line, .. } = self.scratch;
        reply::write(self.out, line, common, manners, answer, None);
        self.serve.answered(call, answer.0);
    }

    pub fn write_error(&mut self, call: Call, manners: Manners, error: &Error) {
        let Scratch { common, body, line, .. } = self.scratch;
        reply::write_error(self.out, line, common, manners, error, body);
        self.serve.answered(call, error.status());
    }
}

/// What the head of the answer to a single item tells, unless the item failed.
fn single<'a, S: Serve>(answer: &'a Answer, serve: &'a S, proxied: bool) -> Option<Single<'a>> {
    let verdict = answer.result.as_ref().ok()?;
    let name = answer.biz.and_then(|index| serve.biz_name(index));
    Some(Single { name, verdict, proxied })
}
