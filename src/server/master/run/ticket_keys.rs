//! The keys of session tickets: makes another one each hour.
//!
//! Invariant: only the master that holds the lock makes keys. The keys are in memory that the newer
//! master of an upgrade shares, so a session is resumed after it, too.

use std::time::{Duration, Instant};

use super::Master;
use frs_base::clock;

/// The pause after the system gave no random bytes.
const PAUSE: Duration = Duration::from_secs(10);

impl Master {
    /// When the keys are looked at next. `None` if nobody uses them.
    pub(super) fn next_ticket_key(&self) -> Option<Instant> {
        let is_used = !self.in_force.conf().srv.tls.is_empty();
        (is_used && self.lock.is_some()).then_some(self.next_ticket_key)
    }

    pub(super) fn look_at_ticket_keys(&mut self) {
        let now = clock::instant();
        if self.next_ticket_key().is_none_or(|next| next > now) {
            return;
        }
        let now_ms = clock::now();
        let wait = match self.in_force.boards().tls.tickets.rotate(now_ms) {
            Ok(next_ms) => Duration::from_millis(next_ms.saturating_sub(now_ms)),
            Err(error) => {
                tracing::error!(%error, "cannot make a key of session tickets");
                PAUSE
            }
        };
        self.next_ticket_key = now + wait;
    }
}
