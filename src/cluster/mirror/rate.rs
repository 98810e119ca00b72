//! How fast records go to a peer.

use std::time::{Duration, Instant};

/// What may be sent at once: the bytes of this time.
const BURST: Duration = Duration::from_millis(100);

/// A rate in bytes per second.
#[derive(Debug)]
pub struct Rate {
    bytes_per_s: u64,
    /// When all that was sent would be over at this rate.
    paid: Instant,
}

impl Rate {
    /// Nothing was sent yet.
    pub fn new(bytes_per_s: u64, now: Instant) -> Rate {
        Rate { bytes_per_s: bytes_per_s.max(1), paid: now }
    }

    /// Whether something may be sent.
    pub fn may_send(&mut self, now: Instant) -> bool {
        self.paid = self.paid.max(now.checked_sub(BURST).unwrap_or(now));
        self.paid <= now
    }

    /// When something may be sent.
    pub fn due(&self, now: Instant) -> Instant {
        self.paid.max(now)
    }

    /// Counts what was sent.
    pub fn sent(&mut self, bytes: usize) {
        self.paid += Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_sent_than_the_rate_and_a_burst() {
        let begun = frs_base::clock::instant() + Duration::from_secs(10);
        let mut rate = Rate::new(1_000_000, begun);
        let mut sent = 0;
        for ms in 0..2000 {
            let now = begun + Duration::from_millis(ms);
            while rate.may_send(now) {
                rate.sent(10_000);
                sent += 10_000;
            }
        }
        assert!((1_900_000..2_120_000).contains(&sent), "{sent}");
        assert!(rate.due(begun + Duration::from_secs(5)) == begun + Duration::from_secs(5));
    }
}
