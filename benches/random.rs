//! Random numbers of the benches: the order of keys needs nothing better than xorshift64*
//! (Marsaglia 2003, Vigna 2016), and costs nothing.

/// The state, never 0.
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
