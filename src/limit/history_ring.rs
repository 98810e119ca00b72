//! The history of a limit: a ring of the totals of its ended windows.
//!
//! ```text
//! word 0    bit 63: 1; 48..63 number of the limit in its scope; 32..48 capacity in windows;
//!           16..32 length: how many windows are known; 0..16 head: the slot of the newest
//! word 1    uses of the current window that were made before it began: debt of earlier windows
//! word 2..  the slots: a total each, u32, two in a word, low half first; the older ones follow the
//!           head
//! ```
//! Invariant: word 0 is 0 or describes the words that follow. So a node itself tells which of its
//! limits keep how many windows ([`parts`]), and a changed `history` keeps every window that fits
//! both sizes. An invalid word 0 is read as 0: no window is known.
//!
//! The end of a window changes word 0 and one slot. A transaction logs each changed word.

use std::ops::Range;

use frs_conf::{HISTORY_HEADER_BYTES, HISTORY_WINDOW_BYTES, MAX_HISTORY};

use super::ring::{get, set};

/// Distinguishes word 0 from the first word of a ring of uses, which is a time.
const MARK: u64 = 1 << 63;

/// Words before the slots.
const HEADER: usize = HISTORY_HEADER_BYTES as usize / 8;

/// The settings of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Past {
    /// The most windows that it holds, 1..=366.
    pub windows: u16,
    /// The number of its limit among those of its scope, so that changes to the limits of the other
    /// scope do not change it.
    pub position: u16,
}

impl Past {
    /// Words of a history.
    pub const fn words(self) -> usize {
        words(self.windows as usize)
    }

    /// Writes the layout into words without it, or with another one; then no window is known. All
    /// other functions take words with the layout.
    #[inline]
    pub fn lay_out(self, words: &mut [u64]) {
        if !self.is_laid_out(words) {
            self.clear(words);
        }
    }

    /// Whether words have the layout of these settings.
    #[inline]
    pub fn is_laid_out(self, words: &[u64]) -> bool {
        let wanted = Layout { len: 0, head: 0, ..self.layout() }.word();
        words.first().is_some_and(|&word| word & !0xffff_ffff == wanted)
    }

    const fn layout(self) -> Layout {
        let Past { windows, position } = self;
        Layout { position, capacity: windows as usize, len: 0, head: 0 }
    }

    /// Forgets all windows and the carried debt.
    #[cold]
    pub fn clear(self, words: &mut [u64]) {
        words.fill(0);
        if let Some(first) = words.first_mut() {
            *first = self.layout().word();
        }
    }

    /// Ends `turns` windows, at least 1: the current one with this many uses, and the ones after it
    /// without uses. Sets the carried debt to 0.
    #[cold]
    pub fn end_windows(self, words: &mut [u64], uses: u64, turns: u64) {
        let mut layout = Layout::of(words).unwrap_or(self.layout());
        let slots = words.get_mut(HEADER..).unwrap_or_default();
        // Beyond the capacity all windows are empty, so more turns change nothing.
        let turns = turns.min(u64::from(self.windows) + 1);
        for turn in 0..turns {
            let total = if turn == 0 { u32::try_from(uses).unwrap_or(u32::MAX) } else { 0 };
            layout.head = layout.head.checked_sub(1).unwrap_or(layout.capacity - 1);
            layout.len = (layout.len + 1).min(layout.capacity);
            set(slots, layout.head, total);
        }
        if let [first, carried, ..] = words {
            (*first, *carried) = (layout.word(), 0);
        }
    }

    /// Takes over an old history of the same limit. If it does not fit, only its newest windows.
    #[cold]
    pub fn take_over(self, words: &mut [u64], old: &[u64]) {
        self.clear(words);
        let mut layout = self.layout();
        let slots = words.get_mut(HEADER..).unwrap_or_default();
        for (slot, total) in Totals::of(old).take(layout.capacity).enumerate() {
            set(slots, slot, total);
            layout.len = slot + 1;
        }
        if let [first, carried, ..] = words {
            (*first, *carried) = (layout.word(), old.get(1).copied().unwrap_or(0));
        }
    }
}

