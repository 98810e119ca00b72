//! Bounds the log lines that clients can cause in a period, and counts those left out.

use std::time::{Duration, Instant};

/// The ration of lines of one kind.
#[derive(Debug)]
pub struct Ration {
    most: u32,
    every: Duration,
    /// The current period.
    window: Option<LogWindow>,
}

/// A period, and the number of lines requested in it.
#[derive(Debug)]
struct LogWindow {
    end: Instant,
    asked: u64,
}

impl Ration {
    /// Permits at most `most` lines in each period of `every`.
    pub const fn new(most: u32, every: Duration) -> Ration {
        Ration { most, every, window: None }
    }

    /// Whether to write a line. The caller calls [`Self::left_out`] first.
    pub fn take(&mut self, now: Instant) -> bool {
        let window = self.window.get_or_insert(LogWindow { end: now + self.every, asked: 0 });
        window.asked += 1;
        window.asked <= u64::from(self.most)
    }

    /// The number of lines left out, once the period is over.
    pub fn left_out(&mut self, now: Instant) -> Option<u64> {
        let window = self.window.take_if(|window| window.end <= now)?;
        Some(window.asked.saturating_sub(u64::from(self.most))).filter(|&left_out| left_out > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few_and_those_left_out_are_counted() {
        let mut ration = Ration::new(10, Duration::from_secs(1));
        let begun = frs_base::clock::instant();
        let (mut written, mut left_out) = (0, Vec::new());
        // One line each 10 ms for 2 s, then none.
        for nth in 0..200 {
            let now = begun + Duration::from_millis(10 * nth);
            left_out.extend(ration.left_out(now));
            written += u64::from(ration.take(now));
        }
        assert_eq!((written, &left_out[..]), (20, &[90][..]));
        let end = begun + Duration::from_secs(2);
        assert_eq!(ration.left_out(end - Duration::from_millis(1)), None);
        assert_eq!(ration.left_out(end), Some(90));
        assert_eq!(ration.left_out(end), None);
    }

    #[test]
    fn nothing_is_told_where_nothing_was_left_out() {
        let mut ration = Ration::new(2, Duration::from_secs(1));
        let begun = frs_base::clock::instant();
        assert!(ration.take(begun) && ration.take(begun));
        assert_eq!(ration.left_out(begun + Duration::from_secs(5)), None);
    }
}
