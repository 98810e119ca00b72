//! The word of a ban in a key's node: its end, and after how many lifts of its biz it was started.
//!
//! Invariant: a ban that was started before the last lift is none. So a lift needs no look at the
//! nodes. The count is not used again: a biz whose bans were lifted too often must be reset, which
//! voids all its nodes.

/// Bits of the end, in milliseconds since the epoch. They suffice until the year 10889; a longer
/// ban ends then.
const UNTIL_BITS: u32 = 48;
const UNTIL_MAX: u64 = (1 << UNTIL_BITS) - 1;

/// The content of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ban {
    /// Its end, in milliseconds since the epoch. 0: there is none.
    pub until_ms: u64,
    /// How often the bans of the biz had been lifted when it was started.
    pub lifts: u16,
}

impl Ban {
    /// The content of a word.
    #[inline]
    pub const fn of(word: u64) -> Ban {
        Ban { until_ms: word & UNTIL_MAX, lifts: (word >> UNTIL_BITS) as u16 }
    }

    /// The word. No ban is 0.
    #[inline]
    pub const fn word(self) -> u64 {
        let Ban { until_ms, lifts } = self;
        match until_ms {
            0 => 0,
            1..=UNTIL_MAX => until_ms | (lifts as u64) << UNTIL_BITS,
            _ => UNTIL_MAX | (lifts as u64) << UNTIL_BITS,
        }
    }

    /// The end of a ban, unless the bans of the biz have been lifted since. 0: there is none.
    #[inline]
    pub const fn until(self, lifts: u16) -> u64 {
        if self.lifts == lifts { self.until_ms } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_both_and_before_the_first_lift_it_is_the_end_alone() {
        for (until_ms, lifts) in [(1, 0), (1_800_000_000_000, 1), (UNTIL_MAX, u16::MAX)] {
            let ban = Ban { until_ms, lifts };
            assert_eq!(Ban::of(ban.word()), ban);
            assert_eq!(ban.until(lifts), until_ms);
            assert_eq!(ban.until(lifts.wrapping_add(1)), 0, "lifted");
        }
        assert_eq!(Ban { until_ms: 1_800_000_000_000, lifts: 0 }.word(), 1_800_000_000_000);
        assert_eq!(Ban { until_ms: 0, lifts: 7 }.word(), 0);
        assert_eq!(Ban::of(Ban { until_ms: u64::MAX, lifts: 3 }.word()).until(3), UNTIL_MAX);
    }
}
