//! What follows from the settings of a limit alone. Each function asks a question of each policy.
//!
//! Invariant: no match has a wildcard, so the compiler points a new policy at each question.

use super::map::{
    Calendar, Concurrent, Count, DISTINCT_HEADER_WORDS, Distinct, DistinctCounting, Gcra, Interval,
    Policy, Sliding, SlidingCounter, StatePlace, Token, Total, sketch_words,
};

impl Policy {
    /// Where the state of the limit is in a node.
    pub const fn state_place(&self) -> StatePlace {
        let words = match self {
            Policy::Interval(_) | Policy::Calendar(_) | Policy::Token(_) | Policy::Gcra(_) => 2,
            Policy::Sliding(limit) => return StatePlace::Ring(*limit),
            Policy::SlidingCounter(_) => 3,
            Policy::Total(_) => 1,
            Policy::Count(Count { turns: Some(_) }) => 2,
            Policy::Count(Count { turns: None }) => 1,
            Policy::Distinct(Distinct {
                counting: DistinctCounting::Sketch { precision, .. },
                ..
            }) => DISTINCT_HEADER_WORDS + sketch_words(*precision),
            Policy::Distinct(Distinct { counting: DistinctCounting::Exact { max }, .. }) => {
                return StatePlace::Set { max: *max };
            }
            Policy::Concurrent(_) => return StatePlace::Holds,
        };
        StatePlace::Own { words }
    }

    /// Whether evicting a node in use may admit what its state refuses. A `total` in use is never
    /// evicted, nor is a set that never restarts.
    pub const fn forgets_by_eviction(&self) -> bool {
        match self {
            Policy::Interval(_)
            | Policy::Calendar(_)
            | Policy::Sliding(_)
            | Policy::SlidingCounter(_)
            | Policy::Token(_)
            | Policy::Gcra(_)
            | Policy::Concurrent(_) => true,
            Policy::Distinct(Distinct { turns, counting }) => {
                matches!(counting, DistinctCounting::Exact { .. }) && turns.is_some()
            }
            Policy::Total(_) | Policy::Count(_) => false,
        }
    }

    /// How the policy notes members. `None` if it counts uses.
    pub const fn counting(&self) -> Option<DistinctCounting> {
        match self {
            Policy::Distinct(Distinct { counting, .. }) => Some(*counting),
            Policy::Interval(_)
            | Policy::Calendar(_)
            | Policy::Sliding(_)
            | Policy::SlidingCounter(_)
            | Policy::Token(_)
            | Policy::Gcra(_)
            | Policy::Total(_)
            | Policy::Count(_)
            | Policy::Concurrent(_) => None,
        }
    }

    /// The policy's name in map.xml and in answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Policy::Interval(_) => "interval",
            Policy::Calendar(_) => "calendar",
            Policy::Sliding(_) => "sliding",
            Policy::SlidingCounter(_) => "sliding-counter",
            Policy::Token(_) => "token",
            Policy::Gcra(_) => "gcra",
            Policy::Total(_) => "total",
            Policy::Count(_) => "count",
            Policy::Distinct(_) => "distinct",
            Policy::Concurrent(_) => "concurrent",
        }
    }

    /// Its max, which is the burst of a bucket. `None` for `count`, and for a sketch that never
    /// advises.
    pub const fn max(&self) -> Option<u64> {
        Some(match self {
            Policy::Interval(Interval { max, .. })
            | Policy::Calendar(Calendar { max, .. })
            | Policy::Sliding(Sliding { max, .. })
            | Policy::SlidingCounter(SlidingCounter { max, .. })
            | Policy::Token(Token { burst: max, .. })
            | Policy::Gcra(Gcra { burst: max, .. })
            | Policy::Total(Total { max })
            | Policy::Concurrent(Concurrent { max })
            | Policy::Distinct(Distinct { counting: DistinctCounting::Exact { max }, .. }) => *max,
            Policy::Distinct(Distinct {
                counting: DistinctCounting::Sketch { max, .. }, ..
            }) => return *max,
            Policy::Count(_) => return None,
        })
    }

    /// The period of the limit in microseconds, rounded down: the interval, or the time in which an
    /// empty bucket fills. A key may use `max` in each period. `None` for calendar windows, whose
    /// lengths differ, and for limits that never restart.
    pub fn period_us(&self) -> Option<u64> {
        let (ms, parts) = match *self {
            Policy::Interval(Interval { interval_ms, .. })
            | Policy::Sliding(Sliding { interval_ms, .. })
            | Policy::SlidingCounter(SlidingCounter { interval_ms, .. }) => (interval_ms.into(), 1),
            Policy::Token(Token { rate, per_ms, burst })
            | Policy::Gcra(Gcra { rate, per_ms, burst }) => {
                (u128::from(burst) * u128::from(per_ms), rate)
            }
            Policy::Calendar(_)
            | Policy::Total(_)
            | Policy::Count(_)
            | Policy::Distinct(_)
            | Policy::Concurrent(_) => return None,
        };
        Some((ms.saturating_mul(1000) / u128::from(parts)).try_into().unwrap_or(u64::MAX))
    }

    /// The same policy with another max, which is the burst of a bucket. `None` if it has no max.
    pub fn with_max(&self, max: u64) -> Option<Policy> {
        Some(match self.clone() {
            Policy::Interval(limit) => Policy::Interval(Interval { max, ..limit }),
            Policy::Calendar(limit) => Policy::Calendar(Calendar { max, ..limit }),
            Policy::Sliding(limit) => Policy::Sliding(Sliding { max, ..limit }),
            Policy::SlidingCounter(limit) => {
                Policy::SlidingCounter(SlidingCounter { max, ..limit })
            }
            Policy::Token(limit) => Policy::Token(Token { burst: max, ..limit }),
            Policy::Gcra(limit) => Policy::Gcra(Gcra { burst: max, ..limit }),
            Policy::Total(_) => Policy::Total(Total { max }),
            Policy::Concurrent(_) => Policy::Concurrent(Concurrent { max }),
            Policy::Distinct(limit) => {
                Policy::Distinct(Distinct { counting: limit.counting.with_max(max)?, ..limit })
            }
            Policy::Count(_) => return None,
        })
    }
}
