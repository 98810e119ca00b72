//! Numbers by Zipf's law: few are drawn often, and many seldom.

/// The shares of the numbers below a bound, added up from the first one on.
pub struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    /// Of the numbers below `count`; the n-th has a share of n^-`exponent`.
    pub fn new(count: usize, exponent: f64) -> Zipf {
        let shares = (1..=count).map(|nth| (nth as f64).powf(-exponent));
        let sums = shares.scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        });
        Zipf { sums: sums.collect() }
    }

    /// The number of a random word.
    pub fn draw(&self, word: u64) -> usize {
        let unit = (word >> 11) as f64 / (1_u64 << 53) as f64;
        let last = self.sums.len() - 1;
        let drawn = unit * self.sums[last];
        self.sums.partition_point(|sum| *sum <= drawn).min(last)
    }
}

/// Words that look like chance, the same in each run: the n-th one, evenly spread.
pub const fn word(nth: u64) -> u64 {
    nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
