//! Handshakes of TLS in a tick.
//!
//! Invariant: a tick works on at most [`HANDSHAKES_PER_TICK`] handshakes. The others come first in
//! the next tick, so a flood of them delays other clients by a bounded time. A handshake ends
//! within the request-timeout of its connection.

use super::Worker;
use crate::net::client_timeouts::TimerKind;
use crate::tls::session::Handshake;
use crate::worker::client::Reading;
use crate::worker::overload_log::OverloadLog;
use frs_store::HandshakeResult;

/// The most handshakes that a tick works on. A full one costs up to a millisecond, which is its
/// signature.
pub(super) const HANDSHAKES_PER_TICK: usize = 8;

/// Counts failed handshakes, for at most one line of the log a second.
#[derive(Debug, Default)]
pub(super) struct HandshakeLog {
    failed: OverloadLog,
    /// Why the last one failed.
    reason: String,
}

impl HandshakeLog {
    fn add(&mut self, reason: String) {
        self.failed.add();
        self.reason = reason;
    }

    /// When the next line is due, or `None` if there is nothing to log.
    pub fn due_ms(&self) -> Option<u64> {
        self.failed.due_ms()
    }
}

impl Worker {
    /// Reads from a client whose handshake is in progress. `left` is the number of handshakes that
    /// this tick may still work on.
    pub(super) fn shake_hands(&mut self, index: u32, left: &mut usize) {
        if *left == 0 {
            return self.queue(index);
        }
        let Some(client) = self.clients[index as usize].as_mut() else { return };
        let is_blocked = client.is_blocked();
        let reading = client.read(&mut self.buffers.arena);
        self.traffic.take(&mut client.traffic);
        *left -= usize::from(!is_blocked && reading != Reading::Later);
        let tls = client.stream.tls();
        let (has_begun, handshake) =
            tls.map_or((false, None), |tls| (tls.has_begun(), tls.handshake()));
        let reason = client.take_tls_error();
        if let Some(handshake) = handshake {
            client.show_cert();
            // What came with the handshake waits as long as its address.
            let waits = reading == Reading::Run && !self.handler.brake.is_idle();
            if waits {
                client.put_off(&mut self.buffers);
            }
            self.timers.arm(index, TimerKind::Idle, self.now_ms);
            self.count_handshake(match handshake {
                Handshake::Full => HandshakeResult::Full,
                Handshake::Resumed => HandshakeResult::Resumed,
            });
            if waits {
                return self.queue(index);
            }
        } else if has_begun && (reading == Reading::Gone || reading == Reading::Run) {
            // The client has gone, or has broken the protocol.
            let words = reason.unwrap_or_else(|| "the client has gone".to_owned());
            self.count_failed(words);
        }
        self.note_reading(index, reading);
    }

    /// Closes a client whose handshake is late.
    pub(super) fn give_up_handshake(&mut self, index: u32) {
        self.count_failed("the handshake was not complete in time".to_owned());
        self.close(index);
    }

    fn count_failed(&mut self, reason: String) {
        self.count_handshake(HandshakeResult::Failed);
        self.failed_handshakes.add(reason);
    }

    pub(super) fn count_handshake(&self, result: HandshakeResult) {
        if let Some(counters) = self.counters() {
            counters.count_handshake(result);
        }
    }

    pub(super) fn log_handshakes(&mut self) {
        if let Some(handshakes) = self.failed_handshakes.failed.take_due(self.now_ms) {
            let reason = std::mem::take(&mut self.failed_handshakes.reason);
            tracing::info!(handshakes, last = reason, "handshakes of TLS failed");
        }
    }
}
