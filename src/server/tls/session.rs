//! One TLS connection of the server: bytes in, bytes out, no socket.
//!
//! Invariant: a session holds at most one incomplete record besides the state of the protocol, so
//! an idle one holds no buffer. Nothing that a client sends before the handshake is complete is
//! given out.

use std::sync::Arc;

use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus, WriteTraffic,
};
use rustls::{HandshakeKind, ServerConfig};

use super::bounds::RECORD_BYTES;
use super::certificate;

/// The most bytes of plain text in a record.
const FRAGMENT_BYTES: usize = 16 << 10;
/// More bytes than a record has besides its plain text.
const OVERHEAD_BYTES: usize = 64;
/// More states than the protocol passes through for the bytes of one read.
const MAX_STATES: usize = 2 * RECORD_BYTES;

/// A session cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The client breaks the protocol, or proves no certificate that is needed.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// A record, or a message of the handshake, is longer than a session takes.
    #[error("found a record or a message of more than {RECORD_BYTES} bytes")]
    TooLong,
    /// The client resumes with a certificate that has ended since.
    #[error("found a ticket of a certificate that has ended")]
    CertificateEnded,
}

/// How the handshake of a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// With the proof of the certificates.
    Full,
    /// By a ticket of an earlier session.
    Resumed,
}

/// What the bytes of a read have brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of plain text.
    pub plain: usize,
    /// The client sends nothing more.
    pub is_end: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has arrived.
    Fresh,
    Handshaking,
    Open(Handshake),
    /// The client speaks no TLS. Bytes pass as they are.
    Plain,
}

/// A TLS connection.
pub struct Session {
    /// `None` once the client speaks plain text.
    connection: Option<Box<UnbufferedServerConnection>>,
    stage: Stage,
    /// The beginning of a record.
    incomplete: Vec<u8>,
    /// Bytes for the client. The first `sent` are sent.
    outgoing: Vec<u8>,
    sent: usize,
    /// The names of the client's certificate.
    names: Vec<String>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl Session {
    /// A session before its first byte.
    ///
    /// # Errors
    /// The configuration is unsound.
    pub fn new(config: Arc<ServerConfig>) -> Result<Session, rustls::Error> {
        Ok(Session {
            connection: Some(Box::new(UnbufferedServerConnection::new(config)?)),
            stage: Stage::Fresh,
            incomplete: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
            names: Vec::new(),
        })
    }

    /// How the handshake ended. `None` before its end.
    pub fn handshake(&self) -> Option<Handshake> {
        match self.stage {
            Stage::Open(handshake) => Some(handshake),
            _ => None,
        }
    }

    /// Whether the handshake has neither ended nor been given up.
    #[inline]
    pub fn is_handshaking(&self) -> bool {
        matches!(self.stage, Stage::Fresh | Stage::Handshaking)
    }

    /// Whether a byte has arrived.
    pub fn has_begun(&self) -> bool {
        self.stage != Stage::Fresh
    }

    /// Whether the client speaks no TLS, so that bytes pass as they are.
    pub fn is_plain(&self) -> bool {
        self.stage == Stage::Plain
    }

    /// The names of the client's certificate, in its order. Empty without one.
    pub fn certificate_names(&self) -> &[String] {
        &self.names
    }

    /// Bytes for the client.
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing[self.sent..]
    }

