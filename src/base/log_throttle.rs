//! Log lines that could repeat: at most one in a time.
//!
//! Invariant: after a line that is due, none is due until that time has passed.

use std::time::{Duration, Instant};

/// Limits a line that could repeat at each tick to one in a time.
#[derive(Debug)]
pub struct LogThrottle {
    every: Duration,
    quiet_until: Option<Instant>,
}

impl LogThrottle {
    /// At most one line in this time.
    pub const fn new(every: Duration) -> LogThrottle {
        LogThrottle { every, quiet_until: None }
    }

    /// Whether to write a line now. If so, the next is not due until that time has passed.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let due = self.quiet_until.is_none_or(|until| until <= now);
        if due {
            self.quiet_until = Some(now + self.every);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_repeat_are_few() {
        let mut throttle = LogThrottle::new(Duration::from_secs(10));
        let begun = crate::clock::instant();
        let due = (0..25).filter(|&second| throttle.is_due(begun + Duration::from_secs(second)));
        assert_eq!(due.collect::<Vec<u64>>(), [0, 10, 20]);
    }
}
