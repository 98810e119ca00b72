//! The clients that a tick accepts: it serves them, or refuses them with an answer.
//!
//! Invariant: a tick accepts at most `ACCEPTS_PER_TICK` clients. A refused client takes no place of
//! a served one, and there are at most `REFUSED_CLIENTS` of them.

use std::net::IpAddr;

use mio::Token;

use super::{FIRST_CLIENT, REFUSED_CLIENTS, Worker};
use crate::net::client_timeouts::TimerKind;
use crate::protocol;
use crate::worker::accept::{ACCEPTS_PER_TICK, AcceptedClient};
use crate::worker::client::Client;
use frs_base::clock;
use frs_conf::Srv;
use frs_store::Counter;

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
    fn admit(&mut self, AcceptedClient { stream, peer, face }: AcceptedClient) {
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
        let Some(index) = self.add_client(Client::new(stream, peer, face)) else { return };
        match refusal {
            None => self.timers.arm(index, TimerKind::Idle, self.now_ms),
            Some(error) => self.refuse(index, &error),
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

    /// Answers a client that is not served.
    fn refuse(&mut self, index: u32, error: &protocol::Error) {
        self.buffers.out.clear();
        if let Some(client) = self.clients[index as usize].as_mut() {
            client.refuse(error, &mut self.buffers);
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
