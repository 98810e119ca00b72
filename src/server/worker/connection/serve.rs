//! The interface of a connection to its worker and to the configuration.

use std::borrow::Cow;
use std::net::IpAddr;

use super::gate::Gate;
use crate::protocol::call::Call;
use crate::protocol::resp::{CommandSet, ServerFigures};
use crate::protocol::response_head::{Asker, ResponseOptions};
use frs_base::clock::Millis;
use frs_conf::{AuthzKey, Cidr, Http, Listen, Srv};
use frs_engine::{Answer, Answers, Exchange, ItemError, Quota, Registers, Request};
use frs_store::ClientRow;

/// The services of a worker to its connections.
pub trait Serve {
    /// Runs a request and gives one answer for each item, in order. `answers` must be empty.
    fn run(&mut self, request: &Request, answers: &mut Answers);

    /// Runs several requests in order, each like [`Serve::run`].
    fn run_all(&mut self, exchanges: &mut [Exchange]) {
        for Exchange { request, answers, .. } in exchanges {
            answers.clear();
            self.run(request, answers);
        }
    }

    /// Whether a waiting request has everything that it waits for. Running it earlier does no harm.
    fn may_go_on(&self, _exchange: &Exchange) -> bool {
        true
    }

    /// Drops a waiting request, because its connection is closed.
    fn give_up(&mut self, _exchange: &mut Exchange) {}

    /// The name of the biz with this index in the map, if there is one.
    fn biz_name(&self, index: usize) -> Option<&str>;

    /// The quotas behind the answer to a single item. Empty if the figures of the answer already
    /// tell its quota.
    fn quotas(&self, _request: &Request, _answer: &Answer, _quotas: &mut Vec<Quota>) {}

    /// Whether the worker is about to end. If so, the last answer to the input closes the
    /// connection, and /health answers 503 unless the worker [is replaced](Serve::replaced).
    fn draining(&self) -> bool;

    /// Whether other workers serve in place of this one, so that the server is healthy.
    fn replaced(&self) -> bool {
        false
    }

    /// A problem of the server although this worker serves, as text for /health only.
    fn problem(&self) -> Option<Problem> {
        None
    }

    /// The figures of the whole server for INFO. They may be a second old.
    fn figures(&mut self) -> ServerFigures {
        ServerFigures::default()
    }

    /// Counts an answer.
    fn answered(&mut self, _call: Call, _status: u16) {}

    /// The time of this tick.
    fn now(&self) -> Millis {
        0
    }

    /// Runs `work` on registers in one transaction, and commits. The work may run again if the
    /// transaction has to begin anew. Its time is [`Serve::now`].
    fn on_registers(
        &mut self,
        _at: RegistersAt<'_>,
        _keys: &[&[u8]],
        _work: &mut dyn FnMut(&mut dyn Registers),
    ) -> Result<(), ItemError> {
        Err(ItemError::UnknownBiz)
    }

    /// Whether [`Serve::on_registers`] takes this key.
    fn is_register_key(&mut self, _at: RegistersAt<'_>, _key: &[u8]) -> bool {
        true
    }

    /// Fetches the memory of registers that the next calls are about.
    fn expect_registers(&mut self, _at: RegistersAt<'_>, _keys: &[&[u8]]) {}

    /// Calls `each` with keys of a database, from a cursor on, and returns the next cursor. 0 is
    /// the beginning, and the end.
    fn scan_registers(
        &mut self,
        _at: RegistersAt<'_>,
        _cursor: u64,
        _count: usize,
        _each: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, ItemError> {
        Err(ItemError::UnknownBiz)
    }

    /// The registers of a database.
    fn count_registers(&mut self, _at: RegistersAt<'_>) -> Result<u64, ItemError> {
        Err(ItemError::UnknownBiz)
    }

    /// Notes that a connection has shown a wrong token. `peer` is `None` on a unix socket.
    fn wrong_token(&mut self, _peer: Option<IpAddr>) {}

    /// Notes that a client has sent a command that frs does not have.
    fn unknown_command(&mut self, _word: &[u8]) {}
}

/// A database of a business of registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistersAt<'a> {
    /// The business, by name or id.
    pub biz: &'a str,
    /// The number of the database.
    pub database: u16,
    /// The row that counts the commands of the client. `None` if clients are not told apart.
    pub client: Option<ClientRow>,
}

/// A problem of the server, for /health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The status of /health: 200 if the groups that are not affected are served as usual.
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
pub struct ConnectionRules<'a> {
    /// The bounds of requests, and the allowed hosts and pages.
    pub http: &'a Http,
    /// The source of the key of /authz.
    pub authz: &'a AuthzKey,
    /// Proxies whose X-Forwarded-For entries are skipped.
    pub trusted: &'a [Cidr],
    /// The address of the admin plane, for clients that look for it here.
    pub admin: Option<&'a Listen>,
    /// The clients. `None` if all callers are the same.
    pub gate: Option<Gate<'a>>,
}

