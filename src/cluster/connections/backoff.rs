//! How long to wait before the next attempt to connect.
//!
//! Invariant: a wait is 100 ms to 1 s. Hosts that lost the same node do not come back all at once.

use std::time::Duration;

const FIRST_MS: u64 = 100;
const LONGEST_MS: u64 = 1000;

/// Waits that double, each with up to a quarter more at random.
#[derive(Debug)]
pub(super) struct Backoff {
    next_ms: u64,
    random: u64,
}

impl Backoff {
    /// The seed makes the waits differ from those of other hosts.
    pub(super) fn new(seed: u64) -> Backoff {
        Backoff { next_ms: FIRST_MS, random: seed | 1 }
    }

    /// The wait after a failure.
    pub(super) fn wait(&mut self) -> Duration {
        // xorshift64 (Marsaglia, 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let wait_ms = self.next_ms + self.random % (self.next_ms / 4 + 1);
        self.next_ms = (2 * self.next_ms).min(LONGEST_MS);
        Duration::from_millis(wait_ms.min(LONGEST_MS))
    }

    /// An attempt has succeeded.
    pub(super) fn reset(&mut self) {
        self.next_ms = FIRST_MS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_within_their_bounds() {
        let mut backoff = Backoff::new(7);
        let waits: Vec<u64> = (0..8).map(|_| backoff.wait().as_millis() as u64).collect();
        let bounds = [100, 200, 400, 800, 1000, 1000, 1000, 1000];
        for (wait, least) in waits.into_iter().zip(bounds) {
            assert!((least..=least + least / 4).contains(&wait), "{wait} of {least}");
            assert!(wait <= LONGEST_MS);
        }
        backoff.reset();
        assert!(backoff.wait() <= Duration::from_millis(125));
    }

    #[test]
    fn hosts_wait_differently() {
        let waits = |seed| {
            let mut backoff = Backoff::new(seed);
            [0; 4].map(|_| backoff.wait())
        };
        assert_ne!(waits(1), waits(2));
    }
}
