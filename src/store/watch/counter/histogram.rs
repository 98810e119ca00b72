//! Durations in buckets: four buckets for each doubling of the time.
//!
//! Invariant: a bucket counts the times above its lower bound and up to its upper bound. So a
//! reported quantile is never shorter than the true one, and at most a quarter longer.

/// Doublings of the bounds above one microsecond. Longer times, above 67 s, are in the last bucket.
const DOUBLINGS: usize = 26;
/// Buckets of each doubling, from 4 µs on.
const PARTS: usize = 4;
/// Buckets of a histogram. The last one has no upper bound.
pub const BUCKETS: usize = (DOUBLINGS - 1) * PARTS + 1;

/// The counted times. (Log-linear buckets as in HdrHistogram, by Gil Tene.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Sum of all times, in microseconds.
    pub sum_us: u64,
    /// Number of times in each bucket.
    pub buckets: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { sum_us: 0, buckets: [0; BUCKETS] }
    }
}

/// The bucket of a time.
#[inline]
pub const fn bucket_of(us: u64) -> usize {
    let below = us.saturating_sub(1);
    if below < PARTS as u64 {
        return below as usize;
    }
    let doubling = 63 - below.leading_zeros() as usize;
    if doubling >= DOUBLINGS {
        return BUCKETS - 1;
    }
    (doubling - 1) * PARTS + (below >> (doubling - 2)) as usize % PARTS
}

/// The longest time of a bucket, in microseconds. None for the last bucket.
pub(crate) const fn upper_us(bucket: usize) -> Option<u64> {
    if bucket >= BUCKETS - 1 {
        return None;
    }
    if bucket < PARTS {
        return Some(bucket as u64 + 1);
    }
    let (doubling, part) = (bucket / PARTS + 1, bucket % PARTS);
    Some(((PARTS + part + 1) as u64) << (doubling - 2))
}

/// The number of times up to a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubling {
    /// The bound, a power of two.
    pub bound_us: u64,
    /// The number of times up to it.
    pub count: u64,
}

impl Histogram {
    /// Counts a time `times` times.
    #[cfg(any(test, feature = "testing"))]
    pub fn add(&mut self, us: u64, times: u64) {
        self.sum_us = self.sum_us.wrapping_add(us.wrapping_mul(times));
        self.buckets[bucket_of(us)] += times;
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The number of times up to 1, 2, 4 … microseconds.
    pub fn doublings(&self) -> impl Iterator<Item = Doubling> {
        let (mut bucket, mut so_far) = (0, 0);
        (0..=DOUBLINGS).map(move |doubling| {
            let bound_us = 1 << doubling;
            while upper_us(bucket).is_some_and(|upper_us| upper_us <= bound_us) {
                so_far += self.buckets[bucket];
                bucket += 1;
            }
            Doubling { bound_us, count: so_far }
        })
    }

    /// The time that this many thousandths of all times did not exceed, in microseconds. None if
    /// nothing was counted, or if the time is above the last bound.
    pub fn quantile_us(&self, thousandths: u64) -> Option<u64> {
        let all = u128::from(self.count());
        let wanted = (all * u128::from(thousandths)).div_ceil(1000).max(1);
        let mut so_far = 0;
        let reached = |counted: &u64| {
            so_far += u128::from(*counted);
            so_far >= wanted
        };
        upper_us(self.buckets.iter().position(reached)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_within_the_bounds_of_its_bucket() {
        let mut lower_us = 0;
        for bucket in 0..BUCKETS - 1 {
            let upper_us = upper_us(bucket).unwrap();
            assert!(upper_us > lower_us, "{bucket}");
            assert_eq!(bucket_of(lower_us + 1), bucket);
            assert_eq!(bucket_of(upper_us), bucket);
            let width_us = upper_us - lower_us;
            assert!(width_us == 1 || width_us * 4 <= lower_us, "{lower_us}..={upper_us}");
            lower_us = upper_us;
        }
        assert_eq!(lower_us, 1 << DOUBLINGS);
        assert_eq!(bucket_of(lower_us + 1), BUCKETS - 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket_of(0), 0);
        assert_eq!((upper_us(BUCKETS - 1), upper_us(usize::MAX)), (None, None));
    }

    #[test]
    fn doublings_are_cumulative_and_exact_at_their_bounds() {
        let mut histogram = Histogram::default();
        for us in [0, 1, 2, 3, 4, 5, 8, 9, 1 << 26, (1 << 26) + 1] {
            histogram.add(us, 1);
        }
        let pair = |doubling: Doubling| (doubling.bound_us, doubling.count);
        let counts: Vec<(u64, u64)> = histogram.doublings().map(pair).collect();
        assert_eq!(counts[..5], [(1, 2), (2, 3), (4, 5), (8, 7), (16, 8)]);
        assert_eq!(counts.last(), Some(&(1 << 26, 9)));
        assert_eq!(counts.len(), DOUBLINGS + 1);
        assert_eq!(histogram.count(), 10);
        assert_eq!(histogram.sum_us, 32 + (2 << 26) + 1);
    }

    #[test]
    fn quantiles_are_upper_bounds_of_their_buckets() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_us(500), None);
        histogram.add(3, 90);
        histogram.add(1000, 9);
        histogram.add(1 << 40, 1);
        assert_eq!(histogram.quantile_us(0), Some(3));
        assert_eq!(histogram.quantile_us(900), Some(3));
        assert_eq!(histogram.quantile_us(901), Some(1024));
        assert_eq!(histogram.quantile_us(990), Some(1024));
        assert_eq!(histogram.quantile_us(1000), None, "beyond all bounds");
    }
}
