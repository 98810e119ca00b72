//! Limits: one policy a file, pure functions on settings, state words, `now` and a count.
//!
//! No clock, no store and no allocation in here. All arithmetic is on integers.

/// What a limit shows of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Charged in the current window.
    pub used: u64,
    /// The configured maximum.
    pub max: u64,
    /// What is left.
    pub remaining: u64,
    /// Milliseconds until the window turns; 0 if nothing is used; none if never.
    pub reset_ms: Option<u64>,
}

/// Figures of one limit of an item that asked for detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitFigures {
    /// 1-based index.
    pub index: u16,
    /// The policy's name.
    pub policy: &'static str,
    /// After the command.
    pub figures: Figures,
    /// Milliseconds until this limit would admit the item; none: never, or it does.
    pub retry_ms: Option<u64>,
    /// Does it refuse the item.
    pub limited: bool,
}

/// A judged item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Refused, or would be.
    pub limited: bool,
    /// A ban refuses.
    pub banned: bool,
    /// 1-based index of the limit that decides.
    pub limit: u16,
    /// Figures of that limit after the command.
    pub figures: Figures,
    /// Milliseconds until the same item could pass; none: waiting never helps, or it passes.
    pub retry_ms: Option<u64>,
    /// Length of the deciding limit's window, where it has one: `w` of RateLimit-Policy.
    pub window_ms: Option<u64>,
}
