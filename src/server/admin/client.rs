//! A client of the admin plane: its socket, its connection and its stage.
//!
//! Invariant: a tick reads no more from a client than it answers and the connection has room for.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::access::Transport;
use super::client_eviction::{Candidate, ClientState, MAX_CLIENTS, MAX_SCRAPERS};
use super::connection::AdminConnection;
use crate::net::stream::Stream;
use crate::tls::bounds::READ_ROOM;
use rustls::ServerConfig;

/// A connection without a request is closed after this time.
pub const IDLE: Duration = Duration::from_secs(30);
/// The most bytes of one read.
pub const READ_BYTES: usize = 16 << 10;
/// The most bytes of one write.
const WRITE_BYTES: usize = 16 << 10;
/// The time limit of a handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The most reads from one client in a tick.
const READS: usize = 16;

/// The service that a client gets. Each kind has places of its own. So metrics clients take no
/// place of the admin plane, and strangers take no place of metrics clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientKind {
    Admin,
    Metrics,
    /// A metrics client whose address no `<allow>` has. It gets a refusal.
    Stranger,
}

impl ClientKind {
    /// The most connections of this kind.
    pub const fn places(self) -> usize {
        match self {
            ClientKind::Admin => MAX_CLIENTS,
            ClientKind::Metrics | ClientKind::Stranger => MAX_SCRAPERS,
        }
    }

    /// The name of the kind in the log.
    pub const fn name(self) -> &'static str {
        match self {
            ClientKind::Admin => "admin",
            ClientKind::Metrics | ClientKind::Stranger => "metrics",
        }
    }
}

/// A client.
pub(super) struct AdminClient {
    pub stream: Stream,
    pub connection: AdminConnection,
    pub kind: ClientKind,
    pub transport: Transport,
    /// The peer, as text for the log.
    pub peer: Arc<str>,
    /// Over a unix socket, the user of the peer's process: `uid:N`.
    pub user: Option<Arc<str>>,
    /// The address that `<allow>` must have, and for which wrong tokens are counted. `None` over a
    /// unix socket, whose mode decides.
    pub address: Option<IpAddr>,
    pub deadline: Instant,
    pub stage: ClientStage,
    /// When the client entered this stage.
    pub since: Instant,
    /// The client has received an answer before.
    pub is_known: bool,
    /// The client has shown a right token, and no wrong one since.
    pub is_proven: bool,
    pub readable: bool,
    /// There is input that no tick has processed.
    pub more: bool,
    /// The client has shut down its sending side. Its requests are answered, and no more will come.
    pub ended: bool,
}

/// The stage of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientStage {
    Idle,
    Begun,
    /// The answer is not ready. The client is not to blame for the time.
    Waiting,
    Writing,
    Lingering,
}

impl AdminClient {
    /// A new client that has made no request, without a user and an address.
    pub fn new(
        stream: Stream,
        kind: ClientKind,
        transport: Transport,
        peer: Arc<str>,
        now: Instant,
    ) -> AdminClient {
        AdminClient {
            stream,
            connection: AdminConnection::default(),
            kind,
            transport,
            peer,
            user: None,
            address: None,
            deadline: now + IDLE,
            stage: ClientStage::Idle,
            since: now,
            is_known: false,
            is_proven: false,
            readable: true,
            more: false,
            ended: false,
        }
    }

    /// The same client over TLS, whose handshake has a time limit.
    pub fn over_tls(self, config: Arc<ServerConfig>, now: Instant) -> io::Result<AdminClient> {
        let stream = self.stream.over_tls(config)?;
        Ok(AdminClient { stream, deadline: now + HANDSHAKE, ..self })
    }

    /// Whether some output is not written.
    pub fn has_output(&self) -> bool {
        self.connection.has_output() || self.stream.is_blocked()
    }

    /// Enters another stage, with this time limit.
    pub fn enter(&mut self, stage: ClientStage, time: Duration, now: Instant) {
        (self.stage, self.since, self.deadline) = (stage, now, now + time);
    }

    /// Describes the client for the choice of the client to evict.
    pub fn candidate(&self, id: usize) -> Candidate {
        let state = match self.stage {
            ClientStage::Lingering => ClientState::Done,
            ClientStage::Idle if self.is_known => ClientState::Idle,
            ClientStage::Idle | ClientStage::Begun | ClientStage::Writing => ClientState::Busy,
            ClientStage::Waiting => ClientState::Waiting,
        };
        Candidate { client: id, state, since: self.since }
    }

    /// Whether an answer to it is being prepared.
    pub fn is_waiting(&self) -> bool {
        self.stage == ClientStage::Waiting
    }

    /// Whether the client has work without another event.
    pub fn has_work(&self) -> bool {
        self.more || self.readable && (self.connection.wants_input() || self.is_lingering())
    }

    /// Whether the plane only waits for the client to close.
    pub fn is_lingering(&self) -> bool {
        self.stage == ClientStage::Lingering
    }

    /// Reads input as far as there is room.
    pub fn read(&mut self) -> io::Result<()> {
        let mut room = [0; READ_ROOM];
        let room = match self.stream.read_room() {
            None => &mut room[..READ_BYTES],
            Some(_) => &mut room,
        };
        for _ in 0..READS {
            if !self.readable || !self.is_lingering() && !self.connection.has_room() {
                return Ok(());
            }
            match self.stream.read(room) {
                Ok(received) if received.is_end => (self.ended, self.readable) = (true, false),
                // Input after the last answer is read and dropped, so that no reset overtakes the
                // answer.
                Ok(_) if self.is_lingering() => {}
                Ok(received) => self.connection.take(&room[..received.bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes output until the socket takes no more.
    pub fn write(&mut self) -> io::Result<()> {
        if self.stream.is_blocked() {
            self.stream.flush()?;
        }
        while self.connection.has_output() && !self.stream.is_blocked() {
            let output = self.connection.output();
            // Over TLS all that is written is kept until the socket takes it.
            match self.stream.write(&output[..output.len().min(WRITE_BYTES)]) {
                Ok(written) => self.connection.note_sent(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::access;
    use crate::admin::connection::{ConnectionStep, MAX_HEAD_BYTES};
    use frs_base::clock;
    use std::io::{Read, Write};

    #[test]
    fn of_a_client_that_asks_on_and_on_no_more_is_read_than_a_tick_answers() {
        let (mut far, near) = mio::net::UnixStream::pair().expect("a pair");
        let now = clock::instant();
        let (stream, peer) = (Stream::Unix(near), "unix".into());
        let (kind, transport) = (ClientKind::Admin, Transport::Unix);
        let mut client = AdminClient::new(stream, kind, transport, peer, now);
        let request = b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let (mut sent, mut taken) = (0, 0);
        for _ in 0..200 {
            while let Ok(bytes) = far.write(&request[sent % request.len()..]) {
                sent += bytes;
            }
            client.readable = true;
            client.read().expect("read");
            if let ConnectionStep::Refused(..) = client
                .connection
                .step(0, |head| access::admit(head, Transport::Unix, access::Keys::default()))
            {
                client.write().expect("written");
                taken += request.len();
            }
            while far.read(&mut [0; READ_BYTES]).is_ok() {}
        }
        assert!(taken >= 100 * request.len(), "{taken}");
        let mut unread = vec![0; sent];
        let Stream::Unix(near) = &mut client.stream else { panic!("a unix socket") };
        let mut left = 0;
        while let Ok(bytes) = near.read(&mut unread) {
            left += bytes;
        }
        let kept = sent - taken - left;
        assert!(kept < MAX_HEAD_BYTES as usize + READ_BYTES, "{kept} bytes are kept");
    }
}
