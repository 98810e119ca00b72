//! The history of a limit: a ring of the totals of its ended windows.
//!
//! ```text
//! word 0    the head of the part: the number of the limit in its scope, how many windows there is
//!           room for, how many are known, and the slot of the newest
//! word 1    uses of the current window that were made before it began: debt of earlier windows
//! word 2..  the slots: a total each, u32, two in a word, low half first; the older ones follow the
//!           head
//! ```
//! Invariant: a changed `history` keeps every window that fits both sizes. An invalid word 0 is
//! read as 0: no window is known.
//!
//! The end of a window changes word 0 and one slot. A transaction logs each changed word.

use std::ops::Range;

use frs_conf::HISTORY_HEADER_BYTES;

use super::part::{Head, words_of};
use super::ring::{get, set};

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
        words_of(self.position, self.windows as usize)
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
        self.layout().is_laid_out(words)
    }

    const fn layout(self) -> Head {
        Head::empty(self.position, self.windows as usize)
    }

    /// Forgets all windows and the carried debt.
    #[cold]
    pub fn clear(self, words: &mut [u64]) {
        self.layout().lay_out(words);
    }

    /// Ends `turns` windows, at least 1: the current one with this many uses, and the ones after it
    /// without uses. Sets the carried debt to 0.
    #[cold]
    pub fn end_windows(self, words: &mut [u64], uses: u64, turns: u64) {
        let mut layout = Head::of(words).unwrap_or(self.layout());
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

/// Whether no window is known.
#[inline]
pub(super) fn is_empty(words: &[u64]) -> bool {
    Head::of(words).is_none_or(|layout| layout.len == 0)
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
    layout: Head,
    next: usize,
}

impl<'w> Totals<'w> {
    pub fn of(words: &'w [u64]) -> Totals<'w> {
        let slots = words.get(HEADER..).unwrap_or_default();
        Totals { slots, layout: Head::of(words).unwrap_or(Head::empty(0, 1)), next: 0 }
    }
}

impl Iterator for Totals<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let Head { capacity, len, head, .. } = self.layout;
        if self.next == len {
            return None;
        }
        let slot = head + self.next;
        self.next += 1;
        Some(get(self.slots, if slot < capacity { slot } else { slot - capacity }))
    }
}

#[cfg(test)]
mod tests;
