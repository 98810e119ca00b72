//! A rate that an item carries, for limits with `per-call`.
//!
//! Invariant: each rate either has a pace that the arithmetic of `gcra` holds, or its item is
//! answered `bad-rate`.

use frs_conf::{self as conf, Rate};
use frs_limit::Pace;

const NS_PER_MS: u64 = 1_000_000;

/// The rate and the burst of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRate {
    /// `None`: out of bounds.
    pace: Option<Pace>,
    /// Nanoseconds. The pace does not determine it, because its interval is rounded down.
    period: u64,
}

impl CallRate {
    /// An invalid rate.
    pub const BAD: CallRate = CallRate { pace: None, period: 0 };

    /// `count` uses in each period, in nanoseconds, and `burst` of them at once.
    pub fn new(count: u64, period: u64, burst: u64) -> CallRate {
        CallRate { pace: Pace::new(count, period, burst), period }
    }

    /// Reads the text of an item. A missing burst is the number of the rate. A burst without a rate
    /// is invalid. `None` if the item has neither.
    pub fn of_text(text: CallRateText) -> Option<CallRate> {
        let CallRateText { rate, burst } = text;
        if rate.is_none() && burst.is_none() {
            return None;
        }
        let read = rate.flatten().and_then(|Rate { number, per_ms }| {
            let burst = burst.unwrap_or(Some(number))?;
            Some(CallRate::new(number, per_ms.saturating_mul(NS_PER_MS), burst))
        });
        Some(read.unwrap_or(CallRate::BAD))
    }

    /// The pace. `None`: it is out of bounds.
    #[inline]
    pub fn pace(&self) -> Option<Pace> {
        self.pace
    }

    /// Whether a limit that takes periods up to this one takes the rate.
    pub(super) fn fits(&self, max_period_ms: u64) -> bool {
        self.pace.is_some() && self.period <= max_period_ms.saturating_mul(NS_PER_MS)
    }
}

/// The attributes `rate` and `burst` of an item, in any format. The inner `None` stands for invalid
/// text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallRateText {
    /// The rate.
    pub rate: Option<Option<Rate>>,
    /// The burst.
    pub burst: Option<Option<u64>>,
}

/// The longest period that every limit of a business takes from a call. `None`: no limit takes any.
pub(super) fn max_period_ms(biz: &conf::Biz) -> Option<u64> {
    biz.limits.iter().filter_map(|limit| limit.policy.max_period_ms()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rate: Option<&str>, burst: Option<&str>) -> Option<CallRate> {
        CallRate::of_text(CallRateText {
            rate: rate.map(Rate::of_text),
            burst: burst.map(|burst| burst.parse().ok()),
        })
    }

    #[test]
    fn a_rate_alone_is_its_own_burst() {
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some("30/m"), None), Some(CallRate::new(30, 60_000_000_000, 30)));
        assert_eq!(of(Some("30/m"), Some("16")), Some(CallRate::new(30, 60_000_000_000, 16)));
    }

    #[test]
    fn what_is_out_of_bounds_is_no_rate() {
        for (rate, burst) in [
            (None, Some("16")),
            (Some("30/w"), Some("16")),
            (Some("30"), None),
            (Some("0/s"), None),
            (Some("30/m"), Some("x")),
            (Some("30/m"), Some("0")),
            (Some("1000001/ms"), None),
            (Some("1/d"), Some("18446744073709551615")),
        ] {
            let read = of(rate, burst).expect("a limit of the call");
            assert_eq!(read.pace(), None, "{rate:?} {burst:?}");
            assert!(!read.fits(u64::MAX), "{rate:?} {burst:?}");
        }
        assert!(of(Some("1000000/ms"), None).is_some_and(|rate| rate.fits(1)));
    }

    #[test]
    fn longer_periods_than_the_longest_do_not_fit() {
        let rate = CallRate::new(1, 60_000_000_000, 1);
        assert!(rate.fits(60_000));
        assert!(!rate.fits(59_999));
    }
}
