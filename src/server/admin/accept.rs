//! Accepts the admin plane's clients from its listener.
//!
//! Invariant: the transport of every connection is known, so that a token is required over TCP
//! only.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};

use super::access::Over;
use crate::net::listeners::PlainListener;
use crate::net::stream::Stream;

/// Connections accepted in a tick.
pub(super) const ACCEPTS_PER_TICK: usize = 16;

/// What the plane listens on.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection that was just accepted.
pub(super) struct Arrival {
    pub stream: Stream,
    pub over: Over,
    /// The peer, as text for the log.
    pub peer: Arc<str>,
    /// The address for which wrong tokens are counted; none over a unix socket, which needs no
    /// token.
    pub address: Option<IpAddr>,
}

impl Listener {
    /// Registers the listener in the loop, as `token`.
    pub fn register(
        listener: PlainListener,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Listener> {
        match listener {
            PlainListener::Tcp(listener) => {
                let mut listener = TcpListener::from_std(listener);
                registry.register(&mut listener, token, Interest::READABLE)?;
                Ok(Listener::Tcp(listener))
            }
            PlainListener::Unix(listener) => {
                let mut listener = UnixListener::from_std(listener);
                registry.register(&mut listener, token, Interest::READABLE)?;
                Ok(Listener::Unix(listener))
            }
        }
    }

    /// Accepts the next client.
    pub fn accept(&self) -> io::Result<Arrival> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                // This fails only if the connection is gone, which the next read will show.
                let _ = stream.set_nodelay(true);
                let (peer, address) = (address.to_string().into(), Some(address.ip()));
                Ok(Arrival { stream: Stream::Tcp(stream), over: Over::Tcp, peer, address })
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                let peer = peer_of(&stream);
                Ok(Arrival { stream: Stream::Unix(stream), over: Over::Unix, peer, address: None })
            }
        }
    }
}

fn peer_of(stream: &mio::net::UnixStream) -> Arc<str> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    match getsockopt(stream, PeerCredentials) {
        Ok(peer) => format!("unix (process {}, user {})", peer.pid(), peer.uid()).into(),
        Err(_) => "unix".into(),
    }
}
