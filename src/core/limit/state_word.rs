//! What a word of a node's states is called, and in what it counts: for those who look into files.
//!
//! Invariant: names and units say nothing of a policy's arithmetic; the policies name their words.

/// In what a state word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordUnit {
    /// Milliseconds since the epoch; 0: not yet.
    Time,
    /// Uses.
    Uses,
    /// 1/86,400,000 of a token.
    TokenParts,
    /// Places of a ring's uses, packed.
    Ring,
    /// Times of two uses, in milliseconds after the ring's base.
    RingUses,
}

/// What a state word of a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateWord {
    /// The 1-based index of the limit it belongs to; 0: all of them.
    pub limit: u16,
    /// What it is called.
    pub name: &'static str,
    /// In what it counts.
    pub unit: WordUnit,
}
