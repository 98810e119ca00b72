//! What a connection needs of its worker and of the configuration.

use std::borrow::Cow;

use crate::protocol::call::Call;
use crate::protocol::response_head::{Asker, ResponseOptions};
use frs::conf::{AuthzKey, Cidr, Http, Listen, Srv};
use frs::service::{Answers, Exchange, Request};

/// What a connection needs of the worker.
pub trait Serve {
    /// Runs a request: one answer for each item, in order. `answers` is empty.
    fn run(&mut self, request: &Request, answers: &mut Answers);

    /// Runs several requests, in order, each as [`Serve::run`] does.
    fn run_all(&mut self, exchanges: &mut [Exchange]) {
        for Exchange { request, answers } in exchanges {
            answers.clear();
            self.run(request, answers);
        }
    }

    /// The name of the biz with this index in the map, if there is one.
    fn biz_name(&self, index: usize) -> Option<&str>;

    /// Is the worker about to end? Then a connection is closed with the last answer to what was
    /// read, and /health answers 503, unless the worker [is replaced](Serve::replaced).
    fn draining(&self) -> bool;

    /// Do others serve in this worker's place, so that the server is as healthy as ever?
    fn replaced(&self) -> bool {
        false
    }

    /// What is wrong with the server although this worker serves, in words for /health. Asked for
    /// nothing else.
    fn problem(&self) -> Option<Problem> {
        None
    }

    /// Notes an answer, for the counters.
    fn answered(&mut self, _call: Call, _status: u16) {}
}

/// What is wrong with the server, for /health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// 200 where others than those who hear of it are served as ever.
    pub status: u16,
    /// What it is: a line with its end.
    pub words: Cow<'static, str>,
}

impl From<&'static str> for Problem {
    /// What concerns all of the server.
    fn from(words: &'static str) -> Problem {
        Problem { status: 503, words: words.into() }
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
    /// Where the admin plane listens, for those who look for it here.
    pub admin: Option<&'a Listen>,
}

impl<'a> Rules<'a> {
    /// Whom to answer: pages of a site read it if they may still ask.
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
