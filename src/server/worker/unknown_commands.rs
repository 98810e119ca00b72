//! Commands of RESP that clients ask for and frs does not have, for the log.
//!
//! Invariant: there is at most one line a minute. A line counts all such commands since the line
//! before it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::process::log::LogThrottle;
use crate::protocol::resp::UNKNOWN_COMMANDS;

/// The time between two lines.
const QUIET: Duration = Duration::from_secs(60);

/// The commands that no line counts yet.
#[derive(Debug)]
pub struct UnknownCommands {
    counts: BTreeMap<usize, u64>,
    throttle: LogThrottle,
}

impl Default for UnknownCommands {
    fn default() -> UnknownCommands {
        UnknownCommands { counts: BTreeMap::new(), throttle: LogThrottle::new(QUIET) }
    }
}

impl UnknownCommands {
    /// Notes a command by the number of its name, and logs a line if one is due.
    pub fn note(&mut self, name: usize, now: Instant) {
        if let Some(commands) = self.line(name, now) {
            tracing::warn!(
                commands,
                "clients ask for commands of Redis that frs does not have: see docs/redis.md"
            );
        }
    }

    /// The commands of a line that is due.
    fn line(&mut self, name: usize, now: Instant) -> Option<String> {
        *self.counts.entry(name).or_default() += 1;
        if !self.throttle.is_due(now) {
            return None;
        }
        let counts = std::mem::take(&mut self.counts);
        let named = |(name, count): (usize, u64)| {
            let word = UNKNOWN_COMMANDS.get(name).copied().unwrap_or_default();
            format!("{word} x{count}")
        };
        Some(counts.into_iter().map(named).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::resp::unknown_index;

    #[test]
    fn a_line_a_minute_counts_all() {
        let mut unknown = UnknownCommands::default();
        let begun = frs_base::clock::instant();
        let mut note = |word: &str, second: u64| {
            unknown.line(unknown_index(word.as_bytes()), begun + Duration::from_secs(second))
        };
        assert_eq!(note("EVAL", 0).as_deref(), Some("eval x1"));
        assert_eq!((note("eval", 1), note("BF.ADD", 30), note("eval", 59)), (None, None, None));
        assert_eq!(note("Watch", 60).as_deref(), Some("other x1, eval x2, watch x1"));
        assert_eq!(note("Watch", 119), None);
    }
}
