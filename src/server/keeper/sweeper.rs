//! The sweeper visits all nodes slowly, in portions, beside the keeper's other duties.
//!
//! Invariant: a tick takes about a millisecond, so no flush waits long for it. Over time the
//! sweeper takes a small share of a processor, however large the groups are.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::stats::swept::Swept;
use frs_base::clock::Millis;
use frs_conf::Group;
use frs_engine::Service;
use frs_store::Sweep;

/// The nodes and chain heads examined in a tick.
const PORTION: usize = 2048;
/// The pause between two ticks of a sweep.
const PAUSE: Duration = Duration::from_millis(10);
/// The shortest rest between two sweeps.
const REST: Duration = Duration::from_secs(10);
/// A rest lasts at least this many times the duration of the last sweep.
const REST_TIMES: u32 = 4;

/// Sweeps over all nodes repeatedly.
#[derive(Debug)]
pub struct Sweeper {
    /// The groups of the sweep.
    groups: Vec<Group>,
    sweep: Sweep,
    begun: Instant,
    due: Instant,
    is_resting: bool,
    /// The next sweep begins without a rest.
    again: bool,
    /// The findings of the current sweep.
    swept: Swept,
    /// The findings of the last complete sweep, for the admin plane.
    found: Arc<Mutex<Option<Swept>>>,
}

impl Sweeper {
    /// A sweeper that has examined nothing yet.
    pub fn new(now: Instant) -> Sweeper {
        Sweeper {
            groups: Vec::new(),
            is_resting: false,
            again: false,
            sweep: Sweep::default(),
            begun: now,
            due: now,
            swept: Swept::default(),
            found: Arc::default(),
        }
    }

    /// The findings of the last complete sweep. `None` before the first one is over.
    pub fn found(&self) -> Arc<Mutex<Option<Swept>>> {
        Arc::clone(&self.found)
    }

    /// When the next tick is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Takes a new configuration. If its groups differ, the sweep restarts. Otherwise a sweep in
    /// progress continues, and another follows at once. A restart there would let frequent resets
    /// keep the sweep from ever completing.
    pub fn take(&mut self, groups: &[Group], now: Instant) {
        if self.groups != groups {
            self.groups = groups.to_vec();
            self.sweep.restart();
            (self.swept, self.again) = (Swept::default(), false);
        } else if !self.is_resting {
            self.again = true;
            return;
        }
        (self.begun, self.due) = (now, now);
    }

    /// Examines a portion, if a tick is due.
    pub fn tick(&mut self, service: &mut Service, now: Instant, now_ms: Millis) {
        if self.due > now {
            return;
        }
        self.is_resting = false;
        let swept = &mut self.swept;
        let is_over = service.sweep(&mut self.sweep, |seen| swept.note(seen), PORTION, now_ms);
        self.due = now + PAUSE;
        if is_over {
            self.is_resting = !std::mem::take(&mut self.again);
            if self.is_resting {
                self.due = now + self.rest(now);
            }
            self.begun = self.due;
            let found = std::mem::take(&mut self.swept);
            *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        }
    }

