//! Logs a sample of the refused Updates, if `<log refusals>` asks for it.
//!
//! Invariant: all workers together log no more than the rate allows, averaged over as many of its
//! units as there are workers, across any reloads. A line at the end of each period, or before the
//! sample ends, counts every refused item that was left out.

use super::Worker;
use frs_conf::{Rate, Srv};
use frs_engine::{RefusalSample, RefusedItem, Refuser};

/// The sampling of refused Updates.
#[derive(Debug)]
pub(super) struct RefusalLog {
    rate: Option<Rate>,
    /// The length of a period.
    period_ms: u64,
    /// The start of the current period, if one has begun.
    begun_ms: Option<u64>,
    /// The items granted to this period: those that it has logged, and those for which the sample
    /// has room.
    granted: usize,
}

impl RefusalLog {
    /// The sampling that a configuration asks for.
    pub fn of(srv: &Srv) -> RefusalLog {
        RefusalLog::at(srv.log.refusals, srv.workers)
    }

    fn at(rate: Option<Rate>, workers: u16) -> RefusalLog {
        let period_ms = rate.map_or(0, |rate| rate.per_ms * u64::from(workers));
        RefusalLog { rate, period_ms, begun_ms: None, granted: 0 }
    }

    /// Continues as `next`, the sampling of another configuration. Items that the current period
    /// has logged still count. Returns the number of items left out, if the sample ends.
    pub fn go_on(&mut self, next: RefusalLog, sample: &mut RefusalSample) -> Option<u64> {
        let logged = self.granted - sample.room;
        let had_rate = self.rate.is_some();
        (self.rate, self.period_ms) = (next.rate, next.period_ms);
        let most = self.rate.map_or(0, |rate| rate.number as usize);
        sample.room = most.saturating_sub(logged);
        self.granted = logged + sample.room;
        // Without a rate, no line counts refused items.
        let goes_on = had_rate && self.rate.is_some();
        let left_out = if goes_on { None } else { take_left_out(sample) };
        left_out.filter(|_| had_rate)
    }

    /// When a waiting worker must begin the next period. `None` if there is nothing to log.
    pub fn due_ms(&self, sample: &RefusalSample) -> Option<u64> {
        (self.rate.is_some() && sample.left_out > 0).then_some(self.end_ms())
    }

    /// Begins a tick. If the period is over, returns the number of items that it left out.
    #[inline]
    pub fn begin_tick(&mut self, now_ms: u64, sample: &mut RefusalSample) -> Option<u64> {
        let rate = self.rate.filter(|_| now_ms >= self.end_ms())?;
        self.begin_period(rate, now_ms, sample)
    }

    #[cold]
    fn begin_period(&mut self, rate: Rate, now_ms: u64, sample: &mut RefusalSample) -> Option<u64> {
        self.begun_ms = Some(now_ms);
        self.granted = rate.number as usize;
        sample.room = self.granted;
        take_left_out(sample)
    }

    /// The number of items left out since the last line, for the final line.
    pub fn take_rest(&self, sample: &mut RefusalSample) -> Option<u64> {
        self.rate.and_then(|_| take_left_out(sample))
    }

    fn end_ms(&self) -> u64 {
        self.begun_ms.map_or(0, |begun_ms| begun_ms.saturating_add(self.period_ms))
    }
}

fn take_left_out(sample: &mut RefusalSample) -> Option<u64> {
    let left_out = std::mem::take(&mut sample.left_out);
    (left_out > 0).then_some(left_out)
}

/// Logs the number of refused items that are in no line.
pub(super) fn log_left_out(left_out: Option<u64>) {
    if let Some(left_out) = left_out {
        tracing::info!(left_out, "more items were refused");
    }
}

impl Worker {
    /// Logs the sampled refused items of the current batch.
    #[cold]
    pub(super) fn log_refusals(&mut self) {
        for item in self.handler.service.take_refusals() {
            self.log_refusal(&item);
        }
    }

