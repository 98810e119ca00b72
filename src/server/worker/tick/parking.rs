//! The clients of a worker that wait for replies: parks, checks, resumes and drops their requests.
//!
//! Invariant: no waiting client is forgotten. The worker checks a client when its own bell rings,
//! at the client's deadline, and before the worker sleeps.

use super::Worker;
use crate::worker::client::Client;
use crate::worker::connection::{ParkedItem, Serve};
use crate::worker::request_handler::RequestHandler;

/// Whether a parked client has everything that its first request waits for.
fn may_go_on(clients: &[Option<Client>], handler: &RequestHandler, index: u32) -> bool {
    let waiting = clients[index as usize].as_ref().and_then(Client::waiting);
    waiting.is_none_or(|exchange| handler.may_go_on(exchange))
}

impl Worker {
    /// Gives the parked items of the batch to their clients.
    #[cold]
    pub(super) fn park_batch(&mut self) {
        for (batch_index, parked) in self.buffers.scratch.take_parked() {
            let index = self.batch[batch_index];
            let Some(client) = self.clients[index as usize].as_mut() else { continue };
            client.park(parked);
            if let Some(exchange) = client.waiting() {
                self.parked.add(index, self.now_ms.saturating_add(exchange.wait_ms));
            }
        }
    }

    /// Lets a client that has taken its answers resume its parked requests.
    pub(super) fn wait_again(&mut self, index: u32) {
        if self.client(index).is_some_and(|client| client.is_parked() && !client.is_blocked()) {
            self.parked.add(index, self.now_ms);
        }
    }

    /// Marks the worker as asleep. If any client may go on by now, the sleep ends
    /// at once.
    #[cold]
    pub(super) fn mark_asleep(&mut self) {
        if let Some(bells) = &self.bells {
            bells.mark_asleep(&self.handler.service);
        }
        let (clients, handler) = (&self.clients, &self.handler);
        self.parked.look(self.now_ms, |index| may_go_on(clients, handler, index));
    }

    /// Puts the clients whose wait is over before those with new input.
    #[cold]
    pub(super) fn resume_parked(&mut self) {
        let (clients, handler) = (&self.clients, &self.handler);
        let may_go_on = |index| may_go_on(clients, handler, index);
        self.parked.take_due(self.now_ms, may_go_on, &mut self.to_run);
    }

    /// Drops the parked requests of a client that is closed.
    #[cold]
    pub(super) fn give_up(&mut self, index: u32, client: &mut Client) {
        self.parked.remove(index);
        for parked in client.give_up() {
            if let ParkedItem::Request(mut exchange, _) = parked {
                self.handler.give_up(&mut exchange);
            }
        }
    }
}
