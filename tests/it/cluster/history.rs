//! The clients' view: admitted uses, each between two moments, and facts that hold for every
//! possible order of them.
//!
//! Invariant: a check reports only certain faults. A use happened at some moment between its
//! request and its answer, by the one clock of this machine, which the ledger's servers also read.
//! So a check counts uses that certainly lie within bounds, or uses that may.

/// A use that was admitted between these two moments, both included, in milliseconds since the
/// epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    pub from_ms: u64,
    pub to_ms: u64,
}

/// The uses of one key over all hosts.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Uses that were certainly admitted.
    pub admitted: Vec<Use>,
    /// Uses that may have been admitted: their answers were lost.
    pub lost: Vec<Use>,
    /// The request of each use that was asked for.
    pub asked: Vec<Use>,
    pub refused: u64,
    pub busy: u64,
}

/// A window of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Window {
    pub start_ms: u64,
    pub end_ms: u64,
}

/// The least and the most possible number of uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub least: usize,
    pub most: usize,
}

/// Milliseconds since the epoch.
pub fn now_ms() -> u64 {
    frs_base::clock::now()
}

impl History {
    pub fn add(&mut self, other: History) {
        self.admitted.extend(other.admitted);
        self.lost.extend(other.lost);
        self.asked.extend(other.asked);
        self.refused += other.refused;
        self.busy += other.busy;
    }

    /// The possible number of uses in a window.
    pub fn within(&self, window: Window) -> Bounds {
        let inside = |one: &&Use| one.from_ms >= window.start_ms && one.to_ms < window.end_ms;
        let touching = |one: &&Use| one.to_ms >= window.start_ms && one.from_ms <= window.end_ms;
        let may = self.admitted.iter().chain(&self.lost).filter(touching).count();
        Bounds { least: self.admitted.iter().filter(inside).count(), most: may }
    }

    /// The most uses that certainly lie within some `interval_ms`.
    pub fn most_in(&self, interval_ms: u64) -> usize {
        let mut by_start = self.admitted.clone();
        by_start.sort_unstable();
        let within = |nth: usize| {
            let first = by_start[nth];
            let later = by_start[nth..].iter();
            let near = later.take_while(|one| one.from_ms < first.from_ms + interval_ms);
            near.filter(|one| one.to_ms < first.from_ms + interval_ms).count()
        };
        (0..by_start.len()).map(within).max().unwrap_or(0)
    }

    /// The number of uses that were both asked for and answered within a window.
    pub fn asked_in(&self, window: Window) -> usize {
        let inside = |one: &&Use| one.from_ms >= window.start_ms && one.to_ms < window.end_ms;
        self.asked.iter().filter(inside).count()
    }

    /// The longest time without an admitted use, up to the last use.
    pub fn longest_pause_ms(&self) -> u64 {
        let mut ends: Vec<u64> = self.admitted.iter().map(|one| one.to_ms).collect();
        ends.sort_unstable();
        ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    /// The number of uses by which a bucket of `burst` tokens, of which `rate` flow back in
    /// `period_ms`, was certainly overdrawn.
    pub fn overdrawn(&self, burst: u64, rate: u64, period_ms: u64) -> u64 {
        let mut by_end = self.admitted.clone();
        by_end.sort_unstable_by_key(|one| one.to_ms);
        let mut starts: Vec<u64> = by_end.iter().map(|one| one.from_ms).collect();
        starts.sort_unstable();
        starts.dedup();
        let from = |start_ms: u64| {
            let later = by_end.iter().filter(move |one| one.from_ms >= start_ms);
            let over = |(count, one): (u64, &Use)| {
                let flowed = ((one.to_ms - start_ms) * rate).div_ceil(period_ms);
                count.saturating_sub(burst + flowed)
            };
            (1..).zip(later).map(over).max().unwrap_or(0)
        };
        starts.into_iter().map(from).max().unwrap_or(0)
    }

    /// The number of uses by which a sliding counter, with windows aligned to the interval, was
    /// certainly over its maximum.
    pub fn over_counter(&self, interval_ms: u64, max: u64) -> u64 {
        let over = |last: &Use| {
            let start_ms = last.from_ms - last.from_ms % interval_ms;
            let until = Window { start_ms, end_ms: last.to_ms + 1 };
            let before = Window { start_ms: start_ms - interval_ms, end_ms: start_ms };
            if last.to_ms - start_ms >= interval_ms {
                return 0;
            }
            let left_ms = start_ms + interval_ms - last.to_ms;
            let earlier = self.within(before).least as u64 * left_ms / interval_ms;
            (self.within(until).least as u64 + earlier).saturating_sub(max)
        };
        self.admitted.iter().map(over).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(uses: &[[u64; 2]]) -> History {
        let of = |&[from_ms, to_ms]: &[u64; 2]| Use { from_ms, to_ms };
        History { admitted: uses.iter().map(of).collect(), ..History::default() }
    }

    #[test]
    fn a_window_counts_what_is_inside_and_what_may_be() {
        let mut seen = history(&[[90, 99], [99, 101], [100, 110], [199, 200], [201, 205]]);
        seen.lost.push(Use { from_ms: 150, to_ms: 151 });
        let window = Window { start_ms: 100, end_ms: 200 };
        assert_eq!(seen.within(window), Bounds { least: 1, most: 4 });
    }

    #[test]
    fn an_interval_counts_only_what_is_near_for_certain() {
        assert_eq!(history(&[[0, 1], [5, 9], [9, 12], [16, 17]]).most_in(10), 2);
        assert_eq!(history(&[[0, 1], [5, 9], [8, 9]]).most_in(10), 3);
        assert_eq!(history(&[]).most_in(10), 0);
    }

    #[test]
    fn a_bucket_is_overdrawn_by_what_cannot_have_flowed_back() {
        let seen = history(&[[0, 0], [0, 0], [0, 0], [100, 100]]);
        assert_eq!(seen.overdrawn(3, 1, 100), 0);
        assert_eq!(seen.overdrawn(2, 1, 100), 1);
        assert_eq!(seen.overdrawn(1, 1, 1000), 2);
    }

    #[test]
    fn a_counter_is_over_by_the_weight_of_the_window_before() {
        let seen = history(&[[1000, 1001], [1001, 1002], [2000, 2001], [2001, 2002]]);
        assert_eq!(seen.over_counter(1000, 4), 0);
        assert_eq!(seen.over_counter(1000, 2), 1);
    }
}
