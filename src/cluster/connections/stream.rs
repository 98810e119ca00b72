//! The bytes of a connection to a node, plain or over TLS.
//!
//! Invariant: no read or write waits beyond the current deadline, even if bytes arrive one at a
//! time. Until that deadline no more bytes are read than allowed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frs_base::clock;
use frs_conf::ClusterNode;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::resolve::resolve;

/// Smallest change of a wait for which the kernel's timeout is set again.
const TIMEOUT_SLACK: Duration = Duration::from_millis(1);

/// A connection.
pub(super) enum Stream {
    Plain(Bounded),
    Tls(Box<StreamOwned<ClientConnection, Bounded>>),
}

/// A socket with a deadline and a bound of bytes.
pub(super) struct Bounded {
    socket: TcpStream,
    /// The deadline of reads and writes.
    pub(super) until: Instant,
    /// Bytes that may be read until the deadline.
    pub(super) allowed: usize,
    /// Bytes that were read since the deadline was set.
    pub(super) read: usize,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl Stream {
    /// Connects by the deadline.
    pub(super) fn connect(node: &ClusterNode, tls: bool, until: Instant) -> io::Result<Stream> {
        let socket = Bounded::new(connect(node, until)?, until);
        if !tls {
            return Ok(Stream::Plain(socket));
        }
        let name = ServerName::try_from(node.host.clone()).map_err(io::Error::other)?;
        let client = ClientConnection::new(Arc::new(tls_config()?), name);
        let client = client.map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(client, socket))))
    }

    /// The socket below.
    pub(super) fn socket(&mut self) -> &mut Bounded {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &mut stream.sock,
        }
    }
}

/// Uses the authorities of the system, or those of SSL_CERT_FILE. They are read again for each
/// connection, as they may be renewed while the server runs.
fn tls_config() -> io::Result<ClientConfig> {
    let mut found = rustls_native_certs::load_native_certs();
    if let (true, Some(error)) = (found.certs.is_empty(), found.errors.pop()) {
        return Err(io::Error::other(error));
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

fn connect(node: &ClusterNode, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, format!("{} has no address", node.host));
    let addresses = resolve(node, until)?;
    for (address, others) in addresses.iter().zip((0..addresses.len() as u32).rev()) {
        // An address that does not answer leaves the others their share of the time.
        let connect = |left: Duration| TcpStream::connect_timeout(address, left / (1 + others));
        match left(until).and_then(connect) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The time that is left; `TimedOut` if there is none.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(clock::instant());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Bounded {
    fn new(socket: TcpStream, until: Instant) -> Bounded {
        Bounded { socket, until, allowed: 0, read: 0, read_timeout: None, write_timeout: None }
    }
}

/// Whether the kernel's timeout is close enough to this one. Most answers come at once, so it is
/// seldom set.
fn is_timeout_set(set: Option<Duration>, left: Duration) -> bool {
    set.is_some_and(|set| set.saturating_sub(TIMEOUT_SLACK) < left && left < set + TIMEOUT_SLACK)
}

/// Turns the error of an expired kernel timeout into `TimedOut`.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len().min(self.allowed.saturating_sub(self.read));
        if room == 0 {
            let allowed = self.allowed;
            let found = format!("found more than {allowed} bytes of answers, expected fewer");
            return Err(io::Error::new(ErrorKind::InvalidData, found));
        }
        let left = left(self.until)?;
        if !is_timeout_set(self.read_timeout, left) {
            self.socket.set_read_timeout(Some(left))?;
            self.read_timeout = Some(left);
        }
        let read = self.socket.read(&mut buffer[..room]).map_err(timed_out)?;
        self.read += read;
        Ok(read)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = left(self.until)?;
        if !is_timeout_set(self.write_timeout, left) {
            self.socket.set_write_timeout(Some(left))?;
            self.write_timeout = Some(left);
        }
        self.socket.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
