//! The keys of the items: drawn by Zipf's law over numbered keys, or one after the other.
//!
//! Invariant: the key at a place depends only on seed, place and distribution, never on threads,
//! connections or time. So two runs with the same number of requests charge each key equally often.

use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::arguments::{KeyType, Order};

/// The keys of a run.
#[derive(Debug, Clone)]
pub struct Keys(Places);

/// The rule that gives each place its key.
#[derive(Debug, Clone)]
enum Places {
    Drawn { seed: u64, zipf: Zipf },
    InTurn { first: u32, count: u32 },
}

impl Keys {
    /// `count` keys by Zipf's law, with an exponent of at least 0.
    pub fn zipf(seed: u64, count: u32, exponent: f64) -> Keys {
        Keys::new(seed, count, Order::Zipf(exponent))
    }

    /// `count` keys in this order; an exponent of Zipf is at least 0.
    pub(crate) fn new(seed: u64, count: u32, order: Order) -> Keys {
        Keys(match order {
            Order::Zipf(exponent) => Places::Drawn { seed, zipf: Zipf::new(count, exponent) },
            Order::InTurn(first) => Places::InTurn { first, count },
        })
    }

    /// The key at a place, counted from 0. Of drawn keys, key 0 is the most frequent one.
    pub fn at(&self, place: u64) -> u32 {
        match &self.0 {
            Places::Drawn { seed, zipf } => {
                let word = mix(seed.wrapping_add(place.wrapping_mul(STEP)));
                zipf.draw(&mut Random(word))
            }
            Places::InTurn { first, count } => {
                (place.wrapping_add(u64::from(*first)) % u64::from(*count)) as u32
            }
        }
    }
}

/// Appends a key as it is sent.
pub fn write_key(out: &mut String, key_type: KeyType, key: u32) {
    let mut digits = itoa::Buffer::new();
    match key_type {
        KeyType::String => {
            out.push('k');
            out.push_str(digits.format(key));
        }
        KeyType::Integer => out.push_str(digits.format(key)),
        KeyType::Ip => {
            let address = Ipv4Addr::from_bits(0x0a00_0000 | key);
            // Writing to a String does not fail.
            let _ = write!(out, "{address}");
        }
    }
}

/// Draws numbers from 0. Number k has a probability proportional to 1 / (k + 1)^exponent.
///
/// Rejection-inversion: W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 6 (1996). The continuous hat x^-s of the density is
/// inverted. A step of the hat that surely lies under the histogram is accepted at once.
#[derive(Debug, Clone)]
struct Zipf {
    keys: f64,
    exponent: f64,
    /// The integral of the hat at the start of the first step and at the end of the last step.
    from: f64,
    to: f64,
    /// The distance from a step's middle within which nothing is rejected.
    sure: f64,
}

impl Zipf {
    fn new(keys: u32, exponent: f64) -> Zipf {
        let keys = f64::from(keys);
        let mut zipf = Zipf { keys, exponent, from: 0.0, to: 0.0, sure: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(keys + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.hat(2.0));
        zipf
    }

    fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let area = self.to + random.unit() * (self.from - self.to);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.keys);
            let accepted =
                rank - x <= self.sure || area >= self.integral(rank + 0.5) - self.hat(rank);
            if accepted {
                return rank as u32 - 1;
            }
        }
    }

    fn hat(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// The integral of the hat from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.exponent) * log;
        // (x^(1-s) - 1) / (1-s). Its limit at s = 1 is the logarithm.
        if t.abs() < TINY { log * (1.0 + t / 2.0) } else { t.exp_m1() / t * log }
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding must not leave the logarithm's domain.
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        let log = if t.abs() < TINY { area * (1.0 - t / 2.0) } else { t.ln_1p() / t * area };
        log.exp()
    }
}

/// Below this value, the first two terms of the quotient's series are exact to the last bit.
const TINY: f64 = 1e-8;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number from 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A word of which each bit depends on all bits of `word`.
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    fn counts(keys: u32, exponent: f64) -> Vec<u64> {
        let drawn = Keys::new(7, keys, Order::Zipf(exponent));
        let mut counts = vec![0; keys as usize];
        for place in 0..DRAWS {
            counts[drawn.at(place) as usize] += 1;
        }
        counts
    }

    /// Checks that Pearson's statistic against the law is near its mean, which is the number of
    /// degrees of freedom.
    #[track_caller]
    fn assert_zipf(keys: u32, exponent: f64) {
        let weights: Vec<f64> = (1..=keys).map(|k| f64::from(k).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        let terms = counts(keys, exponent).into_iter().zip(&weights).map(|(found, weight)| {
            let expected = DRAWS as f64 * weight / total;
            (found as f64 - expected).powi(2) / expected
        });
        let (statistic, freedom) = (terms.sum::<f64>(), f64::from(keys - 1));
        let deviation = (2.0 * freedom).sqrt();
        assert!((statistic - freedom).abs() < 5.0 * deviation, "{statistic} of {freedom}");
    }

    #[test]
    fn keys_follow_the_law() {
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.000_000_001, 1.2, 2.0] {
            assert_zipf(50, exponent);
        }
        assert_zipf(1000, 0.99);
    }

    #[test]
    fn extremes_stay_within_bounds() {
        assert!(counts(1, 0.99).iter().all(|&count| count == DRAWS));
        assert!(counts(2, 10.0)[0] > DRAWS * 99 / 100);
        let drawn = Keys::new(0, u32::MAX, Order::Zipf(0.0));
        let mean = (0..DRAWS).map(|place| f64::from(drawn.at(place))).sum::<f64>() / DRAWS as f64;
        assert!((0.49..0.51).contains(&(mean / f64::from(u32::MAX))), "{mean}");
    }

    #[test]
    fn a_place_has_one_key_and_seeds_differ() {
        let first = |seed| {
            let drawn = Keys::new(seed, 1000, Order::Zipf(0.99));
            (0..64).map(|place| drawn.at(place)).collect::<Vec<_>>()
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn keys_in_turn_come_around() {
        let keys = Keys::new(7, 5, Order::InTurn(3));
        let used: Vec<u32> = (0..7).map(|place| keys.at(place)).collect();
        assert_eq!(used, [3, 4, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn keys_as_sent() {
        let of = |key_type, key| {
            let mut out = String::new();
            write_key(&mut out, key_type, key);
            out
        };
        assert_eq!(of(KeyType::String, 0), "k0");
        assert_eq!(of(KeyType::Integer, 4_294_967_294), "4294967294");
        assert_eq!(of(KeyType::Ip, 258), "10.0.1.2");
    }
}
