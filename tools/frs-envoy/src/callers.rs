//! Who asks: the client of a call, and what it may do.
//!
//! Invariant: a caller is used only with the configuration that it was found in. An address that
//! guesses tokens waits, and holds up no connection that has shown a right one.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::status::{Status, StatusCode};
use frs_base::clock;
use frs_conf::{Conf, Right, Rights};
use frs_engine::access::{Access, Brake, Caller, Carried, TokenDigest, TokenDigests, needed};
use frs_engine::{Command, ItemOptions};
use frs_server::protocol::bearer::bearer;

/// The clients of a configuration.
#[derive(Debug)]
pub struct Callers {
    access: Access,
    /// The name of each place.
    names: Vec<Arc<str>>,
}

/// The client of a call.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'c> {
    callers: &'c Callers,
    caller: Caller,
}

/// What a descriptor asks for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'b> {
    /// The place of its business in map.xml.
    pub at: usize,
    /// The name of its business.
    pub biz: &'b str,
    /// The count that it charges.
    pub count: i64,
    /// What it carries besides.
    pub carried: Carried,
}

impl Callers {
    /// The clients of a configuration, with the tokens that the master has read. `None` if srv.xml
    /// has no `<clients>`.
    pub fn of(conf: &Conf, digests: Option<TokenDigests>) -> Option<Callers> {
        let clients = conf.srv.clients.as_ref()?;
        let names = clients.names().map(Arc::from).collect();
        Some(Callers { access: Access::of(conf, digests), names })
    }

    /// The client that shows this token, or else a certificate with these names, or the one that
    /// shows nothing. `None`: the token is wrong.
    pub fn find(
        &self,
        token: Option<&TokenDigest>,
        cert: &[String],
        is_unix: bool,
    ) -> Option<Asker<'_>> {
        let caller = self.access.resolve(token, cert, is_unix)?;
        Some(Asker { callers: self, caller })
    }
}

impl Asker<'_> {
    /// The name of the client.
    pub fn name(&self) -> Option<Arc<str>> {
        self.callers.names.get(self.caller.index.place()).cloned()
    }

    /// Checks that the client may charge a business. What srv.xml sets for a descriptor, such as
    /// `force`, needs no right of the client.
    ///
    /// # Errors
    /// It may not, or has to show who it is.
    pub fn check(&self, asked: &Asked<'_>) -> Result<(), Status> {
        let count = asked.count.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let rights = needed(Command::Update, ItemOptions::of(count), asked.carried);
        match self.callers.access.may(self.caller, rights, asked.at) {
            true => Ok(()),
            false => Err(self.lacks(rights, asked.biz)),
        }
    }

    /// Whether the client may settle holds that are unknown.
    pub fn may_settle_unknown(&self) -> bool {
        self.caller.has(Right::Force)
    }

    #[cold]
    fn lacks(&self, rights: Rights, biz: &str) -> Status {
        let rights: Vec<&str> = rights.iter().map(|right| right.word()).collect();
        let rights = rights.join(" ");
        if self.caller.is_anonymous() {
            let message = format!(
                "found no token, expected authorization: Bearer and the token of a client that may \
                 {rights} {biz:?}"
            );
            return Status::new(StatusCode::Unauthenticated, message);
        }
        let name = self.name().unwrap_or_default();
        let message = format!("found the client {name}, expected one that may {rights} {biz:?}");
        Status::new(StatusCode::PermissionDenied, message)
    }
}

/// The token that the head of a call shows. A field that occurs twice holds no right token.
pub fn token(fields: &HeaderMap) -> Option<TokenDigest> {
    let mut values = fields.get_all(AUTHORIZATION).iter();
    let first = values.next()?;
    match values.next() {
        None => bearer(first.as_bytes()).map(TokenDigest::of),
        Some(_) => Some(TokenDigest::of(b"")),
    }
}

/// The peer of a connection.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// `None` on a unix socket.
    pub address: Option<IpAddr>,
    /// The connection has shown a right token.
    is_known: Arc<AtomicBool>,
}

