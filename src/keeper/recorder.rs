//! What the keeper does for figures beside its other duties: a look at the counters each second, and
//! a slow look at all nodes, in portions.
//!
//! Invariant: a turn of it takes about a millisecond, so that no flush waits for it, and over time
//! it takes a small share of a processor, however large the groups are.

use std::time::{Duration, Instant};

use super::history::{self, History};
use super::stats::{self, Stats};
use crate::clock::Millis;
use crate::service::Service;
use crate::store::Sweep;

/// Nodes and heads looked at in a turn.
const PORTION: usize = 2048;
/// Between two of these looks.
const PAUSE: Duration = Duration::from_millis(10);
/// Between two looks at all nodes, at least.
const REST: Duration = Duration::from_secs(10);
/// And at least so many times what the last one took.
const REST_TIMES: u32 = 4;

/// The keeper's figures.
#[derive(Debug)]
pub struct Recorder {
    sweep: Sweep,
    sweep_begun: Instant,
    next_portion: Instant,
    history: History,
    next_look: Instant,
}

impl Recorder {
    /// One that has looked at nothing yet.
    pub fn new(now: Instant) -> Recorder {
        Recorder {
            sweep: Sweep::default(),
            sweep_begun: now,
            next_portion: now,
            history: History::default(),
            next_look: now,
        }
    }

    /// When its next turn is due.
    pub fn due(&self) -> Instant {
        self.next_look.min(self.next_portion)
    }

    /// A new configuration was taken: its groups may be others.
    pub fn restart_sweep(&mut self, now: Instant) {
        self.sweep.restart();
        (self.sweep_begun, self.next_portion) = (now, now);
    }

    /// Does what is due.
    pub fn turn(&mut self, service: &mut Service, now: Instant, now_ms: Millis) {
        if self.next_look <= now {
            let runtime = service.handle().runtime();
            self.history.note(now, &runtime.sums(), &stats::processes(runtime));
            self.next_look = now + history::EVERY;
        }
        if self.next_portion <= now {
            let is_over = service.sweep(&mut self.sweep, PORTION, now_ms);
            self.next_portion = now + if is_over { self.rest(now) } else { PAUSE };
            if is_over {
                self.sweep_begun = self.next_portion;
            }
        }
    }

    fn rest(&self, now: Instant) -> Duration {
        let took = now.saturating_duration_since(self.sweep_begun);
        REST.max(took.saturating_mul(REST_TIMES))
    }

    /// All figures, rates among them.
    pub fn stats(&self, service: &Service, now_ms: Millis) -> Stats {
        let mut stats = stats::of(service.handle().runtime(), service.conf(), now_ms);
        self.history.fill(&mut stats);
        stats
    }
}
