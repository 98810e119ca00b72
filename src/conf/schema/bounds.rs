//! The bounds that the settings of a limit put on each other, so that no figure of an answer
//! overflows.
//!
//! Invariant: they hold for a limit as it is written, and for each max that an override gives it.

use std::ops::RangeInclusive;

use super::map::{
    Calendar, Distinct, DistinctCounting, Gcra, Interval, Limit, MAX_GCRA_NS, MAX_MEMBERS,
    MAX_RING_USES, Policy, Sliding, SlidingCounter, TOKEN_UNITS, Token, Total, Unit,
};
use super::quantity::{MAX_COUNT, MAX_DURATION_MS};

/// The largest max of `sliding`, which stores each use.
pub(crate) const MAX_SLIDING: u64 = MAX_RING_USES as u64;
/// The longest interval of `sliding`, which stores uses as 32 bits of milliseconds.
pub(crate) const MAX_SLIDING_MS: u64 = 45 * DAY_MS;
/// The largest burst. The level of its bucket is a 64-bit number.
pub(crate) const MAX_BURST: u64 = u64::MAX / TOKEN_UNITS;

const DAY_MS: u64 = 86_400_000;
const NS_PER_MS: u64 = 1_000_000;
/// A thousand years. Computations with calendars end with the year 9999.
const MAX_CALENDAR_MS: u64 = 366_000 * DAY_MS;

/// The uses that a limit lends from later windows, and the time in which they must be paid back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Credit {
    /// The most uses lent.
    pub debt: u64,
    /// The longest window.
    pub window_ms: u64,
    /// The longest time until everything is paid back and the window has turned.
    pub most_ms: u64,
}

impl Credit {
    /// The credit of `interval`.
    pub const fn of_interval(limit: &Interval) -> Credit {
        Credit { debt: limit.debt, window_ms: limit.interval_ms, most_ms: MAX_DURATION_MS }
    }

    /// The credit of `calendar`.
    pub fn of_calendar(limit: &Calendar) -> Credit {
        let window_ms = limit.turns.unit.longest_ms();
        Credit { debt: limit.debt, window_ms, most_ms: MAX_CALENDAR_MS }
    }

    /// The number of windows until everything is paid back, including the window that turns then. A
    /// limit that lends has a max of 1 or more.
    pub const fn turns(&self, max: u64) -> u64 {
        match self.debt.checked_div(max) {
            Some(windows) if self.debt > 0 => windows + 2,
            _ => 1,
        }
    }

    /// Whether everything is paid back within `most_ms`.
    pub const fn is_paid_back(&self, max: u64) -> bool {
        self.turns(max).saturating_mul(self.window_ms) <= self.most_ms
    }

    /// The smallest max that pays back in time, if there is one.
    pub const fn least_max(&self) -> u64 {
        if self.debt == 0 {
            return 0;
        }
        // debt / max + 2 <= windows, solved for max.
        let windows = self.most_ms / self.window_ms;
        match self.debt.checked_div(windows.saturating_sub(1)) {
            Some(least) => least + 1,
            None => u64::MAX,
        }
    }
}

/// The highest rate, in tokens per `per_ms` milliseconds. `per_ms` divides a day. The token units
/// that flow back in a millisecond fit into 64 bits.
pub(crate) const fn most_rate(per_ms: u64) -> u64 {
    let most = u64::MAX / (TOKEN_UNITS / per_ms);
    if most < MAX_COUNT { most } else { MAX_COUNT }
}

/// The largest burst at a rate. The level of its bucket is a 64-bit number, and no bucket takes
/// longer to fill than the longest duration.
pub(crate) fn most_burst(rate: u64, per_ms: u64) -> u64 {
    let filled = u128::from(MAX_DURATION_MS) * u128::from(rate) / u128::from(per_ms);
    u64::try_from(filled).unwrap_or(u64::MAX).min(MAX_BURST)
}

/// The highest rate of `gcra`, in uses per `per_ms` milliseconds: one use flows back in a
/// nanosecond.
pub(crate) const fn most_gcra_rate(per_ms: u64) -> u64 {
    per_ms.saturating_mul(NS_PER_MS)
}

/// The largest burst of `gcra` at a rate.
pub(crate) fn most_gcra_burst(rate: u64, per_ms: u64) -> u64 {
    let emission = most_gcra_rate(per_ms) / rate.max(1);
    (MAX_GCRA_NS / emission.max(1)).min(MAX_BURST)
}

impl Interval {
    /// Whether its debt is paid back in time.
    pub const fn is_paid_back(&self) -> bool {
        (self.debt == 0 || self.max > 0) && Credit::of_interval(self).is_paid_back(self.max)
    }
}

impl Unit {
    /// Whether windows of this length pay a debt back in time.
    pub const fn pays_back(self, debt: u64, max: u64) -> bool {
        let credit = Credit { debt, window_ms: self.longest_ms(), most_ms: MAX_CALENDAR_MS };
        (debt == 0 || max > 0) && credit.is_paid_back(max)
    }
}

