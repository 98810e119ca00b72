//! What a connection needs from its worker and from the configuration.

use std::borrow::Cow;

use crate::protocol::call::Call;
use crate::protocol::resp::ServerFigures;
use crate::protocol::response_head::{Asker, ResponseOptions};
use frs_conf::{AccessToken, AuthzKey, Cidr, Http, Listen, Srv};
use frs_engine::{Answer, Answers, Exchange, Quota, Request};

/// What a connection needs from the worker.
pub trait Serve {
    /// Runs a request: one answer for each item, in order. `answers` is empty before.
    fn run(&mut self, request: &Request, answers: &mut Answers);

    /// Runs several requests in order, each like [`Serve::run`].
    fn run_all(&mut self, exchanges: &mut [Exchange]) {
        for Exchange { request, answers, .. } in exchanges {
            answers.clear();
            self.run(request, answers);
        }
    }

    /// Has a request that waits all that it waits for. Running it again before does no harm.
    fn may_go_on(&self, _exchange: &Exchange) -> bool {
        true
    }

    /// A request that waits is not run again: its connection is closed.
    fn give_up(&mut self, _exchange: &mut Exchange) {}

    /// The name of the biz with this index in the map, if there is one.
    fn biz_name(&self, index: usize) -> Option<&str>;

    /// The quotas behind the answer to a lone item. None: its figures tell all of it.
    fn quotas(&self, _request: &Request, _answer: &Answer, _quotas: &mut Vec<Quota>) {}

    /// Whether the worker is about to end. If so, the last answer to what was read closes the
    /// connection, and /health answers 503 unless the worker [is replaced](Serve::replaced).
    fn draining(&self) -> bool;

    /// Whether other workers serve in this one's place, so that the server is healthy.
    fn replaced(&self) -> bool {
        false
    }

    /// What is wrong with the server although this worker serves, as text for /health. Nothing else
    /// uses it.
    fn problem(&self) -> Option<Problem> {
        None
    }

    /// The figures of the whole server, for INFO. They may be a second old.
    fn figures(&mut self) -> ServerFigures {
        ServerFigures::default()
    }

    /// Counts an answer.
    fn answered(&mut self, _call: Call, _status: u16) {}
}

/// What is wrong with the server, for /health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// 200 if the groups that are not affected are served as usual.
    pub status: u16,
    /// A description: one line with its line end.
    pub words: Cow<'static, str>,
}

impl From<&'static str> for Problem {
    /// A problem of the whole server.
    fn from(words: &'static str) -> Problem {
        Problem { status: 503, words: words.into() }
    }
}

/// The part of the configuration that a connection uses.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// Bounds.
    pub http: &'a Http,
    /// What /authz takes as its key.
    pub authz: &'a AuthzKey,
    /// Proxies whose X-Forwarded-For entries are skipped.
    pub trusted: &'a [Cidr],
    /// Where the admin plane listens, for clients that look for it here.
    pub admin: Option<&'a Listen>,
}

impl<'a> Rules<'a> {
    /// The recipient of an answer with these options. Its origin is set if the page's site is still
    /// allowed.
    #[inline]
    pub(super) fn asker(&self, options: ResponseOptions) -> Asker<'a> {
        let of = |mark| self.http.allow_origin.iter().find(|origin| origin.mark() == mark);
        Asker { options, origin: options.origin.and_then(of), admin: self.admin }
    }
}

impl<'a> From<&'a Srv> for Rules<'a> {
    fn from(srv: &'a Srv) -> Rules<'a> {
        let admin = srv.admin.as_ref().map(|admin| &admin.listen);
        Rules { http: &srv.http, authz: &srv.authz, trusted: &srv.trusted, admin }
    }
}

/// That of a `<resp>` that is none: nobody is served there.
static NO_TOKEN: AccessToken = AccessToken::UNKNOWN;

/// What a connection that speaks RESP uses of the configuration: the same, and what its `<resp>`
/// says.
#[derive(Debug, Clone, Copy)]
pub struct RespRules<'a> {
    /// What holds for every connection.
    pub rules: Rules<'a>,
    /// What clients have to name. `None`: everyone is served.
    pub token: Option<&'a AccessToken>,
    /// The business of `CL.THROTTLE`, if there is one.
    pub throttle: Option<&'a str>,
}

impl<'a> RespRules<'a> {
    /// Those of the nth `<resp>`.
    pub fn of(srv: &'a Srv, nth: u16) -> RespRules<'a> {
        let resp = srv.resps.get(usize::from(nth));
        RespRules {
            rules: srv.into(),
            token: resp.map_or(Some(&NO_TOKEN), |resp| resp.token.as_ref()),
            throttle: resp.and_then(|resp| resp.throttle.as_deref()),
        }
    }
}
