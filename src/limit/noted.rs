//! Rare parts of an answer, packed into two words because every verdict is moved.
//!
//! Invariant: a value that an item does not have reads as `None` or false. An item that has none of
//! them is all zeros.

/// A partial grant, a repeat, what is held, and what became of holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// The sum plus 1. 0: the business has no holds.
    held: u64,
    /// The uses plus 1. 0: the item was not partial.
    granted: u32,
    marks: u16,
    lapsed: u16,
}

/// A mark of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It was charged before under its id or its hold, and charged nothing now.
    Repeated = 1,
    /// It settled a hold that its record does not know.
    UnknownHold = 2,
    /// It has made its hold.
    Made = 4,
    /// It has settled its hold, or let it go.
    Ended = 8,
}

impl Noted {
    /// Nothing.
    pub const NOTHING: Noted = Noted { held: 0, granted: 0, marks: 0, lapsed: 0 };

    /// The same with a mark, if it applies.
    #[must_use]
    pub const fn with(self, mark: Mark, applies: bool) -> Noted {
        let bit = if applies { mark as u16 } else { 0 };
        Noted { marks: self.marks | bit, ..self }
    }

    /// The same with the uses of a partial item that were charged, or would be.
    #[must_use]
    pub const fn granting(self, granted: u32) -> Noted {
        Noted { granted: granted.saturating_add(1), ..self }
    }

    /// The same with the sum of what is held of the record.
    #[must_use]
    pub fn holding(self, held: Option<u64>) -> Noted {
        Noted { held: held.map_or(0, |held| held.saturating_add(1)), ..self }
    }

    /// The same with the number of holds whose life was over.
    #[must_use]
    pub fn ending(self, lapsed: u32) -> Noted {
        Noted { lapsed: u16::try_from(lapsed).unwrap_or(u16::MAX), ..self }
    }

    /// The same of an item that is not stored: no hold was made or ended.
    #[must_use]
    pub const fn undone(self) -> Noted {
        let changes = Mark::Made as u16 | Mark::Ended as u16;
        Noted { marks: self.marks & !changes, lapsed: 0, ..self }
    }

    /// Whether a mark applies, or a life was over.
    #[inline]
    pub const fn has_any(&self) -> bool {
        self.marks != 0 || self.lapsed != 0
    }

    /// Whether a mark applies.
    #[inline]
    pub const fn has(&self, mark: Mark) -> bool {
        self.marks & mark as u16 != 0
    }

    /// The uses of a partial item that were charged, or would be.
    #[inline]
    pub fn granted(&self) -> Option<u32> {
        self.granted.checked_sub(1)
    }

    /// The sum of what is held of the record. `None` if its business has no holds.
    #[inline]
    pub fn held(&self) -> Option<u64> {
        self.held.checked_sub(1)
    }

    /// The number of holds whose life was over.
    pub const fn lapsed(&self) -> u16 {
        self.lapsed
    }
}
