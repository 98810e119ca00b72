//! A bound on log lines that could repeat.
//!
//! Invariant: after a line that is due, no line is due until the interval has passed.

use std::time::{Duration, Instant};

/// Limits a line that could repeat in each tick to one in each interval.
#[derive(Debug)]
pub struct LogThrottle {
    every: Duration,
    quiet_until: Option<Instant>,
}

impl LogThrottle {
    /// Permits at most one line in `every`.
    pub const fn new(every: Duration) -> LogThrottle {
        LogThrottle { every, quiet_until: None }
    }

    /// Whether to write a line now. If so, no line is due until `every` has passed.
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