    fn rest(&self, now: Instant) -> Duration {
        let took = now.saturating_duration_since(self.begun);
        REST.max(took.saturating_mul(REST_TIMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::snapshot;
    use frs_base::clock;
    use frs_engine::testing::World;
    use frs_engine::{Command, Extras, ItemOptions, Request, Role};
    use frs_store::counter::GroupKey;

    const NOW: u64 = 1_700_000_000_000;

    /// The result of the last sweep.
    #[derive(Debug, PartialEq)]
    struct FoundNodes {
        live: Option<u64>,
        /// The hottest keys and the use of each.
        hottest: Vec<(String, u64)>,
    }

    fn found(sweeper: &Sweeper, keeper: &Service) -> FoundNodes {
        let mut stats = snapshot::of(keeper.handle().runtime(), keeper.conf(), NOW);
        if let Some(swept) = &*sweeper.found().lock().unwrap() {
            swept.fill(&mut stats);
        }
        assert_eq!(stats.groups[0].key, GroupKey::Name("g".into()));
        let live = stats.groups[0].sums.nodes.as_ref().map(|nodes| nodes.live);
        let hottest = stats.bizs[0].hottest.iter().map(|hot| (hot.key.clone(), hot.used));
        FoundNodes { live, hottest: hottest.collect() }
    }

    #[test]
    fn it_finds_what_lives_and_what_is_used_most() {
        let world = World::new(
            "<map><group name='g' files='1' key-nodes='100' chain='56' node-size='64'/>
            <biz id='7' name='a' key='integer'>
              <limit policy='interval' interval='1h' max='9'/>
              <limit policy='interval' interval='1d' max='9000' scope='biz'/></biz></map>",
        );
        let (start, mut worker) = (clock::instant(), world.attach());
        let mut keeper = Service::attach(&world.dir, Role::Keeper, None).unwrap();
        let mut sweeper = Sweeper::new(start);
        assert_eq!(sweeper.due(), start);
        // More keys than a portion has. The business has a node of its own.
        for key in 0..2500 {
            worker.update("a", &key.to_string(), NOW);
        }
        worker.update("a", "77", NOW);
        worker.update("a", "77", NOW);
        worker.update("a", "1234", NOW + 5);
        sweeper.tick(&mut keeper, start, NOW);
        let nothing = FoundNodes { live: None, hottest: vec![] };
        assert_eq!(found(&sweeper, &keeper), nothing, "not at the end yet");
        assert_eq!(sweeper.due(), start + PAUSE);
        sweeper.tick(&mut keeper, start + PAUSE, NOW);
        let FoundNodes { live, hottest } = found(&sweeper, &keeper);
        assert_eq!(live, Some(2501));
        assert_eq!(hottest[..2], [("77".to_owned(), 3), ("1234".to_owned(), 2)]);
        assert_eq!(hottest.len(), crate::stats::swept::KEYS);
        assert_eq!(sweeper.due(), start + PAUSE + REST, "it rests");
        worker.update("a", "9999", NOW);
        let later = start + Duration::from_secs(2);
        sweeper.tick(&mut keeper, later, NOW);
        assert_eq!(found(&sweeper, &keeper).live, Some(2501), "as the last look found it");
        sweeper.take(&world.conf.map.groups, later);
        sweeper.tick(&mut keeper, later, NOW);
        // A reset publishes the same groups, when half of them are examined.
        sweeper.take(&world.conf.map.groups, later);
        sweeper.tick(&mut keeper, later + PAUSE, NOW + 1);
        assert_eq!(found(&sweeper, &keeper).live, Some(2502));
        assert_eq!(sweeper.due(), later + PAUSE * 2, "another one follows at once");
        // Keys whose window is over do not count.
        let tomorrow = NOW + 90_000_000;
        for portion in 0..3 {
            sweeper.tick(&mut keeper, later + REST * 2 + PAUSE * portion, tomorrow);
        }
        assert_eq!(found(&sweeper, &keeper), FoundNodes { live: Some(0), ..nothing });
    }

    #[test]
    fn it_counts_the_holds_that_live() {
        let world = World::new(
            "<map><group name='g' files='1' key-nodes='8' chain='8' node-size='192'/>
            <biz id='7' name='a' key='integer' hold-ttl='10s'>
              <limit policy='concurrent' max='3'/></biz>
            <biz id='8' name='b' key='integer'><limit policy='total' max='3'/></biz></map>",
        );
        let (start, mut worker) = (clock::instant(), world.attach());
        let mut keeper = Service::attach(&world.dir, Role::Keeper, None).unwrap();
        let mut sweeper = Sweeper::new(start);
        let mut holds = |now: Instant, now_ms| {
            sweeper.tick(&mut keeper, now, now_ms);
            let mut stats = snapshot::of(keeper.handle().runtime(), keeper.conf(), now_ms);
            if let Some(swept) = &*sweeper.found().lock().unwrap() {
                swept.fill(&mut stats);
            }
            stats.bizs.iter().map(|biz| biz.holds).collect::<Vec<_>>()
        };
        let mut hold = |key: &str, id, count, now| {
            let mut request = Request::default();
            request.begin(Command::Update);
            request.push("a", key, ItemOptions::of(count));
            request.bring(Extras { hold: Some(id), ..Extras::NONE });
            worker.answers(&request, now);
        };
        hold("1", "x", 2, NOW);
        hold("1", "y", 1, NOW + 5000);
        hold("2", "x", 1, NOW + 5000);
        assert_eq!(holds(start, NOW + 5000), [Some(3), None]);
        // A hold whose life is over does not count, whether or not its key is used again.
        assert_eq!(holds(start + REST, NOW + 10_000), [Some(2), None]);
        hold("2", "x", 0, NOW + 10_000);
        assert_eq!(holds(start + REST * 2, NOW + 10_000), [Some(1), None]);
        assert_eq!(holds(start + REST * 3, NOW + 90_000), [Some(0), None]);
    }

    #[test]
    fn a_look_that_took_long_rests_long() {
        let start = clock::instant();
        let sweeper = Sweeper::new(start);
        assert_eq!(sweeper.rest(start), REST);
        assert_eq!(sweeper.rest(start + Duration::from_secs(100)), Duration::from_secs(400));
    }
}
