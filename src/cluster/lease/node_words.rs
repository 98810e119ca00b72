//! The words of a node for one leased limit: the lease, and the count of its policy.
//!
//! Invariant: any words decode. Words that [`Holding::encode`] has written decode to the same
//! holding if its values fit their bits. A value that does not fit is stored as the nearest value:
//! then the host may spend too few uses, never too many. Words of zero are a holding that knows
//! nothing.
//!
//! The fields lie behind each other without a gap, across the borders of words:
//!
//! ```text
//! bits  53  uses in the lease's window; a token bucket: of all time; a sliding limit: 0
//!        1  a message is in flight
//!        1  the pool is exhausted
//!        4  tries
//!       40  time of the last use
//!       64  incarnation: the host whose lease this is
//!       53  allowance: the host may spend up to this in the window; while the window is not known:
//!           the first seq without an answer
//!       40  end of the lease
//!       42  window's start by the ledger's clock; 0: not known
//!       51  uses that the host does not have, by the last answer: the pool, and unspent uses of
//!           other hosts (of a limit that refuses nothing: those of 2^50 that no host has used)
//!       48  uses beyond any lease since the last binding, signed
//!       48  the same, in the message that is in flight
//!       32  uses reserved for parked requests
//!       40  end of the reservation
//!       40  time of the last answer
//!       64  seq of the last binding; 0: none
//!       40  time of the first sending under this seq
//!       40  when to ask, or to repeat the message
//!       40  when the uses certainly count no more
//!       40  end of the host's own window, for uses without a lease
//!       51  uses in that window
//!       63  of a sliding counter: uses in the previous window; of a sliding limit: uses that the
//!           ledger has had taken out of the host's log
//!        1  uses were returned while none were unspent
//! ```
//! All times are milliseconds of CLOCK_BOOTTIME, except for the window's start. All bits set:
//! never. The fields that a hit changes come first, in the cache line of the key.

use super::{Holding, Incarnation, Lease};

/// Words of a node for one leased limit.
pub const HOLDING_WORDS: usize = 14;

/// The words as they are stored.
pub type HoldingWords = [u64; HOLDING_WORDS];

/// Some bits of the words.
#[derive(Clone, Copy)]
struct Field {
    at: usize,
    bits: usize,
}

impl Field {
    const fn first(bits: usize) -> Field {
        Field { at: 0, bits }
    }

    /// The field behind this one.
    const fn next(self, bits: usize) -> Field {
        Field { at: self.at + self.bits, bits }
    }

    /// The largest value.
    const fn largest(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    #[inline(always)]
    fn get(self, words: &HoldingWords) -> u64 {
        let (word, shift) = (self.at / 64, self.at % 64);
        let mut value = words[word] >> shift;
        if shift + self.bits > 64 {
            value |= words[word + 1] << (64 - shift);
        }
        value & self.largest()
    }

    /// Stores a value, clamped to the largest one.
    #[inline(always)]
    fn put(self, words: &mut HoldingWords, value: u64) {
        let (word, shift, mask) = (self.at / 64, self.at % 64, self.largest());
        let value = if value > mask { mask } else { value };
        words[word] = words[word] & !(mask << shift) | value << shift;
        if shift + self.bits > 64 {
            let rest = 64 - shift;
            words[word + 1] = words[word + 1] & !(mask >> rest) | value >> rest;
        }
    }

    /// A time; the largest value is `u64::MAX`: never.
    #[inline(always)]
    fn time(self, words: &HoldingWords) -> u64 {
        let value = self.get(words);
        if value == self.largest() { u64::MAX } else { value }
    }

    #[inline(always)]
    fn flag(self, words: &HoldingWords) -> bool {
        self.get(words) != 0
    }

    #[inline(always)]
    fn signed(self, words: &HoldingWords) -> i64 {
        let unused = 64 - self.bits;
        (self.get(words) << unused) as i64 >> unused
    }

    #[inline(always)]
    fn put_signed(self, words: &mut HoldingWords, value: i64) {
        let most = (self.largest() >> 1) as i64;
        self.put(words, value.clamp(-most - 1, most) as u64 & self.largest());
    }
}

/// The fields in the order of their bits, each behind the one before: its bits, how they are read
/// and stored, and the part of the lease that they hold.
macro_rules! lease_fields {
    ($($field:ident behind $before:ident: $bits:literal $read:ident $put:ident $part:ident,)*) => {
        $(const $field: Field = $before.next($bits);)*

        #[inline(always)]
        fn decode_lease(words: &HoldingWords) -> Lease {
            Lease { $($part: $field.$read(words) as _,)* unanswered_since: 0, is_unproven: false }
        }

        fn encode_lease(lease: &Lease, words: &mut HoldingWords) {
            $($field.$put(words, lease.$part.into());)*
        }
    };
}

const USED: Field = Field::first(53);

lease_fields! {
    IN_FLIGHT behind USED: 1 flag put in_flight,
    EXHAUSTED behind IN_FLIGHT: 1 flag put is_exhausted,
    TRIES behind EXHAUSTED: 4 get put tries,
    USED_MS behind TRIES: 40 time put used_ms,
    INCARNATION behind USED_MS: 64 get put incarnation,
    ALLOWANCE behind INCARNATION: 53 get put allowance,
    END_MS behind ALLOWANCE: 40 time put end_ms,
    WINDOW behind END_MS: 42 get put window,
    OBTAINABLE behind WINDOW: 51 get put obtainable,
    EXTRA behind OBTAINABLE: 48 signed put_signed extra,
    SENT_EXTRA behind EXTRA: 48 signed put_signed sent_extra,
    RESERVED behind SENT_EXTRA: 32 get put reserved,
    RESERVED_UNTIL_MS behind RESERVED: 40 time put reserved_until_ms,
    ANSWERED_MS behind RESERVED_UNTIL_MS: 40 time put answered_ms,
    SEQ behind ANSWERED_MS: 64 get put seq,
    SENT_MS behind SEQ: 40 time put sent_ms,
    AGAIN_MS behind SENT_MS: 40 time put again_ms,
    GONE_MS behind AGAIN_MS: 40 time put gone_ms,
    ALONE_END_MS behind GONE_MS: 40 time put alone_end_ms,
    ALONE_USED behind ALONE_END_MS: 51 get put alone_used,
    NOTED behind ALONE_USED: 63 get put noted,
    RETURNED behind NOTED: 1 flag put has_returned,
}

const _: () = assert!(RETURNED.at + RETURNED.bits == HOLDING_WORDS * 64);
// A hit changes only the first two words.
const _: () = assert!(USED_MS.at + USED_MS.bits <= 2 * 64);

impl Holding {
    /// Reads the words of a node.
    #[inline(always)]
    pub fn decode(words: &HoldingWords) -> Holding {
        let mut lease = decode_lease(words);
        if lease.window == 0 {
            (lease.allowance, lease.unanswered_since) = (0, lease.allowance);
        }
        Holding { lease, used: USED.get(words) }
    }

