//! The word of a ban in a key's node: its end, the limit that started it, and after how many lifts
//! of its biz it was started.
//!
//! Invariant: a ban that was started before the last lift is none. So a lift needs no look at the
//! nodes. The count is not used again: a biz whose bans were lifted too often must be reset, which
//! voids all its nodes. A word without a limit is that of a ban of an earlier version, of another
//! machine, or of a limit with a higher number.

/// Bits of the end, in milliseconds since the epoch. They suffice until the year 2527; a longer
/// ban ends then.
const UNTIL_BITS: u32 = 44;
const UNTIL_MAX: u64 = (1 << UNTIL_BITS) - 1;
/// Bits of the limit.
const LIMIT_BITS: u32 = 4;
const LIMIT_MAX: u16 = (1 << LIMIT_BITS) - 1;

/// The content of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ban {
    /// Its end, in milliseconds since the epoch. 0: there is none.
    pub until_ms: u64,
    /// Index, from 1, of the limit that started it. 0: it is not known.
    pub limit: u16,
    /// How often the bans of the biz had been lifted when it was started.
    pub lifts: u16,
}

impl Ban {
    /// The content of a word.
    #[inline]
    pub const fn of(word: u64) -> Ban {
        Ban {
            until_ms: word & UNTIL_MAX,
            limit: (word >> UNTIL_BITS) as u16 & LIMIT_MAX,
            lifts: (word >> (UNTIL_BITS + LIMIT_BITS)) as u16,
        }
    }

    /// The word. No ban is 0.
    #[inline]
    pub const fn word(self) -> u64 {
        let Ban { until_ms, limit, lifts } = self;
        let limit = if limit > LIMIT_MAX { 0 } else { limit };
        let rest = (limit as u64 | (lifts as u64) << LIMIT_BITS) << UNTIL_BITS;
        match until_ms {
            0 => 0,
            1..=UNTIL_MAX => until_ms | rest,
            _ => UNTIL_MAX | rest,
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
    fn a_word_keeps_all_of_it_and_before_the_first_lift_an_unknown_limit_leaves_the_end_alone() {
        for (until_ms, limit, lifts) in
            [(1, 0, 0), (1_800_000_000_000, 1, 1), (UNTIL_MAX, LIMIT_MAX, u16::MAX)]
        {
            let ban = Ban { until_ms, limit, lifts };
            assert_eq!(Ban::of(ban.word()), ban);
            assert_eq!(ban.until(lifts), until_ms);
            assert_eq!(ban.until(lifts.wrapping_add(1)), 0, "lifted");
        }
        let of = |until_ms, limit, lifts| Ban { until_ms, limit, lifts }.word();
        assert_eq!(of(1_800_000_000_000, 0, 0), 1_800_000_000_000);
        assert_eq!(of(1_800_000_000_000, LIMIT_MAX + 1, 0), 1_800_000_000_000, "not known");
        assert_eq!(of(0, 3, 7), 0);
        assert_eq!(Ban::of(of(u64::MAX, 0, 3)).until(3), UNTIL_MAX);
    }
}
