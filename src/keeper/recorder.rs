//! What the keeper does for figures beside its other duties: a look at the counters each second,
//! and a slow look at all nodes, in portions.
//!
//! Invariant: a turn of it takes about a millisecond, so that no flush waits for it, and over time
//! it takes a small share of a processor, however large the groups are.

use std::time::{Duration, Instant};

use super::history::{self, History};
use super::stats::{self, Stats};
use crate::clock::Millis;
use crate::conf::Group;
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
    /// That the sweep is of.
    groups: Vec<Group>,
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
            groups: Vec::new(),
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

    /// A new configuration was taken. The look at all nodes begins anew where its groups are others;
    /// else it goes on, or with a reset now and then it would never come to its end.
    pub fn take_groups(&mut self, groups: &[Group], now: Instant) {
        if self.groups == groups {
            return;
        }
        self.groups = groups.to_vec();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::service::Role;
    use crate::store::counter::GroupKey;
    use crate::testing::World;

    const NOW: u64 = 1_700_000_000_000;

    fn live(stats: &Stats) -> Option<u64> {
        assert_eq!(stats.groups[0].key, GroupKey::Name("g".into()));
        Some(stats.groups[0].sums.nodes.as_ref()?.live)
    }

    #[test]
    fn figures_follow_what_happens() {
        let world = World::new(
            "<map><group name='g' files='1' key-nodes='100' chain='56' node-size='64'/>
            <biz id='7' name='a' key='integer'>
              <limit policy='interval' interval='1h' max='9'/></biz></map>",
        );
        let (start, mut worker) = (clock::instant(), world.attach());
        let mut keeper = Service::attach(&world.dir, Role::Keeper).unwrap();
        let mut recorder = Recorder::new(start);
        assert_eq!(recorder.due(), start);
        // More nodes than a portion has.
        for key in 0..2500 {
            worker.update("a", &key.to_string(), NOW);
        }
        recorder.turn(&mut keeper, start, NOW);
        assert_eq!(live(&recorder.stats(&keeper, NOW)), None, "not at the end yet");
        assert_eq!(recorder.due(), start + PAUSE);
        recorder.turn(&mut keeper, start + PAUSE, NOW);
        let stats = recorder.stats(&keeper, NOW);
        assert_eq!(live(&stats), Some(2500));
        assert_eq!(stats.bizs[0].rates.second, None, "one look tells no rate");
        assert_eq!(recorder.due(), start + history::EVERY, "the sweep rests");
        for key in 0..30 {
            worker.update("a", &key.to_string(), NOW);
        }
        worker.update("a", "9999", NOW);
        let second = start + history::EVERY;
        recorder.turn(&mut keeper, second, NOW);
        let stats = recorder.stats(&keeper, NOW);
        assert_eq!(stats.bizs[0].rates.second.map(|rates| rates[0]), Some(31.0));
        assert_eq!(live(&stats), Some(2500), "as the last sweep found it");
        recorder.take_groups(&world.conf.map.groups, second);
        recorder.turn(&mut keeper, second, NOW);
        // A reset, say: the same groups, half of them looked at.
        recorder.take_groups(&world.conf.map.groups, second);
        recorder.turn(&mut keeper, second + PAUSE, NOW + 1);
        assert_eq!(live(&recorder.stats(&keeper, NOW)), Some(2501));
    }

    #[test]
    fn a_sweep_that_took_long_rests_long() {
        let start = clock::instant();
        let recorder = Recorder::new(start);
        assert_eq!(recorder.rest(start), REST);
        assert_eq!(recorder.rest(start + Duration::from_secs(100)), Duration::from_secs(400));
    }
}