    /// The words for a node.
    pub fn encode(&self) -> HoldingWords {
        let Holding { mut lease, used } = *self;
        let words = &mut [0; HOLDING_WORDS];
        USED.put(words, used);
        if lease.window == 0 {
            lease.allowance = lease.unanswered_since;
        }
        encode_lease(&lease, words);
        *words
    }

    /// Writes what [`Holding::hit`] changes: two words.
    #[inline(always)]
    pub fn encode_hit(&self, words: &mut HoldingWords) {
        USED.put(words, self.used);
        USED_MS.put(words, self.lease.used_ms);
    }

    /// The incarnation of the host whose lease the words hold.
    #[inline(always)]
    pub fn incarnation_in(words: &HoldingWords) -> Incarnation {
        INCARNATION.get(words)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIME: u64 = 1 << 40;

    fn times() -> impl Strategy<Value = u64> {
        prop_oneof![8 => 0..TIME - 1, 1 => Just(u64::MAX)]
    }

    proptest! {
        #[test]
        fn any_words_decode_and_are_encoded_to_the_same(words: HoldingWords) {
            prop_assert_eq!(Holding::decode(&words).encode(), words);
        }

        #[test]
        fn what_fits_its_bits_comes_back(
            ids in (any::<u64>(), any::<u64>(), 0..1u64 << 42),
            counts in (0..1u64 << 53, 0..1u64 << 53, 0..1u64 << 51, 0..1u64 << 51, any::<u32>()),
            extras in (-1i64 << 47..1 << 47, -1i64 << 47..1 << 47),
            marks in (any::<bool>(), any::<bool>(), 0..16u8),
            at in prop::array::uniform8(times()),
        ) {
            let (used, allowance, obtainable, alone_used, reserved) = counts;
            let [end_ms, sent_ms, again_ms, used_ms, ..] = at;
            let [.., reserved_until_ms, answered_ms, gone_ms, alone_end_ms] = at;
            let lease = Lease {
                incarnation: ids.0,
                seq: ids.1,
                window: ids.2,
                allowance: if ids.2 == 0 { 0 } else { allowance },
                unanswered_since: if ids.2 == 0 { allowance } else { 0 },
                end_ms,
                sent_ms,
                again_ms,
                in_flight: marks.0,
                is_exhausted: marks.1,
                tries: marks.2,
                used_ms,
                extra: extras.0,
                sent_extra: extras.1,
                obtainable,
                reserved,
                reserved_until_ms,
                answered_ms,
                gone_ms,
                alone_end_ms,
                alone_used,
                noted: counts.1,
                has_returned: marks.1,
                is_unproven: false,
            };
            let holding = Holding { lease, used };
            let mut words = holding.encode();
            prop_assert_eq!(Holding::decode(&words), holding);
            // Encoding a hit gives the same words as encoding everything.
            let hit = Holding { lease: Lease { used_ms: 77, ..lease }, used: used / 2 };
            hit.encode_hit(&mut words);
            prop_assert_eq!(words, hit.encode());
        }
    }

    #[test]
    fn words_of_zero_know_nothing() {
        assert_eq!(Holding::decode(&[0; HOLDING_WORDS]), Holding::default());
        assert_eq!(Holding::default().encode(), [0; HOLDING_WORDS]);
    }

    #[test]
    fn what_does_not_fit_is_stored_as_the_nearest_value() {
        let lease = Lease {
            window: 1,
            allowance: u64::MAX,
            end_ms: TIME,
            obtainable: u64::MAX,
            extra: i64::MIN,
            sent_extra: i64::MAX,
            tries: 200,
            alone_used: u64::MAX,
            ..Lease::default()
        };
        let Holding { lease, used } = Holding::decode(&Holding { lease, used: u64::MAX }.encode());
        // Nothing is left to spend.
        assert_eq!((used, lease.allowance), ((1 << 53) - 1, (1 << 53) - 1));
        assert_eq!((lease.obtainable, lease.alone_used), ((1 << 51) - 1, (1 << 51) - 1));
        assert_eq!((lease.extra, lease.sent_extra), (-1 << 47, (1 << 47) - 1));
        assert_eq!((lease.end_ms, lease.tries), (u64::MAX, 15));
    }
}
