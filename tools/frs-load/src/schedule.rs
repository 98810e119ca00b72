//! The schedule tells when to send each request: values in, values out.
//!
//! Invariant: in an open loop, the time of a request depends only on its number and the rate. If
//! the server stalls, requests are sent late, and the delay counts as latency. No request is
//! omitted because the server was slow (no coordinated omission).

const SECOND_NS: u128 = 1_000_000_000;

/// The next step of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send this request. Its latency counts from this time.
    Send { number: u64, from_ns: u64 },
    /// Send nothing before this time.
    Wait { until_ns: u64 },
    /// Send nothing more.
    Done,
}

/// The requests of one thread: every `stride`-th request of the run, from `number` on.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub number: u64,
    pub stride: u64,
    /// Number of requests of the whole run.
    pub total: Option<u64>,
    /// Requests per second of the whole run. `None` to send as soon as a place is idle.
    pub rate: Option<u64>,
    /// In bursts: all requests that are meant for this much time are due at its beginning.
    pub burst_ns: Option<u64>,
    /// The time after which nothing is sent.
    pub end_ns: Option<u64>,
}

impl Schedule {
    /// The next step, if a connection has room now.
    pub fn next(&self, now_ns: u64) -> Next {
        let ended = self.end_ns.is_some_and(|end_ns| now_ns >= end_ns);
        if ended || self.total.is_some_and(|total| self.number >= total) {
            return Next::Done;
        }
        match self.meant_ns(self.number) {
            None => Next::Send { number: self.number, from_ns: now_ns },
            Some(meant_ns) if self.end_ns.is_some_and(|end_ns| meant_ns >= end_ns) => Next::Done,
            Some(meant_ns) if meant_ns > now_ns => Next::Wait { until_ns: meant_ns },
            Some(meant_ns) => Next::Send { number: self.number, from_ns: meant_ns },
        }
    }

    /// Notes that the next request was sent.
    pub fn advance(&mut self) {
        self.number = self.number.saturating_add(self.stride);
    }

    /// The number of requests that were due before the end and never sent.
    pub fn unsent(&self) -> u64 {
        let (Some(rate), Some(end_ns)) = (self.rate, self.end_ns) else { return 0 };
        // Request n is due at n / rate seconds. This many requests are due before the end.
        let before_end = (u128::from(end_ns) * u128::from(rate)).div_ceil(SECOND_NS);
        let meant = u64::try_from(before_end).unwrap_or(u64::MAX);
        let meant = meant.min(self.total.unwrap_or(u64::MAX));
        meant.saturating_sub(self.number).div_ceil(self.stride)
    }

    /// The last time at which an open loop sends.
    pub fn last_ns(&self) -> Option<u64> {
        self.rate.and(self.end_ns).map(|end_ns| end_ns.saturating_sub(1))
    }

    /// The time at which a request is due. `None` if it has no particular time.
    fn meant_ns(&self, number: u64) -> Option<u64> {
        let rate = u128::from(self.rate?);
        let meant_ns = u64::try_from(u128::from(number) * SECOND_NS / rate).unwrap_or(u64::MAX);
        Some(self.burst_ns.map_or(meant_ns, |burst_ns| meant_ns - meant_ns % burst_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn open(rate: u64) -> Schedule {
        Schedule {
            number: 0,
            stride: 1,
            total: None,
            rate: Some(rate),
            burst_ns: None,
            end_ns: Some(1000 * MS),
        }
    }

    /// The latencies on one connection to a server that takes 1 ms for each request and stalls
    /// once.
    fn against_a_stall(mut schedule: Schedule, stall_ns: std::ops::Range<u64>) -> Vec<u64> {
        let (mut now_ns, mut latencies) = (0, Vec::new());
        loop {
            match schedule.next(now_ns) {
                Next::Send { from_ns, .. } => {
                    schedule.advance();
                    if stall_ns.contains(&now_ns) {
                        now_ns = stall_ns.end;
                    }
                    now_ns += MS;
                    latencies.push(now_ns - from_ns);
                }
                Next::Wait { until_ns } => now_ns = until_ns,
                Next::Done => return latencies,
            }
        }
    }

    #[test]
    fn a_stall_counts_for_every_request_that_was_meant_for_it() {
        // A request each 10 ms and a stall of 200 ms: the k-th request due in the stall waits 10 k
        // ms less.
        let latencies = against_a_stall(open(100), 300 * MS..500 * MS);
        assert_eq!(latencies.len(), 100, "as many as without the stall");
        assert_eq!(latencies[29], MS);
        assert_eq!(latencies[30], 201 * MS);
        assert_eq!(latencies[31], 192 * MS);
        assert_eq!(latencies[40], 111 * MS);
        // The queue of 20 requests shrinks by one each 1 ms, and grows by one each 10 ms.
        assert_eq!(latencies.iter().filter(|&&latency| latency > MS).count(), 23);
        assert_eq!(latencies[99], MS);
    }

    #[test]
    fn a_closed_loop_sees_the_stall_once() {
        let schedule = Schedule { rate: None, ..open(1) };
        let latencies = against_a_stall(schedule, 300 * MS..500 * MS);
        assert_eq!(latencies.iter().filter(|&&latency| latency > MS).count(), 1);
        assert_eq!(latencies.len(), 800);
    }

    #[test]
    fn threads_share_out_the_numbers() {
        let thread = |number| Schedule { number, stride: 3, total: Some(10), ..open(1000) };
        let mut sent = Vec::new();
        for mut schedule in [thread(0), thread(1), thread(2)] {
            while let Next::Send { number, from_ns } = schedule.next(500 * MS) {
                assert_eq!(from_ns, number * MS);
                sent.push(number);
                schedule.advance();
            }
        }
        sent.sort_unstable();
        assert_eq!(sent, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_sent_early_or_after_the_end() {
        let mut schedule = open(100);
        assert_eq!(schedule.next(0), Next::Send { number: 0, from_ns: 0 });
        schedule.advance();
        assert_eq!(schedule.next(9 * MS), Next::Wait { until_ns: 10 * MS });
        assert_eq!(schedule.next(1000 * MS), Next::Done);
        assert_eq!(schedule.unsent(), 99);
        schedule.number = 100;
        assert_eq!(schedule.next(999 * MS), Next::Done);
        assert_eq!(schedule.unsent(), 0);
    }

    #[test]
    fn nothing_overflows() {
        let schedule = Schedule { number: u64::MAX, ..open(1) };
        assert_eq!(schedule.next(0), Next::Done);
        let endless = Schedule { end_ns: None, ..schedule };
        assert_eq!(endless.next(u64::MAX - 1), Next::Wait { until_ns: u64::MAX });
    }

    #[test]
    fn a_burst_is_due_at_its_beginning() {
        let schedule = Schedule { burst_ns: Some(10 * MS), ..open(1000) };
        let due = |number| match (Schedule { number, ..schedule.clone() }).next(999 * MS) {
            Next::Send { from_ns, .. } => from_ns / MS,
            other => panic!("{other:?}"),
        };
        assert_eq!([0, 9, 10, 19, 20].map(due), [0, 0, 10, 10, 20]);
        assert_eq!(
            Schedule { number: 30, ..schedule }.next(29 * MS),
            Next::Wait { until_ns: 30 * MS }
        );
    }
}
