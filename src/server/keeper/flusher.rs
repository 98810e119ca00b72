//! The flusher writes the files on disk back, part by part.
//!
//! Invariant: a failed flush is never reported as completed. It is reported to all processes, which
//! show it in their health answers until a later flush succeeds.

use std::time::{Duration, Instant};

use crate::admin::Pulse;
use crate::process::log::LogThrottle;
use frs_base::{clock, sys};
use frs_engine::{Flushing, Service};
use frs_store::counter::Timed;
use frs_store::{Counter, Error, live_dir};

/// The longest pause between two parts. A store into a page of a part may have to wait for the
/// disk, so parts without pauses would delay many requests.
const PAUSE: Duration = Duration::from_millis(5);
/// The divisor of `flush` that gives the longest sum of the pauses within a flush, and the shortest
/// pause between two flushes.
const SHARE: u32 = 2;
/// The interval between two log lines about repeated failures.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Writes all files on disk back at intervals.
#[derive(Debug)]
pub struct Flusher {
    every: Duration,
    /// When the next part is due. `None` if no file is on disk.
    due: Option<Instant>,
    ongoing: Option<OngoingFlush>,
    /// The number of the flush that began last, from 1 on.
    begun: u64,
    /// The number of the last flush that ended without an error.
    written: u64,
    has_failed: bool,
    complaints: LogThrottle,
}

/// A flush that has begun.
#[derive(Debug)]
struct OngoingFlush {
    flush: Flushing,
    begun: Instant,
    pause: Duration,
    /// The time that it has waited for the disk.
    waited: Duration,
}

impl Flusher {
    /// A flusher for the configuration in force. Its first flush is due after an interval.
    pub fn new(service: &Service, now: Instant) -> Flusher {
        // If this cannot be determined, flushing files in memory does no harm.
        let in_memory = sys::is_in_memory(live_dir(service.conf())).unwrap_or(false);
        if in_memory {
            // Files in memory need no flush, so an earlier failure no longer matters.
            service.set_flush_failed(false);
        }
        let every = interval(service);
        Flusher {
            every,
            due: (!in_memory).then(|| now + every),
            ongoing: None,
            begun: 0,
            written: 0,
            has_failed: false,
            complaints: LogThrottle::new(COMPLAIN_EVERY),
        }
    }

    /// Takes a new configuration. A shorter interval counts from now on.
    pub fn take(&mut self, service: &Service, now: Instant) {
        self.every = interval(service);
        self.due = self.due.map(|due| due.min(now + self.every));
    }

    /// When the next part is due. `None` if nothing is ever written back.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The number of the next flush that begins.
    pub fn next(&self) -> u64 {
        self.begun + 1
    }

    /// Whether the flush with this number, or a later one, has written all files.
    pub fn has_written(&self, number: u64) -> bool {
        self.due.is_none() || self.written >= number
    }

    /// Begins the next flush at once, because a caller waits for it. After a failed flush the
    /// interval holds.
    pub fn hasten(&mut self, now: Instant) {
        if self.ongoing.is_none() && !self.has_failed {
            self.due = self.due.map(|due| due.min(now));
        }
    }

    /// Writes a part back, if it is due.
    pub fn tick(&mut self, service: &mut Service, pulse: Option<&Pulse>, now: Instant) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        let ongoing = self.ongoing.get_or_insert_with(|| {
            pulse.iter().for_each(|pulse| pulse.set_flushing(true));
            self.begun += 1;
            let flush = service.begin_flush();
            let pause = pause(self.every, flush.parts());
            OngoingFlush { flush, begun: now, pause, waited: Duration::ZERO }
        });
        let result = service.flush_part(&mut ongoing.flush);
        let over = clock::instant().max(now);
        ongoing.waited += over - now;
        let Some(result) = result else {
            self.due = Some(over + ongoing.pause);
            return;
        };
        pulse.iter().for_each(|pulse| pulse.set_flushing(false));
        self.has_failed = result.is_err();
        if result.is_ok() {
            self.written = self.begun;
        }
        count(service, &result, ongoing.waited);
        note(service, result, &mut self.complaints, over);
        // A slow disk gets a pause, too.
        self.due = Some((ongoing.begun + self.every).max(over + self.every / SHARE));
        self.ongoing = None;
    }
}

/// The pause between the parts of a flush that has `parts` parts.
fn pause(every: Duration, parts: usize) -> Duration {
    let parts = u32::try_from(parts).unwrap_or(u32::MAX).max(1);
    PAUSE.min(every / SHARE / parts)
}

