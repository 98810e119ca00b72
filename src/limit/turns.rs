//! Calendar windows: which one an instant lies in, and how many turn between two.

use crate::conf::Turns;

/// A stretch of time, milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first millisecond.
    pub from: u64,
    /// The first one after it.
    pub until: u64,
}

impl Span {
    /// All of time.
    pub const EVER: Span = Span { from: 0, until: u64::MAX };

    /// None of it.
    pub const NEVER: Span = Span { from: u64::MAX, until: 0 };

    /// Does an instant lie in it?
    #[inline]
    pub const fn holds(&self, now: u64) -> bool {
        self.from <= now && now < self.until
    }

    /// What two have in common.
    pub fn and(self, other: Span) -> Span {
        Span { from: self.from.max(other.from), until: self.until.min(other.until) }
    }
}

/// The window that an instant lies in.
pub(super) fn window_at(turns: &Turns, now: u64) -> Span {
    todo!()
}

/// How many windows begin after `from`, up to and with `to`.
pub(super) fn turns_between(turns: &Turns, from: u64, to: u64) -> u64 {
    todo!()
}
