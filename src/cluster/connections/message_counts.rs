//! Counts messages to the cluster by function and result, in the thread that gets the answer.
//!
//! Invariant: a message is counted once for each node that it was sent to, or once if it was not
//! sent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use frs_base::clock;
use frs_store::counter::{BUCKETS, Histogram, bucket_of};

use crate::figures::{ClusterFunction, ClusterResult};
use crate::lease::Kind;
use crate::warm::WarmCall;

const FUNCTIONS: usize = ClusterFunction::ALL.len();
const RESULTS: usize = ClusterResult::ALL.len();

/// Counters that several threads share.
#[derive(Debug)]
pub struct MessageCounts {
    requests: [[AtomicU64; RESULTS]; FUNCTIONS],
    times_us: AtomicU64,
    times: [AtomicU64; BUCKETS],
}

/// The counts since the last call of `take`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counted {
    /// Messages, by function and result.
    pub requests: [[u64; RESULTS]; FUNCTIONS],
    /// Times of messages about a key.
    pub times: Histogram,
}

impl Default for MessageCounts {
    fn default() -> MessageCounts {
        let zero = || AtomicU64::new(0);
        MessageCounts {
            requests: std::array::from_fn(|_| std::array::from_fn(|_| zero())),
            times_us: zero(),
            times: std::array::from_fn(|_| zero()),
        }
    }
}

impl MessageCounts {
    /// Counts a message.
    pub fn count(&self, function: ClusterFunction, result: ClusterResult) {
        // Relaxed: each number is read for itself.
        self.requests[function as usize][result as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the time of a message about a key.
    pub(super) fn count_time(&self, sent: Instant) {
        let us = clock::since(sent).as_micros().min(Duration::from_secs(3600).as_micros()) as u64;
        self.times_us.fetch_add(us, Ordering::Relaxed);
        self.times[bucket_of(us)].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the counts since the last call.
    pub fn take(&self) -> Counted {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        let mut counted = Counted::default();
        for (taken, counters) in counted.requests.iter_mut().zip(&self.requests) {
            *taken = counters.each_ref().map(take);
        }
        let times = self.times.each_ref().map(take);
        counted.times = Histogram { sum_us: take(&self.times_us), buckets: times };
        counted
    }
}

/// The function that messages about a limit of this kind are counted under.
pub fn function_of_kind(kind: &Kind) -> ClusterFunction {
    match kind {
        Kind::Interval { .. } => ClusterFunction::Interval,
        Kind::Calendar { .. } => ClusterFunction::Calendar,
        Kind::Total => ClusterFunction::Total,
        Kind::Sliding { .. } => ClusterFunction::Sliding,
        Kind::Token { .. } => ClusterFunction::Token,
        Kind::SlidingCounter { .. } => ClusterFunction::SlidingCounter,
    }
}

/// The function that a message to a record is counted under.
pub fn function_of_call(call: &WarmCall) -> ClusterFunction {
    match call {
        WarmCall::Put { .. } => ClusterFunction::Put,
        WarmCall::Fetch => ClusterFunction::Fetch,
        WarmCall::Drop => ClusterFunction::Drop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: seen-of-a-cluster.
    #[test]
    fn what_was_counted_is_taken_once() {
        let counts = MessageCounts::default();
        for (nth, function) in ClusterFunction::ALL.into_iter().enumerate() {
            (0..=nth).for_each(|_| counts.count(function, ClusterResult::Ok));
        }
        counts.count(ClusterFunction::Put, ClusterResult::Timeout);
        counts.count_time(clock::instant());
        let taken = counts.take();
        for (nth, function) in ClusterFunction::ALL.into_iter().enumerate() {
            let counts = taken.requests[function as usize];
            assert_eq!(counts[ClusterResult::Ok as usize], nth as u64 + 1, "{function:?}");
        }
        let put = ClusterFunction::Put as usize;
        assert_eq!(taken.requests[put][ClusterResult::Timeout as usize], 1);
        assert_eq!(taken.times.count(), 1);
        assert_eq!(counts.take(), Counted::default());
    }
}
