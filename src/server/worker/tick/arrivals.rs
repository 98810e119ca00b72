//! The clients that a tick accepts: it serves them, or refuses them with an answer.
//!
//! Invariant: a tick accepts at most `ACCEPTS_PER_TICK` clients. A refused client takes no place of
//! a served one, and there are at most `REFUSED_CLIENTS` of them.

use std::net::IpAddr;
use std::sync::Arc;

use mio::Token;

use super::{FIRST_CLIENT, REFUSED_CLIENTS, Worker};
use crate::net::client_timeouts::TimerKind;
use crate::protocol;
use crate::tls::alert::Alert;
use crate::tls::configs::Spoken;
use crate::worker::accept::{ACCEPTS_PER_TICK, AcceptedClient};
use crate::worker::buffers::Buffers;
use crate::worker::client::Client;
use frs_base::clock;
use frs_conf::Srv;
use frs_store::{Counter, HandshakeResult};

impl Worker {
    pub(super) fn accept_clients(&mut self) {
        for _ in 0..ACCEPTS_PER_TICK {
            if !self.listeners.may_accept(self.now_ms) {
                return;
            }
            if let Some(accepted) = self.listeners.accept(self.now_ms) {
                self.admit(accepted);
            }
        }
    }

    /// Serves a client, or refuses it.
    fn admit(&mut self, accepted: AcceptedClient) {
        let AcceptedClient { stream, peer, face, spoken } = accepted;
        let refusal = self.refusal_of(peer);
        self.count(Counter::Connections);
        if refusal.is_some() {
            self.count(Counter::ConnectionsRefused);
        }
        if matches!(refusal, Some(protocol::Error::Overloaded)) {
            self.overloads.add();
        }
        if refusal.is_some() && self.refused >= REFUSED_CLIENTS && !self.make_room_for_refused() {
            return;
        }
        let (stream, timer) = match (&refusal, &spoken) {
            (None, Spoken::Nothing) => return,
            (None, Spoken::Tls(config)) => match stream.over_tls(Arc::clone(config)) {
                Ok(stream) => (stream, TimerKind::Request),
                Err(_) => return,
            },
            _ => (stream, TimerKind::Idle),
        };
        let Some(index) = self.add_client(Client::new(stream, peer, face)) else { return };
        match (refusal, spoken) {
            (None, _) => self.timers.arm(index, timer, self.now_ms),
            // A refused client gets no session.
            (Some(error), Spoken::Tls(_)) => {
                let alert = match error {
                    protocol::Error::PeerForbidden => Alert::AccessDenied,
                    _ => Alert::InternalError,
                };
                let alert = alert.record();
                self.refuse_by(index, |client, buffers| client.refuse_with(&alert, buffers));
            }
            (Some(error), _) => self.refuse(index, &error),
        }
    }

    /// The reason to refuse a client, or `None` if it is served.
    fn refusal_of(&self, peer: Option<IpAddr>) -> Option<protocol::Error> {
        let srv: &Srv = self.conf.srv();
        let served = self.clients.len() - self.free.len() - self.refused;
        if !srv.allows(peer) {
            return Some(protocol::Error::PeerForbidden);
        }
        let is_full = served >= srv.http.max_connections as usize;
        is_full.then_some(protocol::Error::Overloaded)
    }

    /// Answers the clients in plain text that this tick has found where TLS is spoken.
    pub(super) fn refuse_plain(&mut self) {
        while let Some(index) = self.plain.pop() {
            self.count_handshake(HandshakeResult::Failed);
            if self.refused >= REFUSED_CLIENTS && !self.make_room_for_refused() {
                self.close(index);
                continue;
            }
            self.refuse(index, &protocol::Error::OnTls);
        }
    }

    /// Answers a client that is not served.
    fn refuse(&mut self, index: u32, error: &protocol::Error) {
        self.refuse_by(index, |client, buffers| client.refuse(error, buffers));
    }

    fn refuse_by(&mut self, index: u32, act: impl FnOnce(&mut Client, &mut Buffers)) {
        self.buffers.out.clear();
        if let Some(client) = self.clients[index as usize].as_mut() {
            act(client, &mut self.buffers);
            self.refused += 1;
        }
        self.write(index, 0..self.buffers.out.len());
        // The socket of a new connection takes such a short answer at once. If it does not, the
        // client is closed, because no memory is counted for the answer.
        if self.client(index).is_some_and(|client| client.is_blocked()) {
            self.close(index);
        }
    }

    /// Closes the client that was refused first. Returns false if there is none.
    fn make_room_for_refused(&mut self) -> bool {
        let Some(index) = self.timers.first(TimerKind::Refused) else { return false };
        // Input left unread would cause a reset that overtakes the answer.
        if let Some(client) = self.clients[index as usize].as_mut() {
            client.read(&mut self.buffers.arena);
            self.traffic.take(&mut client.traffic);
        }
        self.close(index);
        true
    }

    pub(super) fn log_overloads(&self, count: Option<u64>) {
        if let Some(connections) = count {
            let max_connections = self.conf.srv().http.max_connections;
            tracing::warn!(connections, max_connections, "refused connections with 503");
        }
    }

    /// Gives a client an index. Returns `None` if the poll cannot watch its socket.
    fn add_client(&mut self, mut client: Client) -> Option<u32> {
        let index = self.free.last().copied().unwrap_or(self.clients.len() as u32);
        let token = Token(FIRST_CLIENT + index as usize);
        if let Err(error) = client.stream.register(self.poll.registry(), token) {
            if self.unwatched.is_due(clock::instant()) {
                tracing::warn!(%error, "cannot watch a connection");
            }
            return None;
        }
        match self.free.pop() {
            Some(index) => self.clients[index as usize] = Some(client),
            None => self.clients.push(Some(client)),
        }
        Some(index)
    }
}
