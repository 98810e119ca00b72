//! One client of a worker: its socket, its connection, and what is kept of it between ticks.
//!
//! Invariant: while answers wait to be taken, nothing is read; so what is kept of a client is at
//! most one request that is not complete and the answers to one tick's input: no more than
//! `frs::conf::memory_bound::BufferSizes::connection_bytes`.

use std::io;
use std::net::IpAddr;
use std::ops::Range;

use super::buffer_pool::{Pool, make_room};
use super::buffers::{Arena, Buffers};
use super::connection::{Connection, Progress, Serve};
use crate::net::stream::Stream;
use frs::conf::Srv;

/// What stands for a client beside its buffers: its places in lists, timers and the event queue.
pub const CLIENT_BYTES: usize = 1 << 10;
/// Room that a kept request is read into in one call, at least.
const KEPT_READ_BYTES: usize = 4 << 10;

/// What reading came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// There is something to run, or the client has ended.
    Run,
    /// The arena is full: again in the next tick.
    Later,
    /// Nothing to do until the socket is ready again.
    Wait,
    /// The connection is broken, or over.
    Gone,
}

/// What writing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// All is written.
    Done,
    /// The client does not take any more at present.
    Blocked,
    /// The connection is broken.
    Gone,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    connection: Connection,
    /// Input that waits for more, or for the next tick.
    kept: Vec<u8>,
    /// What the buffer of `kept` must have room for.
    need: usize,
    /// Input of this tick, in the arena.
    piece: Range<usize>,
    /// Answers that wait to be taken, and how far they are.
    unsent: Vec<u8>,
    sent: usize,
    /// The socket may have input.
    pub readable: bool,
    /// The client has ended its direction, read or not.
    pub hung_up: bool,
    /// Nothing more will be read.
    ended: bool,
    /// There is input that no call has got to.
    more: bool,
    /// A request is not complete.
    begun: bool,
    /// The last answer is in `unsent` or written.
    closing: bool,
    /// Only waits for the client to close.
    lingering: bool,
    /// It is not served.
    refused: bool,
    /// Stands in the list of those that have something to do in the next tick.
    pub queued: bool,
    moved: Moved,
}

/// Bytes that were read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Moved {
    /// Adds what another one has, and leaves it empty.
    #[inline]
    pub fn take(&mut self, other: &mut Moved) {
        let Moved { read, written } = std::mem::take(other);
        self.read += read;
        self.written += written;
    }
}

impl Client {
    /// A new one; the peer's address unless it is a unix socket.
    pub fn new(stream: Stream, peer: Option<IpAddr>) -> Client {
        Client {
            stream,
            connection: Connection::new(peer),
            kept: Vec::new(),
            need: 0,
            piece: 0..0,
            unsent: Vec::new(),
            sent: 0,
            readable: false,
            hung_up: false,
            ended: false,
            more: false,
            begun: false,
            closing: false,
            lingering: false,
            refused: false,
            queued: false,
            moved: Moved::default(),
        }
    }

    /// What it has read and written since it was asked last.
    #[inline]
    pub fn moved(&mut self) -> &mut Moved {
        &mut self.moved
    }

    /// Its socket.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// A request has arrived in part.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Is after the last answer.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Waits for the client to close.
    pub fn is_lingering(&self) -> bool {
        self.lingering
    }

    /// Is not served: all it gets is an answer that says so.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Answers wait to be taken.
    pub fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Nothing of it is in hand: it may be closed without failing a request that was read.
    pub fn is_idle(&self) -> bool {
        !self.begun && !self.more && !self.is_blocked() && !self.readable && !self.closing
    }

    /// The client has ended, and everything it asked is answered.
    pub fn is_over(&self) -> bool {
        self.ended && !self.more && !self.is_blocked()
    }

    /// Has something to do in the next tick, without waiting for the socket.
    pub fn has_work(&self) -> bool {
        !self.is_blocked() && !self.ended && (self.more || self.readable)
            || self.ended && self.more && !self.is_blocked()
    }

    /// Reads once, if there is a point to it.
    pub fn read(&mut self, arena: &mut Arena) -> Reading {
        self.piece = 0..0;
        if self.lingering {
            return self.read_away(arena);
        }
        if self.is_blocked() || self.closing {
            return Reading::Wait;
        }
        if self.more {
            return Reading::Run;
        }
        if !self.readable || self.ended {
            return Reading::Wait;
        }
        if self.kept.is_empty() {
            let Some(room) = arena.room() else { return Reading::Later };
            let (result, asked) = (self.stream.read(room), room.len());
            let reading = self.note(&result, asked);
            self.piece = arena.keep(result.unwrap_or(0));
            return reading;
        }
        let length = self.kept.len();
        let whole = self.need.max(length + 1).min((2 * length).max(length + KEPT_READ_BYTES));
        make_room(&mut self.kept, whole - length, 0);
        self.kept.resize(whole, 0);
        let result = self.stream.read(&mut self.kept[length..]);
        let reading = self.note(&result, whole - length);
        self.kept.truncate(length + result.unwrap_or(0));
        reading
    }

