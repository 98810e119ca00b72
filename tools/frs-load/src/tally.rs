//! The tally: the counts of a thread, and their sum over all threads.
//!
//! Invariant: the requests are the sum over all statuses, plus the requests without an answer.
//! Their items are the sum over all verdicts and errors.

use std::collections::BTreeMap;
use std::fmt::Write;

use hdrhistogram::Histogram;

use crate::answer::{Outcome, VERDICTS};
use crate::windows::Windows;

/// Higher latencies are counted as this latency.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;
/// The length of the time slices in which throughput is counted.
pub const SLICE_NS: u64 = 10_000_000;

/// Counts and latencies.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Latencies of answered requests, in ns, to three digits.
    pub latencies_ns: Histogram<u64>,
    /// Answered requests in each time slice.
    pub slices: Vec<u64>,
    /// Number of items by verdict, in the order of [`VERDICTS`].
    pub verdicts: [u64; VERDICTS.len()],
    /// Number of items without a verdict, by error.
    pub errors: BTreeMap<&'static str, u64>,
    /// Number of answered requests, by status.
    pub statuses: BTreeMap<u16, u64>,
    /// The windows that answers reported, if they are counted.
    pub windows: Windows,
    /// Number of connections that were opened again.
    pub reconnects: u64,
    /// Number of requests that were sent again, because their answers were lost.
    pub sent_again: u64,
    /// Number of requests of an open loop that were due and never sent.
    pub unsent: u64,
    /// The time of the last answer.
    pub last_ns: u64,
}

/// No latencies yet: in ns, to three digits.
pub fn latencies_ns() -> Histogram<u64> {
    // A lowest value of 1 and three digits are valid bounds.
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("bounds")
}

impl Tally {
    /// An empty tally.
    pub fn new() -> Tally {
        Tally {
            latencies_ns: latencies_ns(),
            slices: Vec::new(),
            verdicts: [0; VERDICTS.len()],
            errors: BTreeMap::new(),
            statuses: BTreeMap::new(),
            windows: Windows::default(),
            reconnects: 0,
            sent_again: 0,
            unsent: 0,
            last_ns: 0,
        }
    }

    /// Counts an answered request.
    pub fn answered(&mut self, status: u16, latency_ns: u64, now_ns: u64) {
        self.latencies_ns.saturating_record(latency_ns.max(1));
        *self.statuses.entry(status).or_default() += 1;
        self.last_ns = self.last_ns.max(now_ns);
        let slice = (now_ns / SLICE_NS) as usize;
        if self.slices.len() <= slice {
            self.slices.resize(slice + 1, 0);
        }
        self.slices[slice] += 1;
    }

    /// Counts the outcome of an item.
    pub fn item(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Verdict(verdict) => self.verdicts[verdict as usize] += 1,
            Outcome::Error(error) => self.failed(error, 1),
        }
    }

    /// Counts items without a verdict.
    pub fn failed(&mut self, error: &'static str, items: u64) {
        *self.errors.entry(error).or_default() += items;
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Tally) {
        // Both have the same bounds.
        self.latencies_ns.add(&other.latencies_ns).expect("the same bounds");
        if self.slices.len() < other.slices.len() {
            self.slices.resize(other.slices.len(), 0);
        }
        self.slices.iter_mut().zip(&other.slices).for_each(|(sum, more)| *sum += more);
        self.verdicts.iter_mut().zip(&other.verdicts).for_each(|(sum, more)| *sum += more);
        for (error, items) in &other.errors {
            self.failed(error, *items);
        }
        for (status, requests) in &other.statuses {
            *self.statuses.entry(*status).or_default() += requests;
        }
        self.windows.add(&other.windows);
        self.reconnects += other.reconnects;
        self.sent_again += other.sent_again;
        self.unsent += other.unsent;
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    /// A table of the latencies, with the number of answers for each.
    pub fn latencies(&self) -> String {
        let mut table = "latency_us,answers\n".to_owned();
        for step in self.latencies_ns.iter_recorded() {
            let ns = step.value_iterated_to();
            let answers = step.count_at_value();
            // Writing to a String does not fail.
            let _ = writeln!(table, "{}.{:03},{answers}", ns / 1000, ns % 1000);
        }
        table
    }

    /// The number of answered requests.
    pub fn requests(&self) -> u64 {
        self.statuses.values().sum()
    }

    /// The number of requested items.
    pub fn items(&self) -> u64 {
        self.verdicts.iter().chain(self.errors.values()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_have_their_places() {
        for (place, (verdict, name)) in VERDICTS.iter().enumerate() {
            assert_eq!(*verdict as usize, place, "{name}");
        }
    }

    #[test]
    fn sums() {
        let (mut one, mut other) = (Tally::new(), Tally::new());
        one.answered(200, 1000, 5);
        one.item(Outcome::Verdict(VERDICTS[1].0));
        other.answered(200, 3_000_000, 3 * SLICE_NS);
        other.answered(503, u64::MAX, 2 * SLICE_NS);
        other.item(Outcome::Error("busy"));
        other.failed("overloaded", 2);
        one.add(&other);
        assert_eq!((one.requests(), one.items()), (3, 4));
        assert_eq!(one.slices, [1, 0, 1, 1]);
        assert_eq!(one.last_ns, 3 * SLICE_NS);
        assert_eq!(one.latencies_ns.len(), 3);
        assert!(one.latencies_ns.max() >= LATENCY_MAX_NS);
    }

    #[test]
    fn latencies_are_a_table() {
        let mut tally = Tally::new();
        for latency_ns in [1_000, 1_000, 70_050] {
            tally.answered(200, latency_ns, 1);
        }
        assert_eq!(tally.latencies(), "latency_us,answers\n1.000,2\n70.079,1\n");
    }
}
