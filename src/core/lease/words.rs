//! The lease of one limit in a node, and its words.
//!
//! Invariant: any words decode, and what [`Lease::encode`] has written decodes to the same lease.
//! All words zero is the lease of a node that knows nothing.
//!
//! ```text
//! word  0  incarnation: whose lease this is
//!       1  seq of the last binding; 0: none
//!       2  window's start by the ledger's clock; 0: not known
//!       3  allowance: the host may spend up to this in the window
//!       4  base: how many of the uses are of earlier windows
//!       5  end of the lease
//!       6  time of the first sending under this seq
//!       7  when to ask, or to repeat the message
//!       8  bit 0 in flight, bit 1 exhausted; bits 8..16 tries; bits 32..64 uses held
//!       9  time of the last use
//!      10  uses beyond any lease since the last binding, signed
//!      11  the same, in the message that is in flight
//!      12  pool as last heard, signed
//!      13  unspent at other hosts, as last heard
//!      14  uses are held until then
//!      15  time of the last answer
//!      16  when the uses count no more for certain
//! ```
//! All times are milliseconds of CLOCK_BOOTTIME, except for the window's start.

use super::Incarnation;

/// Words of a lease in a node.
pub const LEASE_WORDS: usize = 17;

const IN_FLIGHT: u64 = 1;
const EXHAUSTED: u64 = 2;
const TRIES_SHIFT: u32 = 8;
const HELD_SHIFT: u32 = 32;

/// What a host knows of its lease of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lease {
    /// The host that has bound itself; another one's lease is void.
    pub incarnation: Incarnation,
    /// The number of the last binding, of the one counter of the host; 0: none.
    pub seq: u64,
    /// The window's start by the ledger's clock; 0: not known.
    pub window: u64,
    /// The host may spend up to this in the window.
    pub allowance: u64,
    /// So many of the uses are of earlier windows.
    pub base: u64,
    /// When the lease ends; `u64::MAX`: never.
    pub end_ms: u64,
    /// When the last binding was first sent.
    pub sent_ms: u64,
    /// When the host may ask again, or must repeat its message.
    pub again_ms: u64,
    /// A message has been sent and not been answered.
    pub in_flight: bool,
    /// The pool is empty and nobody else holds a use.
    pub is_exhausted: bool,
    /// Messages since a need was last granted.
    pub tries: u8,
    /// When the last use was.
    pub used_ms: u64,
    /// Uses beyond any lease since the last binding; negative: given back.
    pub extra: i64,
    /// Uses beyond any lease in the message that is in flight.
    pub sent_extra: i64,
    /// The pool as the ledger last said.
    pub pool: i64,
    /// Unspent uses at other hosts as the ledger last said.
    pub others: u64,
    /// Uses that are for parked requests.
    pub held: u32,
    /// Until when they are.
    pub held_until_ms: u64,
    /// When the ledger last answered.
    pub heard_ms: u64,
    /// When the ledger's window is over for certain, and the uses in it count no more;
    /// `u64::MAX`: never.
    pub gone_ms: u64,
}

impl Lease {
    /// Reads the words of a node.
    pub fn decode(words: &[u64; LEASE_WORDS]) -> Lease {
        let [incarnation, seq, window, allowance, base, end_ms, sent_ms, again_ms, flags, ..] =
            *words;
        let [.., used_ms, extra, sent_extra, pool, others, held_until_ms, heard_ms, gone_ms] =
            *words;
        Lease {
            incarnation,
            seq,
            window,
            allowance,
            base,
            end_ms,
            sent_ms,
            again_ms,
            in_flight: flags & IN_FLIGHT != 0,
            is_exhausted: flags & EXHAUSTED != 0,
            tries: (flags >> TRIES_SHIFT) as u8,
            used_ms,
            extra: extra as i64,
            sent_extra: sent_extra as i64,
            pool: pool as i64,
            others,
            held: (flags >> HELD_SHIFT) as u32,
            held_until_ms,
            heard_ms,
            gone_ms,
        }
    }

    /// The words for a node.
    pub fn encode(&self) -> [u64; LEASE_WORDS] {
        let flags = if self.in_flight { IN_FLIGHT } else { 0 }
            | if self.is_exhausted { EXHAUSTED } else { 0 }
            | u64::from(self.tries) << TRIES_SHIFT
            | u64::from(self.held) << HELD_SHIFT;
        [
            self.incarnation,
            self.seq,
            self.window,
            self.allowance,
            self.base,
            self.end_ms,
            self.sent_ms,
            self.again_ms,
            flags,
            self.used_ms,
            self.extra as u64,
            self.sent_extra as u64,
            self.pool as u64,
            self.others,
            self.held_until_ms,
            self.heard_ms,
            self.gone_ms,
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same(words: [u64; LEASE_WORDS]) {
            let lease = Lease::decode(&words);
            let again = lease.encode();
            prop_assert_eq!(Lease::decode(&again), lease);
            for (nth, word) in words.iter().enumerate().filter(|(nth, _)| *nth != 8) {
                prop_assert_eq!(again[nth], *word);
            }
            prop_assert_eq!(again[8], words[8] & 0xffff_ffff_0000_ff03);
        }
    }

    #[test]
    fn words_of_zero_know_nothing() {
        assert_eq!(Lease::decode(&[0; LEASE_WORDS]), Lease::default());
        assert_eq!(Lease::default().encode(), [0; LEASE_WORDS]);
    }
}
