//! Numbers by Zipf's law: few are drawn often, and many seldom.

/// The sums of the numbers' shares, from the first number on.
pub struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    /// The numbers below `count`. The n-th has a share of n^-`exponent`.
    pub fn new(count: usize, exponent: f64) -> Zipf {
        let shares = (1..=count).map(|nth| (nth as f64).powf(-exponent));
        let sums = shares.scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        });
        Zipf { sums: sums.collect() }
    }

    /// The number that a random word draws.
    pub fn draw(&self, word: u64) -> usize {
        let unit = (word >> 11) as f64 / (1_u64 << 53) as f64;
        let last = self.sums.len() - 1;
        let drawn = unit * self.sums[last];
        self.sums.partition_point(|sum| *sum <= drawn).min(last)
    }
}

/// The n-th of a sequence of evenly spread words, the same in each run.
pub const fn word(nth: u64) -> u64 {
    nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
