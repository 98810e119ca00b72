//! The socket of a client, TCP or unix, in plain text or over TLS.
//!
//! Invariant: a client in plain text costs no more than a look at the kind of its stream.

mod tls_stream;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustls::ServerConfig;

pub use self::tls_stream::TlsStream;
use crate::tls::bounds::READ_ROOM;

/// The socket of a client.
#[derive(Debug)]
pub enum Stream {
    /// A TCP socket.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
    /// One of these over TLS. Boxed because most clients speak plain text.
    Tls(Box<TlsStream>),
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes in the room.
    pub bytes: usize,
    /// Bytes read from the socket.
    pub wire: usize,
    /// The socket may have more.
    pub is_full: bool,
    /// The client sends nothing more.
    pub is_end: bool,
}

impl Received {
    /// The end of the input.
    pub const END: Received = Received { bytes: 0, wire: 0, is_full: false, is_end: true };
}

impl Stream {
    /// The same socket over TLS.
    ///
    /// # Errors
    /// The configuration is unsound.
    pub fn over_tls(self, config: Arc<ServerConfig>) -> io::Result<Stream> {
        TlsStream::new(self, config).map(|stream| Stream::Tls(Box::new(stream)))
    }

    /// Registers the socket for both directions, edge-triggered, until it is closed.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        match self {
            Stream::Tcp(stream) => stream.register(registry, token, both),
            Stream::Unix(stream) => stream.register(registry, token, both),
            Stream::Tls(stream) => stream.socket.register(registry, token),
        }
    }

    /// The room that a read needs, if it is not of any size.
    #[inline]
    pub fn read_room(&self) -> Option<usize> {
        matches!(self, Stream::Tls(_)).then_some(READ_ROOM)
    }

    /// Reads once. Repeats an interrupted call. Over TLS there may be no bytes for the caller: the
    /// session has taken them all.
    #[inline]
    pub fn read(&mut self, room: &mut [u8]) -> io::Result<Received> {
        if let Stream::Tls(stream) = self {
            return stream.read(room);
        }
        let bytes = self.read_bytes(room)?;
        Ok(Received { bytes, wire: bytes, is_full: bytes == room.len(), is_end: bytes == 0 })
    }

    /// Reads once from the socket.
    pub(super) fn read_bytes(&mut self, room: &mut [u8]) -> io::Result<usize> {
        again(|| match self {
            Stream::Tcp(stream) => stream.read(room),
            Stream::Unix(stream) => stream.read(room),
            Stream::Tls(stream) => stream.socket.read_bytes(room),
        })
    }

    /// Writes once. Repeats an interrupted call. Over TLS all bytes are taken. Those that the
    /// socket does not take stay [blocked](Stream::is_blocked).
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        again(|| match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        })
    }

    /// Whether the TLS session has bytes that the socket has not taken.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.is_blocked())
    }

    /// The bytes written to the socket since the last call, if the session writes by itself. 0 in
    /// plain text.
    #[inline]
    pub fn take_written(&mut self) -> u64 {
        match self {
            Stream::Tls(stream) => stream.take_written(),
            Stream::Tcp(_) | Stream::Unix(_) => 0,
        }
    }

    /// Writes these bytes, with one call.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tls(stream) => stream.flush(),
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
        }
    }

    /// Shuts down writing, which tells the client that nothing more follows.
    pub fn end_writing(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tls(stream) => stream.end_writing(),
        }
    }

    /// The TLS session. `None` in plain text.
    #[inline]
    pub fn tls(&self) -> Option<&TlsStream> {
        match self {
            Stream::Tls(stream) => Some(stream),
            Stream::Tcp(_) | Stream::Unix(_) => None,
        }
    }

    /// Whether the handshake of TLS is in progress.
    #[inline]
    pub fn is_handshaking(&self) -> bool {
        self.tls().is_some_and(TlsStream::is_handshaking)
    }

    /// The names of the client's certificate, in its order: `CN=…`, `DNS:…`, `URI:…`, `IP:…`,
    /// `EMAIL:…`. Empty without a certificate. The handshake has proved it.
    pub fn certificate_names(&self) -> &[String] {
        self.tls().map_or(&[], TlsStream::certificate_names)
    }
}

pub(super) fn again(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => return result,
        }
    }
}
