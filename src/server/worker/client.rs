//! One client of a worker: its socket, its connection, and the bytes kept for it between ticks.
//!
//! Invariant: the worker reads nothing from a client that has unsent answers. So a client keeps at
//! most one incomplete request and the answers to the input of one tick.
//! `frs_conf::memory_bound::BufferSizes::connection_bytes` bounds both.

use std::io;
use std::net::IpAddr;
use std::ops::Range;

use super::buffer_pool::{BufferPool, make_room};
use super::buffers::{Arena, Buffers};
use super::connection::{
    Connection, ConnectionRules, Gate, InputProgress, ParkedItem, RespRules, Serve,
};
use super::resp_connection::{Input, RespConnection};
use crate::net::face::Face;
use crate::net::stream::{Received, Stream};
use crate::protocol::response_head::ResponseOptions;
use crate::protocol::{Error, resp};
use frs_conf::Srv;
use frs_engine::Exchange;
use frs_engine::access::Brake;

/// Memory of a client besides its buffers: its places in lists, timers and the event queue.
pub const CLIENT_BYTES: usize = 1 << 10;
/// The least room for a read that continues a kept request.
const KEPT_READ_BYTES: usize = 4 << 10;

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// There is input to process, or the client has shut down its sending side.
    Run,
    /// The arena is full: read again in the next tick.
    Later,
    /// There is nothing to do until the socket is ready again.
    Wait,
    /// The connection is broken or has ended.
    Gone,
    /// The client speaks plain text where TLS is spoken.
    Plain,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// All bytes are written.
    Done,
    /// The socket takes no more bytes at present.
    Blocked,
    /// The connection is broken.
    Gone,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// The socket of the client.
    pub stream: Stream,
    /// The address of the client. `None` on a unix socket.
    pub peer: Option<IpAddr>,
    protocol: ClientProtocol,
    /// Input that waits for more bytes, or for the next tick.
    kept: Vec<u8>,
    /// The room that the buffer of `kept` must have.
    need: usize,
    /// The input of this tick, in the arena.
    piece: Range<usize>,
    /// Answers that are not completely written. Their first `sent` bytes are written.
    unsent: Vec<u8>,
    sent: usize,
    /// The socket may have input.
    pub readable: bool,
    /// The client has shut down its sending side, even if that end was not read yet.
    pub hung_up: bool,
    /// No more input is read.
    ended: bool,
    phase: ClientPhase,
    /// The client is not served. It gets only the answer that tells it so.
    pub refused: bool,
    /// The client is in the list of clients that have work in the next tick.
    pub queued: bool,
    /// Its address waits, since it has shown wrong tokens. Nothing is read meanwhile.
    pub held: bool,
    /// A part of its input was processed.
    has_served: bool,
    /// Why the TLS session has failed.
    tls_error: Option<String>,
    /// Bytes read and written that the worker has not counted yet.
    pub traffic: Traffic,
}

/// The phase of a client. A client never returns to an earlier variant, except that a parked
/// request puts off the end of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientPhase {
    /// Requests are served.
    Serving {
        /// A full tick left input unprocessed.
        more: bool,
        /// A request is incomplete.
        begun: bool,
    },
    /// The last answer is written, or it is in `unsent`.
    Closing,
    /// The worker only waits for the client to close.
    Lingering,
}

impl ClientPhase {
    /// All input is processed, and no request is incomplete.
    const BETWEEN_REQUESTS: ClientPhase = ClientPhase::Serving { more: false, begun: false };
}

/// The connection of a client, by protocol.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most clients speak HTTP, and need no second block")]
enum ClientProtocol {
    Http(Connection),
    /// The index of the client's `<resp>`, and its connection. Boxed because most clients speak
    /// HTTP.
    Resp(u16, Box<RespConnection>),
}

impl ClientProtocol {
    /// The parked items of the connection, in order.
    #[inline]
    fn parked(&self) -> &[ParkedItem] {
        match self {
            ClientProtocol::Http(connection) => &connection.parked,
            ClientProtocol::Resp(_, connection) => &connection.parked,
        }
    }

    fn parked_mut(&mut self) -> &mut Vec<ParkedItem> {
        match self {
            ClientProtocol::Http(connection) => &mut connection.parked,
            ClientProtocol::Resp(_, connection) => &mut connection.parked,
        }
    }
}

/// Bytes read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Traffic {
    /// Adds the counts of `other` and clears them there.
    #[inline]
    pub fn take(&mut self, other: &mut Traffic) {
        let Traffic { read, written } = std::mem::take(other);
        self.read += read;
        self.written += written;
    }
}

