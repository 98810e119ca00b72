//! TLS of `<rls>`: from the first byte of a connection to its encrypted stream.
//!
//! Invariant: the expensive step of a handshake, the server's answer to the first message, is done
//! for one connection at a time, and all others have a turn before the next one. So a flood of
//! handshakes delays a call by one such step a turn. A client that waits with its bytes holds
//! nothing up.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Poll;

use frs_base::clock;
use frs_conf::Srv;
use frs_server::tls::board::TlsShare;
use frs_server::tls::certificate;
use frs_server::tls::configs::{Spoken, TlsConfigs};
use rustls::server::Acceptor;
use rustls::{HandshakeKind, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio_rustls::server::{StartHandshake, TlsStream};

/// The protocol that a client must offer by ALPN, if it offers any.
const HTTP2: &[u8] = b"h2";
/// The most bytes of a first message that one read takes.
const READ_BYTES: usize = 4 << 10;
/// The most encrypted bytes that wait for the socket, besides one record.
const SEND_BYTES_MAX: usize = 16 << 10;
/// The first byte of a connection that speaks TLS: a record of the handshake.
const HANDSHAKE_RECORD: u8 = 22;
/// The first bytes of a client of HTTP/2 without TLS.
const HTTP2_PREFACE: &[u8] = b"PRI ";
/// The words for a client without TLS.
const SPEAKS_TLS: &str = "this port speaks TLS: found a connection without it";
/// Why a client that resumes is refused.
const CERTIFICATE_ENDED: &str = "found a ticket of a certificate that has ended";
/// The error code of HTTP/2 for a connection that is not secure enough.
const INADEQUATE_SECURITY: u8 = 0xc;

/// The certificates of `<rls>`, from the master.
#[derive(Debug)]
pub struct Certificates {
    share: TlsShare,
    configs: TlsConfigs,
}

impl Certificates {
    /// Certificates of the master's memory.
    ///
    /// # Errors
    /// The system has no descriptor.
    pub fn new(share: TlsShare) -> io::Result<Certificates> {
        let configs = TlsConfigs::new(share.tickets.share()?);
        Ok(Certificates { share, configs })
    }

    /// What `<rls>` of a configuration speaks, with the files in force.
    pub fn take(&mut self, srv: &Srv) -> Spoken {
        self.configs.take(srv, &self.share, HTTP2);
        self.configs.spoken(srv.rls.as_ref().and_then(|rls| rls.tls.as_deref()))
    }
}

/// What the listener speaks, and the turns of handshakes.
#[derive(Debug)]
pub struct Secure {
    spoken: RwLock<Spoken>,
    turns: Arc<Semaphore>,
}

impl Secure {
    /// A listener that speaks this.
    pub fn new(spoken: Spoken) -> Secure {
        Secure { spoken: RwLock::new(spoken), turns: Arc::new(Semaphore::new(1)) }
    }

    /// Speaks something else with new clients. Connections go on as they are.
    pub fn set(&self, spoken: Spoken) {
        *self.spoken.write().unwrap_or_else(PoisonError::into_inner) = spoken;
    }

    /// What is spoken with a new client.
    pub fn spoken(&self) -> Spoken {
        self.spoken.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shakes hands with a client. The caller bounds the time.
    ///
    /// # Errors
    /// The client speaks no TLS, or not as the settings ask, or has gone.
    pub async fn accept<S>(
        &self,
        settings: Arc<ServerConfig>,
        mut stream: S,
    ) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut acceptor = Acceptor::default();
        let mut is_first = true;
        let accepted = loop {
            let mut room = [0; READ_BYTES];
            let read = stream.read(&mut room).await?;
            let mut bytes = &room[..read];
            match bytes.first() {
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(&first) if is_first && first != HANDSHAKE_RECORD => {
                    return refuse(&mut stream, bytes).await;
                }
                Some(_) => is_first = false,
            }
            while !bytes.is_empty() {
                acceptor.read_tls(&mut bytes)?;
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) => {}
                Err((error, mut alert)) => {
                    let mut bytes = Vec::new();
                    alert.write_all(&mut bytes)?;
                    stream.write_all(&bytes).await?;
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        };
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(io::Error::other)?;
        let start = StartHandshake::from_parts(accepted, stream);
        let mut handshake = start.into_stream_with(settings, |connection| {
            connection.set_buffer_limit(Some(SEND_BYTES_MAX));
        });
        let first = poll_fn(|context| Poll::Ready(Pin::new(&mut handshake).poll(context))).await;
        // A task of its own, because a message of the client may wake this one sooner.
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            drop(turn);
        });
        let stream = match first {
            Poll::Ready(stream) => stream?,
            Poll::Pending => handshake.await?,
        };
        match has_ended(&stream) {
            true => Err(io::Error::new(io::ErrorKind::PermissionDenied, CERTIFICATE_ENDED)),
            false => Ok(stream),
        }
    }
}

/// Whether a client resumes with a certificate that has ended since. rustls looks at the dates in a
/// full handshake only.
fn has_ended<S>(stream: &TlsStream<S>) -> bool {
    let connection = stream.get_ref().1;
    let is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
    let own = connection.peer_certificates().and_then(<[_]>::first).filter(|_| is_resumed);
    let now_s = (clock::now() / 1000) as i64;
    own.is_some_and(|own| certificate::has_ended(own, now_s))
}

/// The names of the certificate that a client has shown. Empty without one.
pub fn certificate_names<S>(stream: &TlsStream<S>) -> Vec<String> {
    let shown = stream.get_ref().1.peer_certificates();
    shown.and_then(<[_]>::first).map(|own| certificate::names(own)).unwrap_or_default()
}

/// Tells a client without TLS that it needs TLS, in the form that it reads.
async fn refuse<S, T>(stream: &mut S, found: &[u8]) -> io::Result<T>
where
    S: AsyncWrite + Unpin,
{
    let answer = match found.starts_with(HTTP2_PREFACE) {
        true => goaway(),
        false => format!(
            "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{SPEAKS_TLS}\n",
            SPEAKS_TLS.len() + 1
        )
        .into_bytes(),
    };
    stream.write_all(&answer).await?;
    stream.shutdown().await?;
    Err(io::Error::new(io::ErrorKind::InvalidData, SPEAKS_TLS))
}

/// The settings of HTTP/2, which a client expects first, and a GOAWAY with the words.
fn goaway() -> Vec<u8> {
    let payload = 8 + SPEAKS_TLS.len() as u8;
    let mut frames = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
    frames.extend([0, 0, payload, 7, 0, 0, 0, 0, 0]);
    frames.extend([0, 0, 0, 0, 0, 0, 0, INADEQUATE_SECURITY]);
    frames.extend(SPEAKS_TLS.as_bytes());
    frames
}

#[cfg(test)]
mod tests;
