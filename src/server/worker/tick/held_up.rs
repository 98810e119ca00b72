//! The clients whose address waits, because it has shown wrong tokens.
//!
//! Invariant: nothing is read from such a client. There are at most [`MAX_HELD`] of them, so that
//! they leave the connections to others. While no address waits, the list is empty and costs
//! nothing.

use std::time::Duration;

use super::Worker;
use crate::net::client_timeouts::TimerKind;
use crate::process::log::LogThrottle;
use frs_base::clock;
use frs_store::Counter;

/// The most clients of a worker that wait. Further ones are closed.
const MAX_HELD: usize = 256;
/// The most clients whose wait ends in a tick.
const RELEASES_PER_TICK: usize = 8;
/// The shortest time between two log lines about addresses that wait.
const QUIET: Duration = Duration::from_secs(10);

/// The clients that wait, each with the end of its wait.
#[derive(Debug)]
pub(super) struct HeldUp {
    clients: Vec<(u32, u64)>,
    log: LogThrottle,
}

impl Default for HeldUp {
    fn default() -> HeldUp {
        HeldUp { clients: Vec::new(), log: LogThrottle::new(QUIET) }
    }
}

impl HeldUp {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// The end of the next wait.
    pub fn due_ms(&self) -> Option<u64> {
        self.clients.iter().map(|&(_, until_ms)| until_ms).min()
    }

    pub fn remove(&mut self, index: u32) {
        self.clients.retain(|&(other, _)| other != index);
    }

    /// Takes a client whose wait is over, in the order in which they began.
    fn pop_due(&mut self, now_ms: u64) -> Option<u32> {
        let at = self.clients.iter().position(|&(_, until_ms)| until_ms <= now_ms)?;
        Some(self.clients.remove(at).0)
    }
}

impl Worker {
    /// Holds a client up if its address waits. False if the client is to be read.
    #[cold]
    pub(super) fn hold_up(&mut self, index: u32) -> bool {
        let now_ms = self.now_ms;
        let Some(client) = self.clients[index as usize].as_mut() else { return false };
        if client.held {
            return true;
        }
        if self.ending.is_some() {
            return false;
        }
        let Some(until_ms) = client.wait(&self.handler.brake, now_ms) else { return false };
        if self.held_up.log.is_due(clock::instant()) {
            let peer = client.peer.map(tracing::field::display);
            let wait_ms = until_ms - now_ms;
            tracing::warn!(peer, wait_ms, "an address waits: it has shown wrong tokens");
        }
        if self.held_up.clients.len() >= MAX_HELD {
            self.count(Counter::ConnectionsRefused);
            self.close(index);
            return true;
        }
        client.held = true;
        self.held_up.clients.push((index, until_ms));
        self.timers.disarm(index);
        true
    }

    /// Lets go of the clients whose wait is over, or of all if the worker ends.
    #[cold]
    pub(super) fn let_go(&mut self) {
        let now_ms = if self.ending.is_some() { u64::MAX } else { self.now_ms };
        // What these show may make the others wait again.
        let most = if self.ending.is_some() { MAX_HELD } else { RELEASES_PER_TICK };
        for _ in 0..most {
            let Some(index) = self.held_up.pop_due(now_ms) else { return };
            if let Some(client) = self.client(index) {
                client.held = false;
                self.timers.arm(index, TimerKind::Idle, self.now_ms);
                self.queue(index);
            }
        }
    }
}
