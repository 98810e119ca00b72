//! Recent samples of the counts, from which rates are computed.
//!
//! Invariant: memory is bounded. The history keeps the last two samples, and one sample every ten
//! seconds for ten minutes, of a bounded number of businesses.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::snapshot::{ProcessSnapshot, Rates, Stats};
use frs_store::Sums;
use frs_store::counter::{BizKey, BizSums, OUTCOMES};

/// The time between two samples that are kept for ten minutes.
const COARSE: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);
const TEN_MINUTES: Duration = Duration::from_secs(600);
/// The number of samples kept for ten minutes, which is one more than the intervals between them.
const KEPT: usize = 61;
/// The most businesses with rates and hottest keys. Each takes about 64 bytes in each kept sample.
pub const BIZS_MAX: usize = 1024;

/// The recent samples.
#[derive(Debug, Default)]
pub struct History {
    latest: Option<Sample>,
    before: Option<Sample>,
    kept: VecDeque<Sample>,
}

/// The counts at one time.
#[derive(Debug, Clone)]
struct Sample {
    at: Instant,
    /// Sorted by key.
    items: Vec<(BizKey, [u64; OUTCOMES])>,
    /// Only of the last two samples.
    processes: Vec<ProcessSnapshot>,
}

impl History {
    /// Adds a sample.
    pub fn note(&mut self, at: Instant, sums: &Sums, processes: &[ProcessSnapshot]) {
        let all = |sums: &BizSums| {
            let [queries, updates] = &sums.items;
            std::array::from_fn(|outcome| queries[outcome] + updates[outcome])
        };
        let items = sums.bizs.iter().take(BIZS_MAX).map(|(key, sums)| (*key, all(sums)));
        let items: Vec<_> = items.collect();
        if self.kept.back().is_none_or(|last| at.saturating_duration_since(last.at) >= COARSE) {
            if self.kept.len() == KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back(Sample { at, items: items.clone(), processes: Vec::new() });
        }
        let look = Sample { at, items, processes: processes.to_vec() };
        self.before = self.latest.replace(look);
    }

    /// Writes the rates into `stats`.
    pub fn fill(&self, stats: &mut Stats) {
        let Some(latest) = &self.latest else { return };
        let (minute, ten_minutes) = (self.kept_for(MINUTE), self.kept_for(TEN_MINUTES));
        for biz in &mut stats.bizs {
            let rates = |from: Option<&Sample>| latest.rates(from?, biz.key);
            biz.rates = Rates {
                second: rates(self.before.as_ref()),
                minute: rates(minute),
                ten_minutes: rates(ten_minutes),
            };
        }
        let Some(before) = &self.before else { return };
        for process in &mut stats.processes {
            let was = before.process(process);
            let is = latest.process(process);
            let (Some(was), Some(is)) = (was, is) else { continue };
            let seconds = latest.seconds_since(before);
            process.requests_per_s =
                Some(is.requests.saturating_sub(was.requests) as f64 / seconds);
            process.cpu_share = is
                .cpu_ms
                .zip(was.cpu_ms)
                .map(|(is_ms, was_ms)| is_ms.saturating_sub(was_ms) as f64 / 1000.0 / seconds);
        }
    }

    /// The latest kept sample of at least this age. `None` if no sample is so old.
    fn kept_for(&self, time: Duration) -> Option<&Sample> {
        let latest = self.latest.as_ref()?;
        let is_old = |look: &&Sample| latest.at.saturating_duration_since(look.at) >= time;
        self.kept.iter().rev().find(is_old)
    }
}

impl Sample {
    fn seconds_since(&self, before: &Sample) -> f64 {
        self.at.saturating_duration_since(before.at).as_secs_f64().max(1e-3)
    }

    /// Finds a process by slot and id. A process may be attached more than once, and a slot may
    /// change its owner.
    fn process(&self, which: &ProcessSnapshot) -> Option<&ProcessSnapshot> {
        let is = |busy: &&ProcessSnapshot| (busy.slot, busy.pid) == (which.slot, which.pid);
        self.processes.iter().find(is)
    }

    fn items_of(&self, key: BizKey) -> Option<&[u64; OUTCOMES]> {
        let found = self.items.binary_search_by_key(&key, |(known, _)| *known).ok()?;
        Some(&self.items[found].1)
    }

