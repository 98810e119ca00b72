//! Turns the filters of spilled keys, so that they forget old entries.
//!
//! Invariant: two turns of a filter are at least the longest life of a record of its group apart,
//! by a clock that never steps. A courier that has just begun, or has taken over a configuration,
//! does not know of earlier turns, and waits as long.

use std::time::{Duration, Instant};

use frs_engine::Service;

use crate::nodes::{self, SpillingGroup};

/// Key-nodes of one step. Each is in memory of its own.
const STEP: usize = 4096;
/// The pause after a step.
const PAUSE: Duration = Duration::from_millis(10);
/// Longer than any message is under way.
const MARGIN: Duration = Duration::from_secs(10);

/// The turns of all groups.
#[derive(Debug, Default)]
pub struct FilterTurns(Vec<Turn>);

#[derive(Debug)]
struct Turn {
    group: String,
    period: Duration,
    /// The next key-node.
    at: usize,
    due: Instant,
}

impl FilterTurns {
    /// Sets the groups of the configuration in force. A group whose records live forever keeps its
    /// filters.
    pub fn set_groups(&mut self, groups: Vec<SpillingGroup>, now: Instant) {
        let turns = groups.into_iter().filter_map(|SpillingGroup { name: group, life_ms }| {
            let period = Duration::from_millis(life_ms?) + MARGIN;
            Some(Turn { group, period, at: 0, due: now.checked_add(period)? })
        });
        self.0 = turns.collect();
    }

    /// When the next step is due.
    pub fn due(&self) -> Option<Instant> {
        self.0.iter().map(|turn| turn.due).min()
    }

    /// Continues the turns that are due.
    pub fn turn(&mut self, service: &Service, now: Instant) {
        for turn in self.0.iter_mut().filter(|turn| turn.due <= now) {
            match nodes::turn_filters(service, &turn.group, turn.at, STEP) {
                Some(next) => (turn.at, turn.due) = (next, now + PAUSE),
                None => (turn.at, turn.due) = (0, now + turn.period),
            }
        }
    }
}