    /// Takes what a client sends that is not answered any more.
    fn read_away(&mut self, arena: &mut Arena) -> Reading {
        let Some(room) = arena.room() else { return Reading::Later };
        let (result, asked) = (self.stream.read(room), room.len());
        match self.note(&result, asked) {
            Reading::Run if self.ended => Reading::Gone,
            Reading::Run => Reading::Wait,
            other => other,
        }
    }

    fn note(&mut self, result: &io::Result<usize>, asked: usize) -> Reading {
        match result {
            Ok(0) => {
                self.ended = true;
                self.readable = false;
                Reading::Run
            }
            Ok(read) => {
                self.moved.read += *read as u64;
                // By edge: less than asked for means that the socket is empty, unless the client's
                // end, which was signalled once for all, waits behind it.
                self.readable = *read == asked || self.hung_up;
                Reading::Run
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Reading::Wait
            }
            Err(_) => Reading::Gone,
        }
    }

    /// Takes what was read, as one connection of the batch on the buffers.
    pub fn run<S: Serve>(
        &mut self,
        srv: &Srv,
        serve: &mut S,
        Buffers { arena, pool, scratch, out }: &mut Buffers,
    ) {
        let piece = arena.get(self.piece.clone());
        let input = if self.kept.is_empty() { piece } else { &self.kept };
        let progress = self.connection.take(input, srv.into(), serve, scratch, out);
        let Progress { consumed, need, more, begun, close } = progress;
        if self.kept.is_empty() {
            if consumed < piece.len() {
                self.kept = pool.take(&piece[consumed..]);
            }
        } else {
            self.kept.drain(..consumed);
            if self.kept.is_empty() {
                pool.give(&mut self.kept);
            }
        }
        (self.need, self.more, self.begun, self.closing) = (need, more, begun, close);
    }

    /// Its request is late: appends the answer to that, after which it is closed.
    pub fn time_out<S: Serve>(&mut self, srv: &Srv, serve: &mut S, buffers: &mut Buffers) {
        self.connection.time_out(srv.into(), serve, &mut buffers.scratch, &mut buffers.out);
        (self.more, self.begun, self.closing) = (false, false, true);
    }

    /// Has been refused: after what is written next it is closed.
    pub fn refuse(&mut self) {
        (self.refused, self.closing) = (true, true);
    }

    /// Writes answers, keeping what is not taken.
    pub fn write(&mut self, answers: &[u8], pool: &mut Pool) -> Writing {
        let result = self.stream.write(answers);
        self.moved.written += *result.as_ref().unwrap_or(&0) as u64;
        match result {
            Ok(written) if written == answers.len() => Writing::Done,
            Ok(written) => {
                self.unsent = pool.take(&answers[written..]);
                self.sent = 0;
                Writing::Blocked
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.unsent = pool.take(answers);
                self.sent = 0;
                Writing::Blocked
            }
            Err(_) => Writing::Gone,
        }
    }

    /// Goes on writing what was not taken.
    pub fn write_unsent(&mut self, pool: &mut Pool) -> Writing {
        match self.stream.write(&self.unsent[self.sent..]) {
            Ok(written) => {
                self.moved.written += written as u64;
                self.sent += written;
                if self.sent < self.unsent.len() {
                    return Writing::Blocked;
                }
                pool.give(&mut self.unsent);
                Writing::Done
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Writing::Blocked,
            Err(_) => Writing::Gone,
        }
    }

    /// After the last answer: ends writing, and reads on for a moment lest a reset overtake the
    /// answer. False if there is nobody to wait for.
    pub fn linger(&mut self, pool: &mut Pool) -> bool {
        pool.give(&mut self.kept);
        self.lingering = true;
        (self.more, self.begun) = (false, false);
        !self.ended && self.stream.end_writing().is_ok()
    }

    /// Gives its buffers back: it is closed.
    pub fn release(&mut self, pool: &mut Pool) {
        pool.give(&mut self.kept);
        pool.give(&mut self.unsent);
    }
}

#[cfg(test)]
mod tests;