fn interval(service: &Service) -> Duration {
    Duration::from_millis(service.conf().srv.data.flush_ms)
}

fn count(service: &Service, result: &Result<(), Error>, waited: Duration) {
    let Some(counters) = service.handle().counters() else { return };
    match result {
        Ok(()) => counters.add_time(Timed::Flush, waited.as_micros() as u64, 1),
        Err(_) => counters.count(Counter::FlushErrors),
    }
}

/// Reports the result of a flush to all processes, and logs changes of the result.
fn note(service: &Service, result: Result<(), Error>, complaints: &mut LogThrottle, now: Instant) {
    // The failure may be that of a previous keeper.
    let failed_before = service.flush_failed();
    service.set_flush_failed(result.is_err());
    match result {
        Ok(()) if failed_before => tracing::info!("files are written back again"),
        Ok(()) => {}
        Err(error) => {
            if complaints.is_due(now) || !failed_before {
                tracing::error!(%error, "files are not written back");
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use frs_engine::Role;
    use frs_engine::testing::World;

    const MAP: &str =
        "<map><group name='g' files='2' key-nodes='1500' chain='56' node-size='64'/></map>";

    #[test]
    fn all_processes_learn_what_came_of_a_flush() {
        let world = World::new(MAP);
        let (mut keeper, worker) = (world.attach(), world.attach());
        let mut complaints = LogThrottle::new(COMPLAIN_EVERY);
        let mut note = |keeper: &Service, result| {
            note(keeper, result, &mut complaints, clock::instant());
        };
        assert!(!worker.flush_failed(), "none has failed yet");
        let broken = || Error::Configuration { path: "disk".into(), message: "broken".into() };
        note(&keeper, Err(broken()));
        assert!(worker.flush_failed());
        note(&keeper, Err(broken()));
        assert!(worker.flush_failed());
        drop(keeper);
        assert!(worker.flush_failed() && world.attach().flush_failed(), "nothing was written yet");
        keeper = world.attach();
        note(&keeper, Ok(()));
        assert!(!worker.flush_failed());
    }

    // Shows: flush-is-whole.
    #[test]
    fn it_writes_parts_with_pauses_and_holds_the_interval() {
        let Some(world) = World::on_disk(MAP) else { return };
        let (every, start) = (Duration::from_secs(5), clock::instant());
        let mut keeper = Service::attach(&world.dir, Role::Keeper, None).unwrap();
        let (pulse, mut flusher) = (Pulse::default(), Flusher::new(&keeper, start));
        keeper.set_flush_failed(true);
        let mut begins = Vec::new();
        // These times are far ahead of the clock, so that each part takes no time.
        for _ in 0..2 {
            let begun = flusher.due().unwrap();
            flusher.tick(&mut keeper, Some(&pulse), begun - Duration::from_millis(1));
            assert_eq!((flusher.due(), pulse.flushing_ms()), (Some(begun), None), "not yet");
            let mut parts = 0;
            loop {
                let now = flusher.due().unwrap();
                flusher.tick(&mut keeper, Some(&pulse), now);
                parts += 1;
                if pulse.flushing_ms().is_none() {
                    break;
                }
                assert!(keeper.flush_failed() || !begins.is_empty(), "not reported too early");
                assert_eq!(flusher.due(), Some(now + PAUSE));
            }
            assert_eq!(parts, 12, "two files of six parts");
            assert!(!keeper.flush_failed());
            begins.push(begun);
        }
        assert_eq!(begins, [start + every, start + every * 2]);
        let times = world.runtime().sums().flush_times;
        assert_eq!(times.buckets.iter().sum::<u64>(), 2);
    }

    #[test]
    fn files_in_memory_are_not_written_back() {
        let world = World::new(MAP);
        if !sys::is_in_memory(&world.dir).unwrap() {
            frs_base::testing::say_skipped("/dev/shm has no room");
            return;
        }
        let keeper = Service::attach(&world.dir, Role::Keeper, None).unwrap();
        keeper.set_flush_failed(true);
        assert_eq!(Flusher::new(&keeper, clock::instant()).due(), None);
        assert!(!keeper.flush_failed());
    }

    #[test]
    fn pauses_take_at_most_half_of_the_interval() {
        let pause = |every, parts| pause(Duration::from_millis(every), parts);
        assert_eq!(pause(5_000, 1), PAUSE);
        assert_eq!(pause(5_000, 500), PAUSE);
        assert_eq!(pause(5_000, 1_000), PAUSE / 2);
        assert_eq!((pause(10, 10), pause(10, 0)), (PAUSE / 10, PAUSE));
    }
}
