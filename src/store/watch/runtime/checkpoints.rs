//! The words about checkpoints in runtime.mmap: requests, results, times.
//!
//! Invariant: any process may increment the number of requests. Only the one process that makes
//! checkpoints writes the other words.

use frs_base::sync::Ordering;

use super::Runtime;
use crate::file::layout::runtime as at;
use crate::watch::counter::{Histogram, bucket_of, upper_us};

/// What is known of passes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointCounts {
    /// Times of passes over all groups that were complete.
    pub times: Histogram,
    /// The time since which passes fail, in milliseconds. None if the last pass was complete.
    pub failing_since_ms: Option<u64>,
}

/// How a requested checkpoint ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedPass {
    /// All groups are on the disk.
    Made,
    /// Not all of them.
    Failed,
}

impl Runtime {
    /// Requests a checkpoint. Returns the number of the request.
    pub fn request_checkpoint(&self) -> u64 {
        // Release: all that the caller has done or seen comes before the pass; pairs with
        // `checkpoint_requests`.
        self.region.word(at::CHECKPOINTS_ASKED).fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of requested checkpoints. A pass that begins now answers all of them.
    pub fn checkpoint_requests(&self) -> u64 {
        self.region.word(at::CHECKPOINTS_ASKED).load(Ordering::Acquire)
    }

    /// The answer of a request. None before there is one.
    pub fn requested_pass(&self, request: u64) -> Option<RequestedPass> {
        // Acquire: pairs with the Release of `end_pass`.
        let ended = self.region.word(at::CHECKPOINTS_ENDED).load(Ordering::Acquire);
        (ended >= request).then(|| {
            let made = self.region.load(at::CHECKPOINTS_MADE) >= request;
            if made { RequestedPass::Made } else { RequestedPass::Failed }
        })
    }

    /// Answers the first `requests` requests. Only the process that makes checkpoints calls it.
    pub fn answer_checkpoints(&self, requests: u64, result: RequestedPass) {
        if result == RequestedPass::Made {
            self.region.store(at::CHECKPOINTS_MADE, requests);
        }
        // Release: the result is stored before a reader looks at it; pairs with `requested_pass`.
        self.region.store_release(at::CHECKPOINTS_ENDED, requests);
    }

    /// Counts the time of a pass over all groups.
    pub fn count_checkpoint(&self, us: u64) {
        let grow = |word, by| self.region.store(word, self.region.load(word).wrapping_add(by));
        grow(at::CHECKPOINT_TIMES, us);
        grow(at::CHECKPOINT_TIMES + 1 + doubling_of(us), 1);
    }

    /// Stores the time since which passes fail.
    pub fn set_checkpoints_failing(&self, since_ms: Option<u64>) {
        self.region.store(at::CHECKPOINTS_FAILING, since_ms.unwrap_or(0));
    }

    /// Since when passes fail.
    pub fn checkpoints_failing_since(&self) -> Option<u64> {
        Some(self.region.load(at::CHECKPOINTS_FAILING)).filter(|&since| since != 0)
    }

    /// What is known of passes.
    pub fn checkpoint_counts(&self) -> CheckpointCounts {
        let mut times =
            Histogram { sum_us: self.region.load(at::CHECKPOINT_TIMES), ..Default::default() };
        for doubling in 0..at::CHECKPOINT_DOUBLINGS {
            let count = self.region.load(at::CHECKPOINT_TIMES + 1 + doubling);
            let bucket = match doubling + 1 == at::CHECKPOINT_DOUBLINGS {
                true => times.buckets.len() - 1,
                false => bucket_of(1 << doubling),
            };
            times.buckets[bucket] += count;
        }
        CheckpointCounts { times, failing_since_ms: self.checkpoints_failing_since() }
    }

    /// Stores when the newest complete pass over a group began.
    pub(crate) fn set_checkpoint_time(&self, group: &str, begun_ms: u64) {
        for named in self.named_groups(group) {
            if let Some(word) = self.checkpoint_time_word(named.id) {
                self.region.store(word, begun_ms);
            }
        }
    }

    /// When the newest complete pass over a group began, in milliseconds. None if it has none.
    pub fn checkpoint_time(&self, group: &str) -> Option<u64> {
        let word = self.checkpoint_time_word(self.id_of_group(group)?)?;
        Some(self.region.load(word)).filter(|&begun_ms| begun_ms != 0)
    }

    fn checkpoint_time_word(&self, group: u64) -> Option<usize> {
        let known = self.find_file(group, 0)?;
        Some(Self::entry(known.index) + at::FILE_CHECKPOINT)
    }
}

/// The doubling of microseconds that a time belongs to: the first doubling whose bound is not below
/// it. This page has no room for a whole histogram, and passes are few.
fn doubling_of(us: u64) -> usize {
    let last = at::CHECKPOINT_DOUBLINGS - 1;
    (0..last).find(|&doubling| us <= 1 << doubling).unwrap_or(last)
}

const _: () = assert!(upper_us(bucket_of(1 << (at::CHECKPOINT_DOUBLINGS - 2))).is_some());

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::testing::World;

    #[test]
    fn times_are_counted_by_doublings_and_a_request_is_answered_by_a_later_pass() {
        let map = "<map><group name='g' files='2' key-nodes='1' chain='1' node-size='64'/></map>";
        let world = World::new(map);
        let runtime = Runtime::open(&world.dir).unwrap();
        assert_eq!(runtime.checkpoint_counts(), CheckpointCounts::default());
        for us in [0, 1, 900_000, 1 << 26, u64::MAX >> 8] {
            runtime.count_checkpoint(us);
        }
        let times = runtime.checkpoint_counts().times;
        assert_eq!(times.count(), 5);
        let up_to = |bound| times.doublings().find(|d| d.bound_us == bound).unwrap().count;
        assert_eq!([1 << 19, 1 << 20, 1 << 25].map(up_to), [2, 3, 3]);

        assert_eq!(runtime.checkpoint_time("g"), None);
        runtime.set_checkpoint_time("g", 7);
        assert_eq!((runtime.checkpoint_time("g"), runtime.checkpoint_time("h")), (Some(7), None));
        let first = runtime.request_checkpoint();
        let seen = runtime.checkpoint_requests();
        let second = runtime.request_checkpoint();
        runtime.answer_checkpoints(seen, RequestedPass::Failed);
        assert_eq!(runtime.requested_pass(first), Some(RequestedPass::Failed));
        assert_eq!(runtime.requested_pass(second), None);
        runtime.answer_checkpoints(second, RequestedPass::Made);
        assert_eq!(runtime.requested_pass(second), Some(RequestedPass::Made));
    }
}
