//! The listener that frs hands down: a TCP or a unix socket.
//!
//! Invariant: an accepted TCP connection notices within minutes that its peer is gone.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use frs_server::process::envoy::PlainListener;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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

/// A connection, and the address of its peer.
#[derive(Debug)]
pub struct AcceptedConnection {
    /// The connection.
    pub stream: ConnectionStream,
    /// The address of the peer. `None` for a unix socket.
    pub peer: Option<IpAddr>,
}

/// A connection.
#[derive(Debug)]
#[expect(missing_docs)]
pub enum ConnectionStream {
    Tcp(TcpStream),
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
                let peer = Some(peer.ip().to_canonical());
                Ok(AcceptedConnection { stream: ConnectionStream::Tcp(stream), peer })
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(AcceptedConnection { stream: ConnectionStream::Unix(stream), peer: None })
            }
        }
    }
}

impl AsyncRead for ConnectionStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ConnectionStream::Tcp(stream) => Pin::new(stream).poll_read(context, into),
            ConnectionStream::Unix(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for ConnectionStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            ConnectionStream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            ConnectionStream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            ConnectionStream::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            ConnectionStream::Unix(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ConnectionStream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            ConnectionStream::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ConnectionStream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            ConnectionStream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
