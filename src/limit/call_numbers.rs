//! The numbers that a call brings for limits with `per-call`.
//!
//! Invariant: only numbers within the bounds of their limits become terms of an item.

use frs_conf::{
    CallRate, CallWindow, Interval, MAX_PER_CALL, Sliding, SlidingCounter, Total, Unit,
};

use super::bucket::Bucket;
use super::pace::Pace;

/// The numbers that an item brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallNumbers<'r> {
    /// Text that is no number or no rate, or numbers that exclude each other.
    Bad,
    /// A maximum alone.
    Max(u64),
    /// A rate for each limit in turn, and the burst of the one that is a bucket.
    Rates {
        /// At least one.
        rates: &'r [CallRate],
        /// The burst, if the item brings one.
        burst: Option<u64>,
    },
}

impl CallNumbers<'_> {
    /// The pace of a bucket that takes these numbers. `None`: they are no rate of a bucket.
    pub fn pace(self) -> Option<Pace> {
        let CallNumbers::Rates { rates: &[rate], burst } = self else { return None };
        let CallWindow::Period(period) = rate.window else { return None };
        Pace::new(rate.uses, period, burst.unwrap_or(rate.uses))
    }
}

/// The number of a call for one limit.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallNumber {
    Max(u64),
    Rate {
        rate: CallRate,
        /// The burst, if the limit is the bucket that the call's burst belongs to.
        burst: Option<u64>,
    },
}

/// The numbers of a call for one limit, within its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimit(pub(super) Settings);

/// The settings of a limit, as a call changes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settings {
    Interval(Interval),
    Sliding(Sliding),
    SlidingCounter(SlidingCounter),
    Token(Bucket),
    Gcra(Pace),
    Total(Total),
    Calendar {
        unit: Unit,
        max: u64,
    },
    /// Of a set.
    Max(u64),
}

impl Settings {
    /// The maximum, or the burst.
    pub fn max(&self) -> u64 {
        match self {
            Settings::Interval(limit) => limit.max,
            Settings::Sliding(limit) => limit.max,
            Settings::SlidingCounter(limit) => limit.max,
            Settings::Token(limit) => limit.burst,
            Settings::Gcra(pace) => pace.burst,
            Settings::Total(limit) => limit.max,
            Settings::Calendar { max, .. } | Settings::Max(max) => *max,
        }
    }
}

/// The numbers of a call for each limit in turn. Limits behind the last one keep their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    all: [CallLimit; MAX_PER_CALL],
    len: usize,
}

impl CallLimits {
    /// No numbers.
    pub const NONE: CallLimits =
        CallLimits { all: [CallLimit(Settings::Max(0)); MAX_PER_CALL], len: 0 };

    /// Those of the `nth` limit with `per-call`, if the call brings any.
    #[inline]
    pub(super) fn get(&self, nth: usize) -> Option<&CallLimit> {
        self.all[..self.len].get(nth)
    }

    /// Forgets all numbers.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds those of the next limit. False if there is no room.
    pub(super) fn push(&mut self, limit: CallLimit) -> bool {
        let Some(next) = self.all.get_mut(self.len) else { return false };
        *next = limit;
        self.len += 1;
        true
    }
}