impl<'a> ConnectionRules<'a> {
    /// The recipient of an answer with these options. It has an origin if the page's site is still
    /// allowed.
    #[inline]
    pub(super) fn asker(&self, options: ResponseOptions) -> Asker<'a> {
        let of = |mark| self.http.allow_origin.iter().find(|origin| origin.mark() == mark);
        Asker { options, origin: options.origin.and_then(of), admin: self.admin }
    }
}

impl<'a> ConnectionRules<'a> {
    /// The rules of a configuration with these clients.
    pub fn of(srv: &'a Srv, gate: Option<Gate<'a>>) -> ConnectionRules<'a> {
        ConnectionRules { gate, ..srv.into() }
    }

    /// The configuration in which callers are found. 0 without clients.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.gate.map_or(0, |gate| gate.generation)
    }
}

impl<'a> From<&'a Srv> for ConnectionRules<'a> {
    fn from(srv: &'a Srv) -> ConnectionRules<'a> {
        let admin = srv.main_admin().map(|admin| &admin.listen);
        let Srv { http, authz, trusted, .. } = srv;
        ConnectionRules { http, authz, trusted, admin, gate: None }
    }
}

/// The part of the configuration that a RESP connection uses: the common rules, and its `<resp>`.
#[derive(Debug, Clone, Copy)]
pub struct RespRules<'a> {
    /// The rules for every connection.
    pub rules: ConnectionRules<'a>,
    /// The index of the `<resp>`.
    pub nth: u16,
    /// Whether it has a token, which its client `default` shows.
    pub has_token: bool,
    /// The business of `CL.THROTTLE`, if there is one.
    pub throttle: Option<&'a str>,
    /// The databases of Redis' own commands, if there are these commands.
    pub registers: Option<Databases<'a>>,
}

/// The databases of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Databases<'a> {
    /// The business that holds their registers, by name or id.
    pub biz: &'a str,
    /// How many there are.
    pub count: u16,
}

impl<'a> RespRules<'a> {
    /// The rules of the `<resp>` with this index.
    pub fn of(srv: &'a Srv, nth: u16) -> RespRules<'a> {
        let resp = srv.resps.get(usize::from(nth));
        RespRules {
            rules: srv.into(),
            nth,
            has_token: resp.is_none_or(|resp| resp.token_file.is_some()),
            throttle: resp.and_then(|resp| resp.throttle.as_deref()),
            registers: resp.and_then(|resp| {
                let biz = resp.registers.as_deref()?;
                Some(Databases { biz, count: resp.databases })
            }),
        }
    }

    /// The same with these clients.
    #[must_use]
    pub fn with(self, gate: Option<Gate<'a>>) -> RespRules<'a> {
        RespRules { rules: ConnectionRules { gate, ..self.rules }, ..self }
    }

    /// The commands that are served.
    #[inline]
    pub fn commands(&self) -> CommandSet {
        CommandSet { has_registers: self.registers.is_some() }
    }

    /// How many databases SELECT knows.
    pub fn databases(&self) -> u16 {
        self.registers.map_or(1, |databases| databases.count)
    }

    /// A database. `None`: there is no such one, for example because a reload took it away.
    pub fn registers_at(&self, database: u16) -> Option<RegistersAt<'a>> {
        let Databases { biz, count } = self.registers?;
        (database < count).then_some(RegistersAt { biz, database, client: None })
    }
}
