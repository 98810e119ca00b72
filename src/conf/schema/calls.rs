//! What calls may bring, repeat and hold, as map.xml allows it: `per-call` of a limit, `once` and
//! `holds` of a business.
//!
//! Invariant: these types know no limit and no business, so both can hold them.

/// Bytes of the header of the ids that a record remembers, or of its holds: the layout, and the
/// time from which the others count.
pub const TABLE_HEADER_BYTES: u32 = 16;

/// Bytes of a remembered id: its hash, and when it was charged.
pub const ONCE_BYTES: u32 = 12;

/// The most ids that a record remembers.
pub const MAX_ONCE: u8 = 64;

/// Bytes of a hold: the hash of its id, its count, when it was made, when its life ends, its state.
pub const HOLD_BYTES: u32 = 24;

/// The most holds of a record.
pub const MAX_HOLDS: u16 = 1024;

/// The most limits of a business that take numbers from a call.
pub const MAX_PER_CALL: usize = 8;

/// `per-call`: the bounds of what a call brings for a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerCall {
    /// The largest max or burst. `u64::MAX`: there is no bound, for `gcra` only.
    pub most: u64,
    /// The longest interval, unit or period of a rate. 0 for `total` and `distinct`, which take a
    /// max of a call only.
    pub max_period_ms: u64,
}

/// `once` and `once-for`: the ids of charged Updates that a record remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Once {
    /// How many, 1..=64.
    pub ids: u8,
    /// For how long, 1 s to 1 h.
    pub for_ms: u64,
}

/// `holds`, `hold-ttl` and `on-lapse`: what calls hold of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holds {
    /// The most holds of a record, 1..=1024.
    pub entries: u16,
    /// The longest life of a hold that is not renewed, 1 s to 7 d.
    pub ttl_ms: u64,
    /// What a lapsed hold does with its uses, unless a limit is `concurrent`.
    pub on_lapse: OnLapse,
}

/// What a lapsed reservation does with its uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLapse {
    /// They stay charged.
    #[default]
    Keep,
    /// They are given back, as far as their window still runs.
    Free,
}
