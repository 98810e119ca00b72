//! One connection between peers: bytes in and out, and the handshake.
//!
//! Invariant: frames are given out only after the handshake. What waits to be sent is bounded,
//! because a connection with much of it is not read from.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use frs_base::sys::process::PollFlags;

use super::codec::{self, BadFrame, HANDSHAKE_FRAME_MAX};
use super::frame::Frame;
use super::handshake::{Acceptor, Connector, PeerIdentity, Rejected};

/// How long a connection may say nothing. Peers speak each second.
const SILENCE: Duration = Duration::from_secs(5);
/// Bytes that are read of a connection in a turn.
pub const READ_BYTES: usize = 256 * 1024;
/// A connection with so many bytes to be sent is not read from.
const OUTPUT_MAX: usize = 1 << 20;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The other end has closed it, or the network failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The other end is no peer of this host.
    #[error("{0}")]
    Rejected(#[from] Rejected),
    /// The other end sent no frame.
    #[error("{0}")]
    BadFrame(#[from] BadFrame),
    /// The other end said nothing for too long.
    #[error("no word for {SILENCE:?}")]
    Silent,
}

#[derive(Debug)]
enum Turn {
    Connects(Connector, Option<PeerIdentity>),
    Accepts(Acceptor),
    Open,
}

/// What a read has found.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// The handshake is over.
    Open(PeerIdentity),
    /// A frame.
    Frame(Box<Frame>),
}

/// A connection.
#[derive(Debug)]
pub struct PeerStream {
    stream: TcpStream,
    turn: Turn,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    heard: Instant,
}

impl PeerStream {
    /// Begins as the one who connects.
    ///
    /// # Errors
    /// The socket failed.
    pub fn connect(
        stream: TcpStream,
        (connector, hello): (Connector, Frame),
        now: Instant,
    ) -> io::Result<PeerStream> {
        let mut this = PeerStream::new(stream, Turn::Connects(connector, None), now)?;
        this.send(&hello);
        Ok(this)
    }

    /// Begins as the one who accepts.
    ///
    /// # Errors
    /// The socket failed.
    pub fn accept(stream: TcpStream, acceptor: Acceptor, now: Instant) -> io::Result<PeerStream> {
        PeerStream::new(stream, Turn::Accepts(acceptor), now)
    }

    fn new(stream: TcpStream, turn: Turn, now: Instant) -> io::Result<PeerStream> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (input, output) = (Vec::new(), Vec::new());
        Ok(PeerStream { stream, turn, input, output, sent: 0, heard: now })
    }

    /// Whether the handshake is over.
    pub fn is_open(&self) -> bool {
        matches!(self.turn, Turn::Open)
    }

    /// What to wait for.
    pub fn interest(&self) -> PollFlags {
        let out = if self.unsent() > 0 { PollFlags::POLLOUT } else { PollFlags::empty() };
        if self.has_room() { out | PollFlags::POLLIN } else { out }
    }

    /// Bytes that wait to be sent.
    pub fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Whether more can be sent now.
    pub fn has_room(&self) -> bool {
        self.unsent() < OUTPUT_MAX
    }

    /// Appends a frame to what is to be sent.
    pub fn send(&mut self, frame: &Frame) {
        codec::put(frame, &mut self.output);
    }

    /// Sends what it can.
    ///
    /// # Errors
    /// The network failed.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.unsent() > 0 {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.unsent() == 0 {
            self.output.clear();
            self.sent = 0;
        } else if self.sent >= OUTPUT_MAX {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    /// When the other end has been silent for too long.
    pub fn silent_at(&self) -> Instant {
        self.heard + SILENCE
    }

    /// Reads what is there, at most as much as `buffer` holds, and calls `each` with what it says.
    ///
    /// # Errors
    /// The connection is over.
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        now: Instant,
        mut each: impl FnMut(Heard),
    ) -> Result<(), Ended> {
        if self.has_room() {
            self.fill(buffer, now)?;
        }
        let mut at = 0;
        loop {
            let most = if self.is_open() { codec::FRAME_MAX } else { HANDSHAKE_FRAME_MAX };
            let Some((frame, taken)) = codec::take_within(&self.input[at..], most)? else { break };
            at += taken;
            if let Some(heard) = self.hear(frame)? {
                each(heard);
            }
        }
        self.input.drain(..at);
        if now >= self.silent_at() { Err(Ended::Silent) } else { Ok(()) }
    }

    fn fill(&mut self, buffer: &mut [u8], now: Instant) -> Result<(), Ended> {
        let mut end = 0;
        let result = loop {
            match self.stream.read(&mut buffer[end..]) {
                Ok(0) if end == buffer.len() => break Ok(()),
                Ok(0) => break Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(count) => {
                    end += count;
                    self.heard = now;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.input.extend_from_slice(&buffer[..end]);
        // What came before the end still counts: a refusal says why.
        if end > 0 { Ok(()) } else { Ok(result?) }
    }

    fn hear(&mut self, frame: Frame) -> Result<Option<Heard>, Ended> {
        match &mut self.turn {
            Turn::Open => match frame {
                Frame::Refused(reason) => Err(Rejected::ByPeer(reason).into()),
                frame => Ok(Some(Heard::Frame(Box::new(frame)))),
            },
            Turn::Connects(connector, None) => {
                let (proof, identity) = connector.welcome(&frame)?;
                self.send(&proof);
                if let Turn::Connects(_, known) = &mut self.turn {
                    *known = Some(identity);
                }
                Ok(None)
            }
            Turn::Connects(connector, Some(identity)) => {
                let identity = *identity;
                connector.accepted(&frame)?;
                self.turn = Turn::Open;
                Ok(Some(Heard::Open(identity)))
            }
            Turn::Accepts(acceptor) => match &frame {
                Frame::Hello(_) => {
                    let welcome = acceptor.hello(&frame);
                    let welcome = self.or_refuse(welcome)?;
                    self.send(&welcome);
                    Ok(None)
                }
                _ => {
                    let identity = acceptor.proof(&frame);
                    let identity = self.or_refuse(identity)?;
                    self.send(&Frame::Accepted);
                    self.turn = Turn::Open;
                    Ok(Some(Heard::Open(identity)))
                }
            },
        }
    }

    /// Tells the other end why it is rejected, as far as the socket takes it.
    fn or_refuse<T>(&mut self, result: Result<T, Rejected>) -> Result<T, Ended> {
        Ok(result.inspect_err(|rejected| {
            self.send(&rejected.told());
            let _ = self.flush();
        })?)
    }
}

impl AsFd for PeerStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
