//! The listener that frs hands down: a TCP or a unix socket.
//!
//! Invariant: an accepted TCP connection notices within minutes that its peer is gone.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use frs_server::process::envoy::PlainListener;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A connection without traffic is probed after this time, and then at this interval.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The listener that Envoy connects to.
#[derive(Debug)]
pub enum Listener {
    /// A TCP listener.
    Tcp(TcpListener),
    /// A unix socket.
    Unix(UnixListener),
}

/// An accepted connection.
#[derive(Debug)]
pub enum AcceptedConnection {
    /// A TCP connection, and the address of its peer.
    Tcp(TcpStream, IpAddr),
    /// A connection over a unix socket.
    Unix(UnixStream),
}

impl Listener {
    /// Registers the listener with this runtime.
    ///
    /// # Errors
    /// The descriptor is not a listener.
    pub fn new(listener: PlainListener) -> io::Result<Listener> {
        Ok(match listener {
            PlainListener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Listener::Tcp(TcpListener::from_std(listener)?)
            }
            PlainListener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Listener::Unix(UnixListener::from_std(listener)?)
            }
        })
    }

    /// The next connection.
    pub async fn accept(&self) -> io::Result<AcceptedConnection> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
                SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
                Ok(AcceptedConnection::Tcp(stream, peer.ip().to_canonical()))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(AcceptedConnection::Unix(stream))
            }
        }
    }
}
