//! The trait that each policy implements, in the file of its name.
//!
//! Invariant: `state` is always exactly the policy's own words of a node, or for `sliding` those of
//! the ring that it shares. A policy keeps state nowhere else.

use super::history_ring::Remembered;
use super::state_word::WordNames;
use super::{Figures, Terms};

/// A policy, with its prepared settings: pure arithmetic on its own state words. A state whose
/// words are all zero is fresh.
///
/// A method without a default is a question that each new policy has to answer. The defaults are
/// those of a policy without a history.
pub trait Policy {
    /// The windows that the limit remembers, and their place in the state. `None` if it keeps no
    /// history.
    #[inline]
    fn remembered(&self) -> Option<&Remembered> {
        None
    }

    /// Identifies the meaning of the state's words: the number of the kind, which is part of the
    /// file format, and its interval or unit. A new policy takes an unused number: numbers up to 16
    /// are taken, and numbers from 32 on belong to limits that machines share.
    fn shape(&self) -> [u64; 2];

    /// The names and units of the limit's own words, without those of a ring or a history.
    fn words(&self) -> WordNames;

    /// What sets it apart from a plain maximum.
    fn properties(&self) -> Properties;

    /// Brings the state to `now`. Every other method that takes a state expects it rolled at the
    /// same `now`, except `end_ms`.
    fn roll(&self, state: &mut [u64], now: u64, terms: &Terms);

    /// Whether `count` is admitted.
    fn admits(&self, state: &[u64], now: u64, count: u32, terms: &Terms) -> bool;

    /// Charges `count`, admitted or not. A negative count gives uses back.
    fn charge(&self, state: &mut [u64], now: u64, count: i32, terms: &Terms);

    /// The figures of the limit.
    fn figures(&self, state: &[u64], now: u64, terms: &Terms) -> Figures;

    /// Only `remaining` of the figures.
    #[inline]
    fn remaining(&self, state: &[u64], now: u64, terms: &Terms) -> u64 {
        self.figures(state, now, terms).remaining
    }

    /// Milliseconds until a refused `count` would be admitted, if no other use came. None: never.
    fn retry_ms(&self, state: &[u64], now: u64, count: u32, terms: &Terms) -> Option<u64>;

    /// Length of the limit's window, if it has one.
    fn window_ms(&self, state: &[u64], terms: &Terms) -> Option<u64>;

    /// The uses that the limit grants in a window, including those that it lends, and the length of
    /// the window. `None` if it only counts.
    fn quota(&self, terms: &Terms) -> Option<(u64, Option<u64>)>;

    /// Nanoseconds until the state is fresh, for a policy that stores them; otherwise 0.
    #[inline]
    fn level_ns(&self, _state: &[u64]) -> u64 {
        0
    }

    /// An upper bound of the milliseconds from the last use until the state is fresh. None: there
    /// is no bound.
    fn life_ms(&self) -> Option<u64>;

    /// The time from which an unrolled state is fresh, unless it is used again. `None` if only
    /// `life_ms` bounds it.
    fn end_ms(&self, _state: &[u64], _last_use_ms: u64) -> Option<u64> {
        None
    }

    /// Whether uses charged at this time can be given back: the rolled state's window has not
    /// turned since.
    fn counts_since(&self, state: &[u64], made_ms: u64) -> bool;

    /// Whether the state is fresh.
    fn is_fresh(&self, state: &[u64]) -> bool;

    /// Whether the loss of a state in use cannot be repaired.
    fn is_kept(&self, state: &[u64]) -> bool;

    /// Forgets the uses of the current window, but not the history. The caller rolls the state
    /// again. Returns false and changes nothing if the state is not the limit's alone.
    fn clear(&self, state: &mut [u64]) -> bool;
}

/// The answers of a policy whose state is a few words of its own, without a history.
macro_rules! own_words {
    () => {
        #[inline]
        fn is_fresh(&self, state: &[u64]) -> bool {
            state.iter().all(|&word| word == 0)
        }

        fn clear(&self, state: &mut [u64]) -> bool {
            state.fill(0);
            true
        }
    };
}
pub(super) use own_words;

/// What sets a policy apart from a plain maximum.
#[derive(Debug, Clone, Copy)]
pub struct Properties {
    /// Its uses are in the ring of its scope. `Rules` rolls and charges that ring.
    pub is_logged: bool,
    /// It counts distinct members.
    pub notes_members: bool,
    /// It has no maximum.
    pub only_counts: bool,
    /// It lends uses beyond its maximum.
    pub lends: bool,
    /// The standard error of `used`, in thousandths. `None` if `used` is exact.
    pub error_thousandths: Option<u16>,
}

impl Properties {
    /// Those of a plain maximum.
    pub const PLAIN: Properties = Properties {
        is_logged: false,
        notes_members: false,
        only_counts: false,
        lends: false,
        error_thousandths: None,
    };
}
