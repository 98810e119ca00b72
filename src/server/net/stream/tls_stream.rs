//! A socket whose bytes are those of a TLS session.
//!
//! Invariant: a read makes one call to read, and one to write if the session has something to say.
//! A write makes one call. Bytes that the socket does not take stay with the session.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;

use super::{Received, Stream, again};
use crate::tls::bounds::RECORD_BYTES;
use crate::tls::session::{Handshake, Session};
use frs_base::clock;

/// A socket with a TLS session.
#[derive(Debug)]
pub struct TlsStream {
    /// The socket, which is no TLS stream itself.
    pub(super) socket: Stream,
    session: Session,
    /// The client has told that it sends nothing more, behind text that was given out.
    has_ended: bool,
    /// Bytes written that were not counted.
    written: u64,
}

impl TlsStream {
    /// A new session over an accepted socket.
    ///
    /// # Errors
    /// The configuration is unsound.
    pub fn new(socket: Stream, config: Arc<ServerConfig>) -> io::Result<TlsStream> {
        let session = Session::new(config).map_err(io::Error::other)?;
        Ok(TlsStream { socket, session, has_ended: false, written: 0 })
    }

    /// Reads once, into a room of [`READ_ROOM`] bytes. Plain text is at its front.
    pub(super) fn read(&mut self, room: &mut [u8]) -> io::Result<Received> {
        if self.has_ended {
            return Ok(Received::END);
        }
        let ([plain, wire], []) = room.as_chunks_mut::<RECORD_BYTES>() else {
            return Err(io::Error::other("a room of another size"));
        };
        // Only a handshake asks for the time.
        let now_s = if self.is_handshaking() { (clock::now() / 1000) as i64 } else { 0 };
        let kept = self.session.resume(wire);
        let asked = RECORD_BYTES - kept;
        let read = self.socket.read_bytes(&mut wire[kept..])?;
        if read == 0 {
            return Ok(Received::END);
        }
        let taken = self.session.take(&mut wire[..kept + read], plain, now_s);
        // An alert goes out even if the session has failed.
        self.flush()?;
        let taken = taken.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.has_ended = taken.is_end;
        Ok(Received {
            bytes: taken.plain,
            wire: read,
            is_full: read == asked || taken.is_end,
            is_end: taken.is_end && taken.plain == 0,
        })
    }

    /// Takes all of `bytes`, and writes once.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.session.is_plain() {
            let written = self.socket.write(bytes)?;
            self.written += written as u64;
            return Ok(written);
        }
        self.session.seal(bytes).map_err(io::Error::other)?;
        self.flush().map(|()| bytes.len())
    }

    /// Writes what the session has for the client, with one call.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.session.outgoing().is_empty() {
            return Ok(());
        }
        let (socket, session) = (&mut self.socket, &mut self.session);
        match again(|| socket.write(session.outgoing())) {
            Ok(written) => {
                session.note_sent(written);
                self.written += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The bytes written since the last call.
    pub(super) fn take_written(&mut self) -> u64 {
        std::mem::take(&mut self.written)
    }

    /// Whether the socket has not taken all bytes of the session.
    pub(super) fn is_blocked(&self) -> bool {
        !self.session.outgoing().is_empty()
    }

    /// Tells the client that nothing more follows, and shuts down writing.
    pub(super) fn end_writing(&mut self) -> io::Result<()> {
        if self.session.handshake().is_some() {
            self.session.close();
            self.flush()?;
        }
        self.socket.end_writing()
    }

    /// Whether the handshake is in progress.
    #[inline]
    pub fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Whether a byte has arrived.
    pub fn has_begun(&self) -> bool {
        self.session.has_begun()
    }

    /// How the handshake ended. `None` before its end.
    pub fn handshake(&self) -> Option<Handshake> {
        self.session.handshake()
    }

    /// Whether the client speaks no TLS. It is then answered in plain text.
    pub fn is_plain(&self) -> bool {
        self.session.is_plain()
    }

    /// The names of the client's certificate, in its order.
    pub fn certificate_names(&self) -> &[String] {
        self.session.certificate_names()
    }
}

impl Drop for TlsStream {
    /// Tells the client that the end is no cut. The socket may not take it, and the client may have
    /// gone.
    fn drop(&mut self) {
        if self.session.handshake().is_some() && !self.is_blocked() {
            self.session.close();
            let _ = self.flush();
        }
    }
}