impl Client {
    /// A new client.
    pub fn new(stream: Stream, peer: Option<IpAddr>, face: Face) -> Client {
        let protocol = match face {
            Face::Http => ClientProtocol::Http(Connection::new(peer)),
            Face::Resp(nth) => ClientProtocol::Resp(nth, Box::new(RespConnection::new(peer))),
        };
        Client {
            stream,
            peer,
            protocol,
            kept: Vec::new(),
            need: 0,
            piece: 0..0,
            unsent: Vec::new(),
            sent: 0,
            readable: false,
            hung_up: false,
            ended: false,
            phase: ClientPhase::BETWEEN_REQUESTS,
            refused: false,
            queued: false,
            held: false,
            has_served: false,
            tls_error: None,
            traffic: Traffic::default(),
        }
    }

    /// Whether a part of a request has arrived.
    pub fn has_begun(&self) -> bool {
        matches!(self.phase, ClientPhase::Serving { begun: true, .. })
    }

    /// Whether the last answer is written or in `unsent`.
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, ClientPhase::Closing | ClientPhase::Lingering)
    }

    /// Whether the worker only waits for the client to close.
    pub fn is_lingering(&self) -> bool {
        self.phase == ClientPhase::Lingering
    }

    /// Whether a full tick left input unprocessed.
    fn has_more(&self) -> bool {
        matches!(self.phase, ClientPhase::Serving { more: true, .. })
    }

    /// Whether some answers are unsent.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        !self.unsent.is_empty() || self.stream.is_blocked()
    }

    /// Whether a request waits for a reply.
    #[inline]
    pub fn is_parked(&self) -> bool {
        !self.protocol.parked().is_empty()
    }

    /// The first waiting request.
    pub fn waiting(&self) -> Option<&Exchange> {
        match self.protocol.parked().first()? {
            ParkedItem::Request(exchange, _) => Some(exchange),
            ParkedItem::Answer(_) => None,
        }
    }

    /// Parks an item that the batch parked for this client.
    #[cold]
    pub fn park(&mut self, parked: ParkedItem) {
        self.protocol.parked_mut().push(parked);
        self.phase = ClientPhase::BETWEEN_REQUESTS;
    }

    /// When the wait of the client's address ends. `None` if the client need not wait: it has shown
    /// a right token, comes over a unix socket, or was served before its address had to wait.
    #[cold]
    pub fn wait(&self, brake: &Brake, now_ms: u64) -> Option<u64> {
        let peer = self.peer.filter(|_| !self.is_closing() && !self.is_blocked())?;
        let (is_exempt, is_wrong) = match &self.protocol {
            ClientProtocol::Http(connection) => (connection.is_exempt(), connection.is_wrong()),
            ClientProtocol::Resp(_, connection) => (connection.is_exempt(), connection.is_wrong()),
        };
        match (is_exempt, is_wrong, self.has_served) {
            (true, ..) | (false, false, true) => None,
            (false, true, _) => brake.until(peer, now_ms),
            (false, false, false) => brake.wait(peer, now_ms),
        }
    }

    /// Whether the worker may close the client without failing a request that it has read.
    pub fn is_idle(&self) -> bool {
        let is_held = self.is_blocked() || self.is_parked();
        let is_between = self.phase == ClientPhase::BETWEEN_REQUESTS;
        is_between && !is_held && !self.readable && !self.stream.is_handshaking()
    }

    /// Whether the client has ended its input and all its requests are answered.
    pub fn is_over(&self) -> bool {
        self.ended && !self.has_more() && !self.is_blocked() && !self.is_parked()
    }

    /// Whether the client has work in the next tick, without waiting for the socket.
    pub fn has_work(&self) -> bool {
        let may_run = !self.is_blocked() && !self.is_parked();
        may_run && !self.held && (self.has_more() || !self.ended && self.readable)
    }

    /// Reads once, unless the client has unsent answers, parked requests or unprocessed input.
    pub fn read(&mut self, arena: &mut Arena) -> Reading {
        self.piece = 0..0;
        if self.is_lingering() {
            return self.read_away(arena);
        }
        if self.is_blocked() || self.is_closing() || self.is_parked() {
            return Reading::Wait;
        }
        if self.has_more() {
            return Reading::Run;
        }
        if !self.readable || self.ended {
            return Reading::Wait;
        }
        if let Some(needed) = self.stream.read_room() {
            return self.read_tls(arena, needed);
        }
        if self.kept.is_empty() {
            let Some(room) = arena.room() else { return Reading::Later };
            let result = self.stream.read(room);
            let reading = self.note(&result);
            self.piece = arena.keep(result.map_or(0, |received| received.bytes));
            return reading;
        }
        let length = self.kept.len();
        let whole = self.need.max(length + 1).min((2 * length).max(length + KEPT_READ_BYTES));
        make_room(&mut self.kept, whole - length, 0);
        self.kept.resize(whole, 0);
        let result = self.stream.read(&mut self.kept[length..]);
        let reading = self.note(&result);
        self.kept.truncate(length + result.map_or(0, |received| received.bytes));
        reading
    }

    /// Reads once over TLS, through a room of `needed` bytes in the arena.
    fn read_tls(&mut self, arena: &mut Arena, needed: usize) -> Reading {
        let Some(room) = arena.room_of(needed) else { return Reading::Later };
        let result = self.stream.read(room);
        let reading = self.note(&result);
        let piece = arena.keep(result.map_or(0, |received| received.bytes));
        if self.kept.is_empty() {
            self.piece = piece;
        } else {
            let plain = arena.get(piece);
            make_room(&mut self.kept, plain.len(), 0);
            self.kept.extend_from_slice(plain);
        }
        match self.stream.tls() {
            Some(tls) if tls.is_plain() => Reading::Plain,
            _ => reading,
        }
    }

    /// Reads and drops input that gets no answer.
    fn read_away(&mut self, arena: &mut Arena) -> Reading {
        let room = match self.stream.read_room() {
            None => arena.room(),
            Some(needed) => arena.room_of(needed),
        };
        let Some(room) = room else { return Reading::Later };
        let result = self.stream.read(room);
        match self.note(&result) {
            Reading::Run if self.ended => Reading::Gone,
            Reading::Run => Reading::Wait,
            other => other,
        }
    }

    fn note(&mut self, result: &io::Result<Received>) -> Reading {
        self.traffic.written += self.stream.take_written();
        match result {
            Ok(Received { is_end: true, wire, .. }) => {
                self.traffic.read += *wire as u64;
                self.ended = true;
                self.readable = false;
                Reading::Run
            }
            Ok(received) => {
                self.traffic.read += received.wire as u64;
                // Edge-triggered: a short read means that the socket is empty, unless the end of
                // input follows. The kernel signals that end only once.
                self.readable = received.is_full || self.hung_up;
                // A part of a record, or of a handshake, is no input yet.
                if received.bytes == 0 { Reading::Wait } else { Reading::Run }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Reading::Wait
            }
            Err(error) => {
                self.tls_error = error.get_ref().map(ToString::to_string);
                Reading::Gone
            }
        }
    }

    /// Tells the connection the names of the client's certificate, once the handshake is complete.
    pub fn show_cert(&mut self) {
        let names = self.stream.certificate_names();
        if names.is_empty() {
            return;
        }
        match &mut self.protocol {
            ClientProtocol::Http(connection) => connection.show_cert(names.to_vec()),
            ClientProtocol::Resp(_, connection) => connection.show_cert(names.to_vec()),
        }
    }

    /// Keeps the input of this tick for the next one.
    pub fn put_off(&mut self, Buffers { arena, scratch, .. }: &mut Buffers) {
        if self.kept.is_empty() {
            self.kept = scratch.pool.take(arena.get(self.piece.clone()));
        }
        self.piece = 0..0;
        self.phase = ClientPhase::Serving { more: true, begun: false };
    }

    /// Why the TLS session has just failed.
    pub fn take_tls_error(&mut self) -> Option<String> {
        self.tls_error.take()
    }

    /// Processes the input, as one connection of the batch.
    pub fn run<S: Serve>(
        &mut self,
        srv: &Srv,
        gate: Option<Gate<'_>>,
        serve: &mut S,
        Buffers { arena, scratch, out }: &mut Buffers,
    ) {
        let piece = arena.get(self.piece.clone());
        let input = if self.kept.is_empty() { piece } else { &self.kept };
        let progress = match &mut self.protocol {
            ClientProtocol::Http(connection) => {
                connection.take(input, ConnectionRules::of(srv, gate), serve, scratch, out)
            }
            ClientProtocol::Resp(nth, connection) => {
                let input = Input { bytes: input, has_more: self.readable };
                let own = RespRules::of(srv, *nth).with(gate);
                connection.take(input, own, serve, scratch, out)
            }
        };
        // A client that resumes its parked requests does not read first. It must not process this
        // piece again.
        self.piece = 0..0;
        let InputProgress { consumed, need, more, begun, close } = progress;
        self.has_served |= consumed > 0;
        if self.kept.is_empty() {
            if consumed < piece.len() {
                self.kept = scratch.pool.take(&piece[consumed..]);
            }
        } else {
            self.kept.drain(..consumed);
            if self.kept.is_empty() {
                scratch.pool.give(&mut self.kept);
            }
        }
        self.need = need;
        self.phase =
            if close { ClientPhase::Closing } else { ClientPhase::Serving { more, begun } };
    }

    /// Answers a late request. The connection closes after the answer.
    pub fn time_out<S: Serve>(&mut self, srv: &Srv, serve: &mut S, buffers: &mut Buffers) {
        let Buffers { scratch, out, .. } = buffers;
        match &mut self.protocol {
            ClientProtocol::Http(connection) => {
                connection.time_out(srv.into(), serve, scratch, out)
            }
            ClientProtocol::Resp(_, connection) => connection.time_out(serve, out),
        }
        self.phase = ClientPhase::Closing;
    }

    /// Marks the client as refused and appends the answer that tells it so. The connection closes
    /// after that answer is written.
    pub fn refuse(&mut self, error: &Error, buffers: &mut Buffers) {
        let Buffers { scratch, out, .. } = buffers;
        match (&self.protocol, error) {
            (ClientProtocol::Resp(..), Error::OnTls) => {
                resp::write_fault(out, resp::Fault::OnTls);
            }
            (ClientProtocol::Http(_), _) => {
                scratch.refuse(ResponseOptions::CLOSE.into(), error, out);
            }
            (ClientProtocol::Resp(..), Error::Overloaded) => {
                resp::write_fault(out, resp::Fault::Overloaded);
            }
            (ClientProtocol::Resp(..), _) => resp::write_fault(out, resp::Fault::PeerForbidden),
        }
        self.refused = true;
        self.phase = ClientPhase::Closing;
    }

    /// Like [`Client::refuse`], with these bytes as the answer.
    pub fn refuse_with(&mut self, answer: &[u8], buffers: &mut Buffers) {
        buffers.out.extend_from_slice(answer);
        self.refused = true;
        self.phase = ClientPhase::Closing;
    }

    /// Writes answers, and keeps the bytes that the socket does not take.
    pub fn write(&mut self, answers: &[u8], pool: &mut BufferPool) -> Writing {
        let result = self.stream.write(answers);
        self.traffic.written += match &self.stream {
            Stream::Tls(_) => self.stream.take_written(),
            Stream::Tcp(_) | Stream::Unix(_) => *result.as_ref().unwrap_or(&0) as u64,
        };
        match result {
            Ok(written) if written == answers.len() => match self.stream.is_blocked() {
                false => Writing::Done,
                true => Writing::Blocked,
            },
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

    /// Continues to write the unsent answers.
    pub fn write_unsent(&mut self, pool: &mut BufferPool) -> Writing {
        if self.stream.is_blocked() {
            let flushed = self.stream.flush();
            self.traffic.written += self.stream.take_written();
            return match flushed {
                Err(_) => Writing::Gone,
                Ok(()) if self.stream.is_blocked() => Writing::Blocked,
                Ok(()) => Writing::Done,
            };
        }
        match self.stream.write(&self.unsent[self.sent..]) {
            Ok(written) => {
                self.traffic.written += written as u64;
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

    /// Shuts down writing after the last answer, and keeps reading for a moment so that no reset
    /// overtakes the answer. Returns false if the client has already gone.
    pub fn linger(&mut self, pool: &mut BufferPool) -> bool {
        self.release_read(pool);
        self.phase = ClientPhase::Lingering;
        !self.ended && self.stream.end_writing().is_ok()
    }

    /// Takes the parked items of a client that is closed.
    pub fn give_up(&mut self) -> Vec<ParkedItem> {
        std::mem::take(self.protocol.parked_mut())
    }

    /// Returns the buffers of a closed client.
    pub fn release(&mut self, pool: &mut BufferPool) {
        self.release_read(pool);
        pool.give(&mut self.unsent);
    }

    /// Returns the buffers of the input.
    fn release_read(&mut self, pool: &mut BufferPool) {
        pool.give(&mut self.kept);
        if let ClientProtocol::Resp(_, connection) = &mut self.protocol {
            connection.release(pool);
        }
    }
}

#[cfg(test)]
mod tests;
