//! The head of each part of a node whose length map.xml chooses: a history, the remembered ids, the
//! holds.
//!
//! ```text
//! word 0    bit 63: 1; 48..63 which part it is; 32..48 capacity in entries; 16..32 length: how
//!           many entries there are; 0..16 head: the slot of the newest entry of a ring
//! ```
//! Invariant: word 0 is 0 or describes the words that follow. So a node itself tells which parts it
//! has ([`parts`]), and a changed length keeps every entry that fits both. An invalid word 0 is
//! read as 0.

use frs_conf::{HISTORY_HEADER_BYTES, HISTORY_WINDOW_BYTES, HOLD_BYTES, ONCE_BYTES};
use frs_conf::{MAX_HISTORY, MAX_HOLDS, MAX_ONCE, TABLE_HEADER_BYTES};

/// Distinguishes word 0 from the first word of a ring of uses, which is a time.
const MARK: u64 = 1 << 63;

/// The number of the remembered ids. Histories have the numbers of their limits.
pub(super) const ONCE: u16 = 0x7fff;
/// The number of the holds.
pub(super) const HOLDS: u16 = 0x7ffe;

/// Words of a part of this capacity.
pub(super) const fn words_of(position: u16, capacity: usize) -> usize {
    let (header, entry) = match position {
        ONCE => (TABLE_HEADER_BYTES, ONCE_BYTES),
        HOLDS => (TABLE_HEADER_BYTES, HOLD_BYTES),
        _ => (HISTORY_HEADER_BYTES, HISTORY_WINDOW_BYTES),
    };
    (header as usize + capacity * entry as usize).div_ceil(8)
}

const fn most_of(position: u16) -> usize {
    (match position {
        ONCE => MAX_ONCE as u16,
        HOLDS => MAX_HOLDS,
        _ => MAX_HISTORY,
    }) as usize
}

/// Word 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// Which part it is.
    pub position: u16,
    /// Entries that there is room for, at least 1.
    pub capacity: usize,
    /// At most the capacity.
    pub len: usize,
    /// Below the capacity.
    pub head: usize,
}

impl Head {
    /// The head of an empty part.
    pub const fn empty(position: u16, capacity: usize) -> Head {
        Head { position, capacity, len: 0, head: 0 }
    }

    #[inline]
    pub fn of(words: &[u64]) -> Option<Head> {
        let &word = words.first()?;
        let [head, len, capacity] = [0, 16, 32].map(|bit| usize::from((word >> bit) as u16));
        let position = (word >> 48) as u16 & 0x7fff;
        let possible = word & MARK != 0
            && (1..=most_of(position)).contains(&capacity)
            && words_of(position, capacity) <= words.len()
            && head < capacity
            && len <= capacity;
        possible.then_some(Head { position, capacity, len, head })
    }

    pub const fn word(self) -> u64 {
        let Head { position, capacity, len, head } = self;
        MARK | (position as u64) << 48 | (capacity as u64) << 32 | (len as u64) << 16 | head as u64
    }

    /// Whether words have the same part with the same capacity.
    #[inline]
    pub fn is_laid_out(self, words: &[u64]) -> bool {
        let wanted = Head { len: 0, head: 0, ..self }.word();
        words.first().is_some_and(|&word| word & !0xffff_ffff == wanted)
    }

    /// Writes an empty part.
    #[cold]
    pub fn lay_out(self, words: &mut [u64]) {
        words.fill(0);
        if let Some(first) = words.first_mut() {
            *first = Head { len: 0, head: 0, ..self }.word();
        }
    }
}

/// A part of a node, as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part<'w> {
    /// Which part it is.
    pub position: u16,
    /// Its words.
    pub words: &'w [u64],
}

/// The parts at the beginning of these words, whatever settings they were written under.
pub(super) fn parts(mut words: &[u64]) -> impl Iterator<Item = Part<'_>> {
    std::iter::from_fn(move || {
        let Head { position, capacity, .. } = Head::of(words)?;
        let (own, rest) = words.split_at_checked(words_of(position, capacity))?;
        words = rest;
        Some(Part { position, words: own })
    })
}