    fn log_refusal(&self, item: &RefusedItem) {
        let bizs = &self.handler.service.conf().map.bizs;
        let (Some(biz), Some(key)) = (bizs.get(item.biz), item.key.key()) else { return };
        let index = item.lane.and_then(|lane| self.batch.get(lane));
        let client = index.map(|&index| &self.clients[index as usize]);
        let peer = client.and_then(|client| client.as_ref()?.peer);
        let peer = peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
        let (limit, banned_by) = match item.refuser {
            Refuser::Limit(limit) => (limit.to_string(), None),
            Refuser::Ban(limit) => ("ban".to_owned(), Some(limit)),
        };
        let (key, begins) = (key.to_string(), item.key.begins());
        let client = item.client.and_then(|row| self.handler.service.client_name(row));
        tracing::info!(biz = biz.name, key, begins, limit, banned_by, peer, client, "refused");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_MS: u64 = 1000;

    fn log(number: u64, per_ms: u64, workers: u16) -> RefusalLog {
        RefusalLog::at(Some(Rate { number, per_ms }), workers)
    }

    fn none() -> RefusalLog {
        RefusalLog::at(None, 1)
    }

    /// A worker that refuses items in each tick.
    struct RefusingWorker {
        log: RefusalLog,
        sample: RefusalSample,
        logged: usize,
        told: u64,
    }

    impl RefusingWorker {
        fn on(log: RefusalLog) -> RefusingWorker {
            RefusingWorker { log, sample: RefusalSample::default(), logged: 0, told: 0 }
        }

        fn tick(&mut self, now_ms: u64, refused: usize) {
            self.told += self.log.begin_tick(now_ms, &mut self.sample).unwrap_or(0);
            let logged = refused.min(self.sample.room);
            self.sample.room -= logged;
            self.sample.left_out += (refused - logged) as u64;
            self.logged += logged;
        }

        fn reload(&mut self, next: RefusalLog) {
            self.told += self.log.go_on(next, &mut self.sample).unwrap_or(0);
        }

        fn figures(&self) -> (usize, u64) {
            (self.logged, self.told)
        }
    }

    // Shows: refusal-sample.
    #[test]
    fn no_reload_begins_another_sample_or_forgets_what_was_left_out() {
        let mut load = RefusingWorker::on(log(3, SECOND_MS, 2));
        // A reload before each tick, for ten seconds.
        for now_ms in (0..10_000).step_by(100) {
            load.reload(log(3, SECOND_MS, 2));
            load.tick(now_ms, 1);
        }
        assert_eq!(load.figures(), (15, 68), "3 in each of 5 periods of 2 s");
        load.tick(10_000, 0);
        assert_eq!(load.figures(), (15, 85), "all are told of");
    }

    // Shows: refusal-sample.
    #[test]
    fn another_rate_counts_what_was_logged() {
        let mut load = RefusingWorker::on(log(3, SECOND_MS, 1));
        load.tick(0, 5);
        load.reload(log(4, SECOND_MS, 1));
        load.tick(100, 5);
        assert_eq!(load.figures(), (4, 0), "one more");
        load.reload(log(2, SECOND_MS, 1));
        load.tick(200, 1);
        load.reload(log(9, 2 * SECOND_MS, 1));
        load.tick(1500, 20);
        assert_eq!(load.figures(), (9, 0), "the period is longer now");
        load.tick(2000, 0);
        assert_eq!(load.figures(), (9, 22));
        // A period that is over by the new length ends with the next tick.
        load.tick(2001, 20);
        load.reload(log(5, SECOND_MS / 2, 1));
        load.tick(2500, 6);
        assert_eq!(load.figures(), (9 + 9 + 5, 22 + 11));
    }

    // Shows: refusal-sample.
    #[test]
    fn a_sample_that_ends_tells_the_rest_and_one_that_begins_tells_nothing_of_before() {
        let mut load = RefusingWorker::on(none());
        load.tick(0, 7);
        load.reload(log(2, SECOND_MS, 1));
        load.tick(1, 5);
        assert_eq!(load.figures(), (2, 0), "those before were not to be logged");
        load.reload(none());
        assert_eq!(load.figures(), (2, 3));
        load.tick(2, 4);
        assert_eq!(load.log.due_ms(&load.sample), None);
        assert_eq!(load.log.take_rest(&mut load.sample), None);
        // Switching the log off and on within a period does not begin another sample.
        load.reload(log(2, SECOND_MS, 1));
        load.tick(3, 6);
        assert_eq!(load.figures(), (2, 3));
        assert_eq!(load.log.take_rest(&mut load.sample), Some(6), "the worker ends");
        assert_eq!(load.log.take_rest(&mut load.sample), None);
    }

    // Shows: refusal-sample.
    #[test]
    fn a_worker_without_work_wakes_to_tell_the_rest() {
        let mut load = RefusingWorker::on(log(2, SECOND_MS, 3));
        load.tick(500, 2);
        assert_eq!(load.log.due_ms(&load.sample), None, "nothing to tell");
        load.tick(600, 4);
        assert_eq!(load.log.due_ms(&load.sample), Some(3500));
        load.tick(3499, 0);
        assert_eq!(load.told, 0);
        load.tick(3500, 0);
        assert_eq!((load.told, load.log.due_ms(&load.sample)), (4, None));
    }
}