/// The history of a limit, and its place in the limit's state.
#[derive(Debug, Clone)]
pub struct Remembered {
    pub(super) past: Past,
    /// Words of the limit itself.
    pub(super) own: Range<usize>,
    /// Words of the history.
    pub(super) at: Range<usize>,
}

impl Remembered {
    /// The totals of earlier windows, newest first.
    pub(super) fn totals<'w>(&self, state: &'w [u64]) -> Totals<'w> {
        Totals::of(&state[self.at.clone()])
    }
}

/// Words of a history with this many windows.
const fn words(windows: usize) -> usize {
    HEADER + (windows * HISTORY_WINDOW_BYTES as usize).div_ceil(8)
}

/// Whether no window is known.
#[inline]
pub(super) fn is_empty(words: &[u64]) -> bool {
    Layout::of(words).is_none_or(|layout| layout.len == 0)
}

/// Whether nothing was used in any window that is known.
#[inline]
pub(super) fn is_unused(words: &[u64]) -> bool {
    is_empty(words) || Totals::of(words).all(|total| total == 0)
}

/// The uses of the current window that are debt of earlier windows.
#[inline]
pub(super) fn carried(words: &[u64]) -> u64 {
    words.get(1).copied().unwrap_or(0)
}

/// Sets the carried debt.
#[inline]
pub(super) fn set_carried(words: &mut [u64], uses: u64) {
    if let Some(carried) = words.get_mut(1) {
        *carried = uses;
    }
}

/// The totals that are known, the newest first.
#[derive(Debug, Clone)]
pub(super) struct Totals<'w> {
    slots: &'w [u64],
    layout: Layout,
    next: usize,
}

impl<'w> Totals<'w> {
    pub fn of(words: &'w [u64]) -> Totals<'w> {
        let slots = words.get(HEADER..).unwrap_or_default();
        Totals { slots, layout: Layout::of(words).unwrap_or(Layout::NOTHING), next: 0 }
    }
}

impl Iterator for Totals<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let Layout { capacity, len, head, .. } = self.layout;
        if self.next == len {
            return None;
        }
        let slot = head + self.next;
        self.next += 1;
        Some(get(self.slots, if slot < capacity { slot } else { slot - capacity }))
    }
}

/// One history of a node, as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part<'w> {
    /// The number of its limit in the scope.
    pub position: u16,
    /// Its words.
    pub words: &'w [u64],
}

/// The histories at the beginning of these words, whatever settings they were written under.
pub(super) fn parts(mut words: &[u64]) -> impl Iterator<Item = Part<'_>> {
    std::iter::from_fn(move || {
        let Layout { position, capacity, .. } = Layout::of(words)?;
        let (own, rest) = words.split_at_checked(self::words(capacity))?;
        words = rest;
        Some(Part { position, words: own })
    })
}

/// Word 0.
#[derive(Debug, Clone, Copy)]
struct Layout {
    position: u16,
    /// Windows that there is room for, at least 1.
    capacity: usize,
    /// At most the capacity.
    len: usize,
    /// Below the capacity.
    head: usize,
}

impl Layout {
    const NOTHING: Layout = Layout { position: 0, capacity: 1, len: 0, head: 0 };

    #[inline]
    fn of(words: &[u64]) -> Option<Layout> {
        let &word = words.first()?;
        let [head, len, capacity] = [0, 16, 32].map(|bit| usize::from((word >> bit) as u16));
        let position = (word >> 48) as u16 & 0x7fff;
        let possible = word & MARK != 0
            && (1..=usize::from(MAX_HISTORY)).contains(&capacity)
            && self::words(capacity) <= words.len()
            && head < capacity
            && len <= capacity;
        possible.then_some(Layout { position, capacity, len, head })
    }

    const fn word(self) -> u64 {
        let Layout { position, capacity, len, head } = self;
        MARK | (position as u64) << 48 | (capacity as u64) << 32 | (len as u64) << 16 | head as u64
    }
}

#[cfg(test)]
mod tests;