    /// Items per second since an earlier sample.
    fn rates(&self, from: &Sample, key: BizKey) -> Option<[f64; OUTCOMES]> {
        let is = self.items_of(key)?;
        // A key without counts in the earlier sample counts as zero there.
        let was = from.items_of(key).copied().unwrap_or_default();
        let seconds = self.seconds_since(from);
        Some(std::array::from_fn(|at| is[at].saturating_sub(was[at]) as f64 / seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::snapshot::unnamed;
    use frs_base::clock;

    fn sums(items: u64, bizs: usize) -> Sums {
        let mut sums = Sums::default();
        for id in 1..=bizs as u32 {
            let items = [[items; OUTCOMES], [0; OUTCOMES]];
            sums.bizs.insert(BizKey::Id(id), BizSums { items, ..BizSums::default() });
        }
        sums
    }

    fn stats() -> Stats {
        let biz = unnamed(1);
        Stats { bizs: vec![biz], processes: vec![process(7, 0, None)], ..Stats::default() }
    }

    fn process(pid: u32, requests: u64, cpu_ms: Option<u64>) -> ProcessSnapshot {
        ProcessSnapshot {
            slot: 0,
            pid,
            role: "worker",
            restarts: None,
            generation: 1,
            cpu_ms,
            connections: 0,
            parked: 0,
            requests,
            requests_per_s: None,
            cpu_share: None,
        }
    }

    fn rates(history: &History) -> Rates {
        let mut stats = stats();
        history.fill(&mut stats);
        stats.bizs[0].rates
    }

    #[test]
    fn rates_are_of_the_time_that_they_name() {
        let (start, mut history) = (clock::instant(), History::default());
        assert_eq!(rates(&history), Rates::default());
        // 10 per second for ten minutes, then 100 per second for one, then 1000 in the last second.
        for second in 0..=660_u64 {
            let items = second * 10 + second.saturating_sub(600) * 90 + second / 660 * 900;
            history.note(start + Duration::from_secs(second), &sums(items, 1), &[]);
            let known = rates(&history);
            assert_eq!(known.second.is_some(), second >= 1);
            assert_eq!(known.minute.is_some(), second >= 60);
            assert_eq!(known.ten_minutes.is_some(), second >= 600);
        }
        let known = rates(&history);
        assert_eq!(known.second, Some([1000.0; OUTCOMES]));
        assert_eq!(known.minute, Some([115.0; OUTCOMES]));
        let expected = (540.0 * 10.0 + 60.0 * 100.0 + 900.0) / 600.0;
        assert_eq!(known.ten_minutes, Some([expected; OUTCOMES]));
    }

    #[test]
    fn what_a_process_does_is_known_by_its_id() {
        let (start, mut history) = (clock::instant(), History::default());
        let none = Sums::default();
        history.note(start, &none, &[process(7, 100, Some(500)), process(8, 5, None)]);
        let later = start + Duration::from_secs(2);
        history.note(later, &none, &[process(9, 900, Some(9)), process(7, 300, Some(1500))]);
        let mut stats = stats();
        stats.processes.push(process(9, 0, None));
        // The same process, attached a second time.
        let twin = |requests| ProcessSnapshot { slot: 3, ..process(7, requests, None) };
        stats.processes.push(twin(0));
        history.fill(&mut stats);
        assert_eq!(stats.processes[2].requests_per_s, None);
        history.note(later, &none, &[twin(10), process(7, 300, None)]);
        let after = later + Duration::from_secs(1);
        history.note(after, &none, &[twin(17), process(7, 305, None)]);
        let rate = |of: &Stats, nth: usize| of.processes[nth].requests_per_s;
        let mut latest = stats.clone();
        history.fill(&mut latest);
        assert_eq!((rate(&latest, 0), rate(&latest, 2)), (Some(5.0), Some(7.0)));
        assert_eq!(stats.processes[0].requests_per_s, Some(100.0));
        assert_eq!(stats.processes[0].cpu_share, Some(0.5));
        assert_eq!(stats.processes[1].requests_per_s, None, "it was not there before");
    }

    #[test]
    fn memory_is_bounded() {
        let (start, mut history) = (clock::instant(), History::default());
        for second in 0..700 {
            history.note(start + Duration::from_secs(second), &sums(second, BIZS_MAX + 1), &[]);
        }
        let looks = history.kept.iter().chain(&history.before).chain(&history.latest);
        let held: Vec<usize> = looks.map(|look| look.items.len()).collect();
        assert_eq!(held, vec![BIZS_MAX; KEPT + 2]);
        assert!(size_of::<(BizKey, [u64; OUTCOMES])>() <= 64);
    }
}
