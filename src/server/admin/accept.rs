//! Accepts clients from the listeners of the admin plane and of metrics.
//!
//! Invariant: the listener of every connection is known, so that only clients of the admin plane
//! get more than metrics. A client speaks TLS exactly where the configuration in force names a
//! `<tls>`. The transport is known, too, so that only TCP clients need a token.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};

use super::access::Transport;
use super::client::{AdminClient, ClientKind};
use crate::net::face::is_same;
use crate::net::listeners::PlainListener;
use crate::net::stream::Stream;
use crate::tls::configs::{Spoken, TlsConfigs};
use frs_conf::{Listen, Srv};

/// The most connections accepted in a tick.
pub(super) const ACCEPTS_PER_TICK: usize = 16;

/// The listeners of the admin plane's thread.
#[derive(Default)]
pub struct PlaneListeners {
    /// The listeners of the admin plane, each with its address.
    pub admins: Vec<(Listen, PlainListener)>,
    /// The listeners of metrics, each with its address.
    pub metrics: Vec<(Listen, PlainListener)>,
}

impl PlaneListeners {
    /// Whether there are no listeners.
    pub fn is_empty(&self) -> bool {
        self.admins.is_empty() && self.metrics.is_empty()
    }
}

enum AdminSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

struct AdminListener {
    socket: AdminSocket,
    kind: ClientKind,
    listen: Listen,
    spoken: Spoken,
    /// A connection may be waiting.
    ready: bool,
}

/// The listeners, registered in the loop.
pub(super) struct AdminListeners {
    listeners: Vec<AdminListener>,
    first_token: usize,
    /// The listener that was tried last.
    last: usize,
}

impl AdminListeners {
    /// Registers the listeners, with tokens from `first_token` on.
    pub fn register(
        listeners: PlaneListeners,
        registry: &Registry,
        first_token: usize,
    ) -> io::Result<AdminListeners> {
        let PlaneListeners { admins, metrics } = listeners;
        let admins = admins.into_iter().map(|of| (of, ClientKind::Admin));
        let metrics = metrics.into_iter().map(|of| (of, ClientKind::Metrics));
        let numbered = (first_token..).zip(admins.chain(metrics));
        let listeners = numbered.map(|(token, ((listen, listener), kind))| {
            let socket = AdminSocket::register(listener, registry, Token(token))?;
            let spoken = Spoken::Nothing;
            Ok(AdminListener { socket, kind, listen, spoken, ready: true })
        });
        let listeners = listeners.collect::<io::Result<_>>()?;
        Ok(AdminListeners { listeners, first_token, last: 0 })
    }

    /// Applies the `tls` of this configuration. A listener that the configuration lacks keeps its
    /// setting: a newer master opened it.
    pub fn take_tls(&mut self, srv: &Srv, configs: &TlsConfigs) {
        for listener in &mut self.listeners {
            let is_it = |listen: &Listen| is_same(listen, &listener.listen);
            let name = match listener.kind {
                ClientKind::Admin => {
                    let of_it = srv.admins.iter().find(|admin| is_it(&admin.listen));
                    of_it.map(|admin| &admin.tls)
                }
                ClientKind::Metrics | ClientKind::Stranger => {
                    let of_it = srv.metrics.iter().find(|endpoint| is_it(&endpoint.listen));
                    of_it.map(|endpoint| &endpoint.tls)
                }
            };
            if let Some(name) = name {
                listener.spoken = configs.spoken(name.as_deref());
            }
        }
    }

    /// The first token after those of the listeners.
    pub fn next_token(&self) -> usize {
        self.first_token + self.listeners.len()
    }

    /// Notes that a connection waits at this listener. Returns false if the token belongs to no
    /// listener.
    pub fn mark_ready(&mut self, token: Token) -> bool {
        let at = token.0.checked_sub(self.first_token);
        let listener = at.and_then(|at| self.listeners.get_mut(at));
        listener.map(|listener| listener.ready = true).is_some()
    }

    /// Whether a connection may be waiting.
    pub fn is_ready(&self) -> bool {
        self.listeners.iter().any(|listener| listener.ready)
    }

    /// Accepts the next client, from the listeners in turn. Returns `None` if no client waits.
    pub fn accept(&mut self, now: Instant) -> io::Result<Option<AdminClient>> {
        for _ in 0..self.listeners.len() {
            self.last = (self.last + 1) % self.listeners.len();
            let listener = &mut self.listeners[self.last];
            if !listener.ready {
                continue;
            }
            match listener.socket.accept(listener.kind, now) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => listener.ready = false,
                Err(error) => return Err(error),
                Ok(client) => match &listener.spoken {
                    Spoken::Plain => return Ok(Some(client)),
                    Spoken::Tls(config) => {
                        return client.over_tls(Arc::clone(config), now).map(Some);
                    }
                    Spoken::Nothing => {}
                },
            }
        }
        Ok(None)
    }
}

impl AdminSocket {
    fn register(
        listener: PlainListener,
        registry: &Registry,
        token: Token,
    ) -> io::Result<AdminSocket> {
        match listener {
            PlainListener::Tcp(listener) => {
                let mut listener = TcpListener::from_std(listener);
                registry.register(&mut listener, token, Interest::READABLE)?;
                Ok(AdminSocket::Tcp(listener))
            }
            PlainListener::Unix(listener) => {
                let mut listener = UnixListener::from_std(listener);
                registry.register(&mut listener, token, Interest::READABLE)?;
                Ok(AdminSocket::Unix(listener))
            }
        }
    }

    fn accept(&self, kind: ClientKind, now: Instant) -> io::Result<AdminClient> {
        match self {
            AdminSocket::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                // The call fails only on a broken connection, which the next read detects.
                let _ = stream.set_nodelay(true);
                let (stream, peer) = (Stream::Tcp(stream), address.to_string().into());
                let client = AdminClient::new(stream, kind, Transport::Tcp, peer, now);
                Ok(AdminClient { address: Some(address.ip()), ..client })
            }
            AdminSocket::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                let PeerProcess { words: peer, user } = peer_of(&stream);
                let stream = Stream::Unix(stream);
                let client = AdminClient::new(stream, kind, Transport::Unix, peer, now);
                Ok(AdminClient { user: Some(user), ..client })
            }
        }
    }
}

/// The process at the other end of a unix socket.
struct PeerProcess {
    words: Arc<str>,
    user: Arc<str>,
}

fn peer_of(stream: &mio::net::UnixStream) -> PeerProcess {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    match getsockopt(stream, PeerCredentials) {
        Ok(peer) => PeerProcess {
            words: format!("unix (process {}, user {})", peer.pid(), peer.uid()).into(),
            user: format!("uid:{}", peer.uid()).into(),
        },
        Err(_) => PeerProcess { words: "unix".into(), user: "uid:unknown".into() },
    }
}
