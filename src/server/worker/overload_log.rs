//! Counts connections refused beyond max-connections, for the log.
//!
//! Invariant: there is at most one line a second, and the lines count every refused connection.

/// The time between two lines.
const QUIET_MS: u64 = 1_000;

/// The refused connections that no line counts yet.
#[derive(Debug, Default)]
pub struct OverloadLog {
    count: u64,
    quiet_until_ms: u64,
}

impl OverloadLog {
    /// Adds a refused connection.
    pub fn add(&mut self) {
        self.count += 1;
    }

    /// When the next line is due, or `None` if there is nothing to log.
    pub fn due_ms(&self) -> Option<u64> {
        (self.count > 0).then_some(self.quiet_until_ms)
    }

    /// The count for a line that is due now. The next line is due a second later at the earliest.
    pub fn take_due(&mut self, now_ms: u64) -> Option<u64> {
        if self.due_ms().is_none_or(|due_ms| due_ms > now_ms) {
            return None;
        }
        self.quiet_until_ms = now_ms + QUIET_MS;
        self.take_rest()
    }

    /// The count for the final line.
    pub fn take_rest(&mut self) -> Option<u64> {
        let count = std::mem::take(&mut self.count);
        (count > 0).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: idle-and-turned-away.
    #[test]
    fn all_are_told_of_in_a_line_a_second() {
        let mut log = OverloadLog::default();
        assert_eq!((log.due_ms(), log.take_due(0)), (None, None));
        let mut told = Vec::new();
        // Ten refused connections in each of 35 tenths of a second, then none.
        for now_ms in (500..10_000).step_by(100) {
            if now_ms < 4_000 {
                (0..10).for_each(|_| log.add());
            }
            assert!(log.due_ms().is_none_or(|due_ms| due_ms <= now_ms + QUIET_MS));
            told.extend(log.take_due(now_ms).map(|count| (now_ms, count)));
        }
        assert_eq!(told, [(500, 10), (1500, 100), (2500, 100), (3500, 100), (4500, 40)]);
        assert_eq!(log.take_rest(), None);
        log.add();
        assert_eq!((log.take_rest(), log.due_ms()), (Some(1), None));
    }
}