/// The range of an override's max under the other settings of its limit. `None` if the limit has no
/// max.
pub(crate) fn override_max(limit: &Limit) -> Option<RangeInclusive<u64>> {
    // A call may bring the longest window for the max of an override.
    let longest_ms = limit.per_call.map_or(0, |bounds| bounds.max_period_ms);
    let least_max = |credit: Credit| {
        Credit { window_ms: credit.window_ms.max(longest_ms), ..credit }.least_max()
    };
    Some(match &limit.policy {
        Policy::Interval(limit) => least_max(Credit::of_interval(limit))..=MAX_COUNT,
        Policy::Calendar(limit) => least_max(Credit::of_calendar(limit))..=MAX_COUNT,
        Policy::Sliding(_) => 0..=MAX_SLIDING,
        Policy::SlidingCounter(_) | Policy::Total(_) | Policy::Concurrent(_) => 0..=MAX_COUNT,
        Policy::Token(Token { rate, per_ms, .. }) => 1..=most_burst(*rate, *per_ms),
        Policy::Gcra(Gcra { rate, per_ms, .. }) => 1..=most_gcra_burst(*rate, *per_ms),
        Policy::Distinct(Distinct { counting: DistinctCounting::Exact { .. }, .. }) => {
            1..=MAX_MEMBERS
        }
        Policy::Distinct(Distinct {
            counting: DistinctCounting::Sketch { max: Some(_), .. },
            ..
        }) => 0..=MAX_COUNT,
        Policy::Distinct(_) | Policy::Count(_) => return None,
    })
}

/// The range of `most`: from the max of the limit, which is the burst of a bucket, to the largest
/// that its state can hold. `None` if a call brings nothing for the limit.
pub(crate) fn call_max(policy: &Policy) -> Option<RangeInclusive<u64>> {
    Some(match policy {
        Policy::Interval(Interval { max, .. })
        | Policy::Calendar(Calendar { max, .. })
        | Policy::SlidingCounter(SlidingCounter { max, .. })
        | Policy::Total(Total { max }) => *max..=MAX_COUNT,
        Policy::Sliding(Sliding { max, .. }) => *max..=MAX_SLIDING,
        Policy::Token(Token { burst, .. }) | Policy::Gcra(Gcra { burst, .. }) => *burst..=MAX_BURST,
        Policy::Distinct(Distinct { counting: DistinctCounting::Exact { max }, .. }) => {
            *max..=MAX_MEMBERS
        }
        Policy::Distinct(_) | Policy::Count(_) | Policy::Concurrent(_) => return None,
    })
}

/// The range of `max-period` in milliseconds: from the longest window of the limit itself. A bucket
/// has no window. `None` if the rate of a call has no place in the limit.
pub(crate) fn call_period_ms(policy: &Policy) -> Option<RangeInclusive<u64>> {
    Some(match policy {
        Policy::Interval(Interval { interval_ms, .. })
        | Policy::SlidingCounter(SlidingCounter { interval_ms, .. }) => {
            *interval_ms..=MAX_DURATION_MS
        }
        Policy::Calendar(Calendar { turns, .. }) => turns.unit.longest_ms()..=MAX_DURATION_MS,
        Policy::Sliding(Sliding { interval_ms, .. }) => *interval_ms..=MAX_SLIDING_MS,
        Policy::Token(_) | Policy::Gcra(_) => 1..=MAX_DURATION_MS,
        Policy::Total(_) | Policy::Count(_) | Policy::Distinct(_) | Policy::Concurrent(_) => {
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_max_is_the_smallest_that_pays_back() {
        for debt in [0, 1, 7, 300, MAX_COUNT] {
            for (window_ms, most_ms) in [(1, 5), (2, 100), (60_000, MAX_DURATION_MS), (1, 2)] {
                let credit = Credit { debt, window_ms, most_ms };
                let least = credit.least_max();
                assert!(credit.is_paid_back(least), "{credit:?} {least}");
                assert!(debt == 0 || least >= 1, "{credit:?}");
                assert!(least <= 1 || !credit.is_paid_back(least - 1), "{credit:?} {least}");
            }
        }
    }

    #[test]
    fn turns_pay_all_back() {
        let credit = |debt| Credit { debt, window_ms: 1, most_ms: 10 };
        assert_eq!([credit(0).turns(0), credit(0).turns(5)], [1, 1]);
        assert_eq!([credit(1).turns(1), credit(300).turns(1000)], [3, 2]);
        assert_eq!(credit(MAX_COUNT).turns(1), MAX_COUNT + 2);
    }

    #[test]
    fn buckets_stand_in_64_bits() {
        for per_ms in [1, 1000, 60_000, 3_600_000, DAY_MS] {
            let most = most_rate(per_ms);
            let drain = |rate: u64| rate.checked_mul(TOKEN_UNITS / per_ms);
            assert!(drain(most).is_some() && most <= MAX_COUNT);
            assert!(most == MAX_COUNT || drain(most + 1).is_none(), "{per_ms}");
            for rate in [1, 10, most] {
                let burst = most_burst(rate, per_ms);
                let level = burst.checked_mul(TOKEN_UNITS).unwrap_or_else(|| panic!("{burst}"));
                let fill_ms = level.div_ceil(drain(rate).unwrap_or_else(|| panic!("{rate}")));
                assert!(fill_ms <= MAX_DURATION_MS, "{rate} {per_ms}");
            }
        }
        assert_eq!(most_burst(1, DAY_MS), 104_249_991);
        assert_eq!(most_burst(10, 1000), MAX_BURST);
    }
}
