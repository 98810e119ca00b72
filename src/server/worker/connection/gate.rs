//! Who asks at a connection of the data plane, by the tokens that it shows.
//!
//! Invariant: a caller is used only with the configuration that it was found in. A token is kept as
//! its digest, by which the caller is found anew after a reload.

use frs_conf::{Map, Right, Rights};
use frs_engine::access::{Access, Caller, TokenDigest};

use super::head_cache::{HeadNumber, Hit, Shown};
use crate::protocol::Error;
use crate::protocol::bearer::bearer;
use crate::protocol::request_head::Head;

/// The clients of the configuration in force.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a> {
    /// Who shows what, and may do what.
    pub access: &'a Access,
    /// The businesses.
    pub map: &'a Map,
    /// A number of the configuration, which no other one of this process has. Never 0.
    pub generation: u64,
}

/// The last token of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LastToken {
    /// It has shown none.
    #[default]
    Never,
    Right,
    Wrong,
}

/// What a connection knows of its caller.
#[derive(Debug)]
pub(super) struct Identity {
    is_unix: bool,
    /// The names of its certificate.
    cert: Vec<String>,
    /// The generation of `bare` and `caller`. 0 before the first one.
    generation: u64,
    /// The caller of a request that shows no token.
    bare: Caller,
    /// The caller of the current request, and the token that it shows.
    caller: Caller,
    token: Option<TokenDigest>,
    /// The cached head in which both were found, if they may use the businesses. A reload empties
    /// the cache, so no later head has its number.
    head: HeadNumber,
    pub last: LastToken,
}

impl Identity {
    pub fn new(is_unix: bool) -> Identity {
        Identity {
            is_unix,
            cert: Vec::new(),
            generation: 0,
            bare: Caller::NOBODY,
            caller: Caller::NOBODY,
            token: None,
            head: HeadNumber::default(),
            last: LastToken::Never,
        }
    }

    /// Notes the names of its certificate.
    pub fn show_cert(&mut self, names: Vec<String>) {
        (self.cert, self.generation, self.head) = (names, 0, HeadNumber::default());
    }

    /// Whether the wait of an address does not hold up this connection.
    pub fn is_exempt(&self) -> bool {
        self.is_unix || !self.cert.is_empty() || self.last == LastToken::Right
    }

    /// Finds the caller of a head that the cache has met. False if it may do nothing here.
    #[inline(always)]
    pub fn meet(&mut self, gate: Option<Gate<'_>>, met: &Hit<'_>) -> bool {
        let Some(gate) = gate else { return true };
        // A connection repeats its head.
        self.head == met.number || self.meet_other(gate, met)
    }

    #[inline(never)]
    fn meet_other(&mut self, gate: Gate<'_>, met: &Hit<'_>) -> bool {
        self.follow(gate);
        (self.caller, self.token) = match met.shown {
            Some(Shown { caller, token }) => {
                self.last = LastToken::Right;
                (*caller, Some(*token))
            }
            None => (self.bare, None),
        };
        let may = self.caller.rights.has_any(Rights::OF_BIZS);
        self.head = if may { met.number } else { HeadNumber::default() };
        may
    }

    /// Finds the caller of a head. In a request of a gateway the field Authorization belongs to the
    /// gateway's own client.
    ///
    /// # Errors
    /// The token is wrong, or the caller may do nothing with any business.
    pub fn find(
        &mut self,
        gate: Option<Gate<'_>>,
        head: &Head<'_, '_>,
        for_gateway: bool,
    ) -> Result<(), Error> {
        let Some(gate) = gate.filter(|gate| gate.access.is_on()) else { return Ok(()) };
        self.follow(gate);
        self.head = HeadNumber::default();
        (self.caller, self.token) = match token(head, for_gateway) {
            None => (self.bare, None),
            Some(token) => {
                let digest = TokenDigest::of(token);
                let Some(caller) = gate.access.by_token(&digest) else {
                    // A gateway passes on the fields of its own clients. Where it needs no token,
                    // a wrong one is theirs, and must not make the gateway wait.
                    if !for_gateway || !self.bare.rights.has(Right::Update) {
                        self.last = LastToken::Wrong;
                    }
                    return Err(Error::WrongToken);
                };
                self.last = LastToken::Right;
                (caller, Some(digest))
            }
        };
        match self.caller.rights.has_any(Rights::OF_BIZS) {
            true => Ok(()),
            false if self.caller.is_anonymous() => Err(Error::Unauthorized),
            false => Err(Error::NoRight),
        }
    }

    /// The token of the current head and its caller, for the head cache.
    pub fn shown(&self) -> Option<Shown> {
        Some(Shown { token: self.token?, caller: self.caller })
    }

    /// The caller of the current request, for the configuration in force.
    #[inline]
    pub fn caller(&mut self, gate: Option<Gate<'_>>) -> Caller {
        gate.into_iter().for_each(|gate| self.follow(gate));
        self.caller
    }

    /// Finds the callers anew if a reload has taken place.
    #[inline]
    fn follow(&mut self, gate: Gate<'_>) {
        if self.generation != gate.generation {
            self.resolve_again(gate);
        }
    }

    #[cold]
    fn resolve_again(&mut self, gate: Gate<'_>) {
        self.generation = gate.generation;
        let access = gate.access;
        self.bare = access.bare(&self.cert, self.is_unix);
        self.caller = match &self.token {
            None => self.bare,
            Some(token) => access.by_token(token).unwrap_or(Caller::NOBODY),
        };
    }
}

/// The token that a head shows. A field that occurs twice, or that holds no token, is a wrong one.
fn token<'b>(head: &Head<'_, 'b>, for_gateway: bool) -> Option<&'b [u8]> {
    let name = if for_gateway { "frs-token" } else { "authorization" };
    let mut fields = head.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    let first = fields.next()?.value;
    if fields.next().is_some() {
        return Some(b"");
    }
    match for_gateway {
        true => Some(first.trim_ascii()),
        false => bearer(first),
    }
}