    /// Removes bytes from the front of [`Session::outgoing`].
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.outgoing.len() {
            (self.outgoing, self.sent) = (Vec::new(), 0);
        }
    }

    /// Copies the beginning of a record to the front of `wire`. Returns its length. What is read
    /// next belongs behind it.
    pub fn resume(&self, wire: &mut [u8; RECORD_BYTES]) -> usize {
        wire[..self.incomplete.len()].copy_from_slice(&self.incomplete);
        self.incomplete.len()
    }

    /// Takes the bytes of a read: those that [`Session::resume`] has put there, and those read
    /// behind them. Writes plain text to `plain`. `now_s` is the time since the epoch.
    ///
    /// # Errors
    /// The session cannot go on. [`Session::outgoing`] has an alert for the client.
    pub fn take(
        &mut self,
        wire: &mut [u8],
        plain: &mut [u8; RECORD_BYTES],
        now_s: i64,
    ) -> Result<Taken, SessionError> {
        // rustls must not be asked again after an error.
        self.advance(wire, plain, now_s).inspect_err(|_| self.connection = None)
    }

    fn advance(
        &mut self,
        wire: &mut [u8],
        plain: &mut [u8; RECORD_BYTES],
        now_s: i64,
    ) -> Result<Taken, SessionError> {
        if self.stage == Stage::Fresh
            && let Some(&first) = wire.first()
        {
            // Nobody who speaks TLS begins with a character of text.
            let is_text = first.is_ascii_graphic() || matches!(first, b'\r' | b'\n');
            self.stage = if is_text { Stage::Plain } else { Stage::Handshaking };
        }
        if self.stage == Stage::Plain {
            self.connection = None;
        }
        let Some(connection) = &mut self.connection else { return Ok(Taken::default()) };
        self.incomplete = Vec::new();
        let (mut used, mut taken) = (0, Taken::default());
        for _ in 0..MAX_STATES {
            let UnbufferedStatus { mut discard, state, .. } =
                connection.process_tls_records(&mut wire[used..]);
            let mut is_over = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        let room = plain.get_mut(taken.plain..).unwrap_or_default();
                        let room = room.get_mut(..record.payload.len());
                        room.ok_or(SessionError::TooLong)?.copy_from_slice(record.payload);
                        taken.plain += record.payload.len();
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut data, &mut self.outgoing);
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => taken.is_end = true,
                Ok(ConnectionState::Closed) => (taken.is_end, is_over) = (true, true),
                Ok(_) => is_over = true,
                Err(error) => {
                    add_alert(connection, &mut self.outgoing);
                    return Err(error.into());
                }
            }
            used += discard;
            if is_over {
                break;
            }
        }
        let is_open = self.stage == Stage::Handshaking && !connection.is_handshaking();
        let rest = &wire[used..];
        if rest.len() == RECORD_BYTES {
            return Err(SessionError::TooLong);
        }
        if !taken.is_end {
            self.incomplete = rest.to_vec();
        }
        if is_open {
            self.open(now_s)?;
        }
        Ok(taken)
    }

    /// Notes that the handshake is complete.
    fn open(&mut self, now_s: i64) -> Result<(), SessionError> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let handshake = match connection.handshake_kind() {
            Some(HandshakeKind::Resumed) => Handshake::Resumed,
            _ => Handshake::Full,
        };
        if let Some(own) = connection.peer_certificates().and_then(<[_]>::first) {
            // rustls has looked at the dates in a full handshake only.
            if handshake == Handshake::Resumed && certificate::has_ended(own, now_s) {
                self.close();
                return Err(SessionError::CertificateEnded);
            }
            self.names = certificate::names(own);
        }
        self.stage = Stage::Open(handshake);
        Ok(())
    }

    /// Encrypts `plain` for the client.
    ///
    /// # Errors
    /// The session is not open.
    pub fn seal(&mut self, plain: &[u8]) -> Result<(), SessionError> {
        let records = plain.len().div_ceil(FRAGMENT_BYTES) + 1;
        self.outgoing.reserve(plain.len() + records * OVERHEAD_BYTES);
        self.with_traffic(|mut traffic, outgoing| {
            append(outgoing, |room| traffic.encrypt(plain, room).map_err(needed));
        })
    }

    /// Tells the client that nothing more follows.
    pub fn close(&mut self) {
        // A session that is not open has nothing to tell.
        let _ = self.with_traffic(|mut traffic, outgoing| {
            append(outgoing, |room| traffic.queue_close_notify(room).map_err(needed));
        });
    }

    /// Calls `act` once the session may send text. The session is given the beginning of a record
    /// again: it may refer to messages of the handshake in it.
    fn with_traffic(
        &mut self,
        act: impl FnOnce(WriteTraffic<'_, ServerConnectionData>, &mut Vec<u8>),
    ) -> Result<(), SessionError> {
        let Some(connection) = &mut self.connection else {
            return Err(rustls::Error::HandshakeNotComplete.into());
        };
        let mut used = 0;
        let mut result = Err(rustls::Error::HandshakeNotComplete.into());
        for _ in 0..MAX_STATES {
            let rest = self.incomplete.get_mut(used..).unwrap_or_default();
            let UnbufferedStatus { discard, state, .. } = connection.process_tls_records(rest);
            let mut is_over = false;
            match state {
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    act(traffic, &mut self.outgoing);
                    result = Ok(());
                    used += discard;
                    break;
                }
                // An answer to a change of keys goes first.
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut data, &mut self.outgoing);
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => {}
                Ok(_) => is_over = true,
                Err(error) => (result, is_over) = (Err(error.into()), true),
            }
            used += discard;
            if is_over {
                break;
            }
        }
        self.incomplete.drain(..used.min(self.incomplete.len()));
        if result.is_err() {
            self.connection = None;
        }
        result
    }
}

/// Adds the alert that rustls has made of an error. Without an alert the session is not asked,
/// because it would go on with input behind the error.
fn add_alert(connection: &mut UnbufferedServerConnection, out: &mut Vec<u8>) {
    while connection.wants_write() {
        match connection.process_tls_records(&mut []).state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, out),
            _ => return,
        }
    }
}

/// Appends a message of the handshake.
fn encode(data: &mut EncodeTlsData<'_, ServerConnectionData>, out: &mut Vec<u8>) {
    append(out, |room| match data.encode(room) {
        Ok(written) => Ok(written),
        Err(EncodeError::InsufficientSize(needed)) => Err(Some(needed)),
        Err(EncodeError::AlreadyEncoded) => Err(None),
    });
}

fn needed(error: EncryptError) -> Option<InsufficientSizeError> {
    match error {
        EncryptError::InsufficientSize(needed) => Some(needed),
        EncryptError::EncryptExhausted => None,
    }
}

/// Appends what `write` writes into a room, and gives it the room that it asks for.
fn append(
    out: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<InsufficientSizeError>>,
) {
    let from = out.len();
    out.resize(out.capacity(), 0);
    let written = match write(&mut out[from..]) {
        Err(Some(needed)) => {
            out.resize(from + needed.required_size, 0);
            write(&mut out[from..])
        }
        written => written,
    };
    out.truncate(from + written.unwrap_or_default());
}

#[cfg(test)]
mod tests;
