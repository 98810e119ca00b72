//! Name and unit of each word of a node's states, for tools that look into files.
//!
//! Invariant: names and units imply nothing about a policy's arithmetic. The policies name their
//! words.

/// The unit of a state word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordUnit {
    /// Milliseconds since the epoch. 0: not yet.
    Time,
    /// Milliseconds since the machine's boot. 0: not yet; 2^64 - 1: never.
    BootTime,
    /// The end of a [`Ban`](super::Ban) and the lifts before it. 0: none.
    Ban,
    /// A plain number.
    Number,
    /// Milliseconds.
    Milliseconds,
    /// A calendar unit, by its number.
    CalendarUnit,
    /// Uses, or if negative uses given back.
    SignedUses,
    /// Uses.
    Uses,
    /// Different members.
    Members,
    /// Registers of a sketch, packed.
    Registers,
    /// A member of a set, by its hash. 0: none.
    Fingerprint,
    /// 1/86,400,000 of a token.
    TokenParts,
    /// Nanoseconds.
    Nanoseconds,
    /// Positions of a ring's uses, packed.
    Ring,
    /// Times of two uses, in milliseconds after the ring's base.
    RingUses,
    /// Positions of a history's windows, packed.
    Past,
    /// Totals of two windows.
    PastUses,
    /// The number of ids or of holds, packed.
    Entries,
    /// A part of an id or of a hold.
    Entry,
    /// When a register expires, in milliseconds since the epoch. 0: never.
    Expiry,
    /// A part of a register: its kind with the length of its text, or its value.
    Register,
    /// Parts of the fields of a shared limit, which [`StateField`] names.
    Fields,
}

/// The names and units of a limit's own words.
#[derive(Debug, Clone, Copy)]
pub struct WordNames {
    /// Names and units of the first words.
    pub first: &'static [(&'static str, WordUnit)],
    /// The unit of all words behind them: a sketch's registers or a set's members. None: there are
    /// no such words.
    pub rest: Option<WordUnit>,
}

impl WordNames {
    /// These words alone.
    pub const fn only(first: &'static [(&'static str, WordUnit)]) -> WordNames {
        WordNames { first, rest: None }
    }
}

/// The description of a state word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateWord {
    /// Index, from 1, of the limit that it belongs to. 0: the word belongs to all limits.
    pub limit: u16,
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: WordUnit,
}

/// A field of a shared limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateField {
    /// Its name and its unit.
    pub word: StateWord,
    /// Its value; in two's complement if it may be negative.
    pub value: u64,
}
