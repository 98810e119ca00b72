//! The word of a ban in a key's node: its end, the limit that started it, and the biz's count of
//! lifts when it started.
//!
//! Invariant: a ban that started before the last lift is void, so a lift touches no node. The count
//! never repeats: a biz with too many lifts must be reset, which voids all its nodes. A word
//! without a limit comes from an earlier version, from another machine, or from a limit with a
//! number above 15.

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
    /// Its end, in milliseconds since the epoch. 0: no ban.
    pub until_ms: u64,
    /// Index, from 1, of the limit that started it. 0: it is not known.
    pub limit: u16,
    /// The biz's count of lifts when the ban started.
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

    /// The word. It is 0 if there is no ban.
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

    /// The end of the ban. 0 if there is no ban, or if the biz's bans were lifted since it started.
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