impl Peer {
    /// The peer of a new connection.
    pub fn new(address: Option<IpAddr>) -> Peer {
        Peer { address, is_known: Arc::default() }
    }

    /// Whether the peer is at the other end of a unix socket.
    pub fn is_unix(&self) -> bool {
        self.address.is_none()
    }
}

/// The addresses that have shown wrong tokens.
#[derive(Debug, Default)]
pub struct WrongTokens(Mutex<Brake>);

impl WrongTokens {
    fn brake(&self) -> MutexGuard<'_, Brake> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a new connection of a peer waits, and a token of a connection that has shown no
    /// right one.
    pub fn delay(&self, peer: &Peer) -> Duration {
        let address = peer.address.filter(|_| !peer.is_known.load(Ordering::Relaxed));
        let Some(address) = address else { return Duration::ZERO };
        let brake = self.brake();
        if brake.is_idle() {
            return Duration::ZERO;
        }
        let now_ms = clock::boot_ms();
        until(brake.wait(address, now_ms), now_ms)
    }

    /// Notes that a peer has shown a right token.
    pub fn note_right(&self, peer: &Peer) {
        peer.is_known.store(true, Ordering::Relaxed);
    }

    /// Notes a wrong token of a peer. Returns how long its answer waits.
    #[cold]
    pub fn note_wrong(&self, peer: &Peer) -> Duration {
        let Some(address) = peer.address else { return Duration::ZERO };
        peer.is_known.store(false, Ordering::Relaxed);
        let mut brake = self.brake();
        let now_ms = clock::boot_ms();
        brake.note_wrong(address, now_ms);
        until(brake.until(address, now_ms), now_ms)
    }
}

fn until(end_ms: Option<u64>, now_ms: u64) -> Duration {
    Duration::from_millis(end_ms.map_or(0, |end_ms| end_ms.saturating_sub(now_ms)))
}

/// The status of a call with a wrong token.
pub fn wrong_token() -> Status {
    let message = "found another token, expected that of a <client> of srv.xml";
    Status::new(StatusCode::Unauthenticated, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer::new(Some(address.parse().expect("an address")))
    }

    // Shows: envoy-clients.
    #[test]
    fn who_guesses_tokens_waits_and_holds_up_no_right_one() {
        let wrong = WrongTokens::default();
        let (known, unix) = (peer("203.0.113.1"), Peer::new(None));
        wrong.note_right(&known);
        for nth in 1..10 {
            assert_eq!(wrong.note_wrong(&peer("203.0.113.1")), Duration::ZERO, "wrong token {nth}");
        }
        assert!(wrong.delay(&peer("203.0.113.1")).is_zero());
        let first = wrong.note_wrong(&peer("203.0.113.1"));
        assert!(!first.is_zero());
        assert!(wrong.note_wrong(&peer("203.0.113.1")) > first, "the wait doubles");
        assert!(!wrong.delay(&peer("203.0.113.1")).is_zero(), "a new connection waits");
        for other in [&known, &unix, &peer("203.0.113.2")] {
            assert_eq!(wrong.delay(other), Duration::ZERO, "{other:?}");
        }
        for _ in 0..100 {
            assert_eq!(wrong.note_wrong(&unix), Duration::ZERO);
        }
    }

    #[test]
    fn a_token_is_shown_once_and_as_bearer() {
        let fields = |values: &[&'static str]| {
            let mut fields = HeaderMap::new();
            for value in values {
                fields.append(AUTHORIZATION, http::HeaderValue::from_static(value));
            }
            token(&fields)
        };
        let digest = Some(TokenDigest::of(b"secret"));
        assert_eq!(fields(&["Bearer secret"]), digest);
        assert_eq!(fields(&["bearer  secret "]), digest);
        assert_eq!(fields(&[]), None);
        assert_eq!(fields(&["Basic secret"]), None, "it is about somebody else");
        let none = Some(TokenDigest::of(b""));
        assert_eq!(fields(&["Bearer"]), none);
        assert_eq!(fields(&["Bearer secret", "Bearer secret"]), none);
    }
}
