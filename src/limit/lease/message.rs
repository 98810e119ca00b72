//! The one message of a host to the ledger, and the ledger's answer.
//!
//! Invariant: a message is absolute. It says what the host has bound itself to, not what changed,
//! so the ledger may receive it late, twice, or never.

/// Identifies a host for the ledger: a random number that changes with the boot and the host's
/// files.
pub type Incarnation = u64;

/// What a ledger counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A window that opens at the first use.
    Interval { interval_ms: u64 },
    /// A calendar window. The bounds of this one and of the next, in Unix milliseconds; the
    /// ledger's clock decides which of them it is.
    Calendar { start_ms: u64, end_ms: u64, next_end_ms: u64 },
    /// No window: it never ends.
    Total,
    /// An exact log at each host; the ledger divides the maximum into shares.
    Sliding { interval_ms: u64 },
    /// A token bucket: tokens that flow back in a millisecond, as a fraction.
    Token { rate: u64, period_ms: u64 },
    /// Two counters, windows aligned to the interval.
    SlidingCounter { interval_ms: u64 },
}

impl Kind {
    /// Does the ledger have one window after the other, the same for all hosts?
    pub fn has_turns(&self) -> bool {
        match self {
            Kind::Interval { .. } | Kind::Calendar { .. } | Kind::SlidingCounter { .. } => true,
            Kind::Total | Kind::Sliding { .. } | Kind::Token { .. } => false,
        }
    }
}

/// The settings of one shared limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Settings {
    /// What it counts.
    pub kind: Kind,
    /// The most uses in a window, or the burst of a token bucket. At most 2^50.
    pub max: u64,
    /// How many hosts there are, as the configuration says.
    pub hosts: u64,
}

/// The window that a message is about, and what the host has done in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The window's start by the ledger's clock; 0: the host does not know any more.
    pub window: u64,
    /// The host has bound itself to spend at most this many uses in the window. Of a window that it
    /// does not know: the first seq since which it has heard no answer; 0: it does not know that
    /// either.
    pub floor: u64,
    /// How many of these are used.
    pub spent: u64,
    /// Used beyond any lease since the last message that was answered; negative: given back.
    pub extra: i64,
    /// Of a sliding counter: used in the window before this one. Of a sliding limit: uses that the
    /// ledger has had taken out of the host's log.
    pub noted: u64,
}

/// *In this window I have bound myself to at most FLOOR, of which SPENT are used, and used EXTRA
/// beyond any lease; give me NEED now, and WANT more.*
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Take {
    /// The sender.
    pub host: Incarnation,
    /// The number of the binding: one counter for the whole host, never 0.
    pub seq: u64,
    /// What the host holds.
    pub claim: Claim,
    /// Uses that wait. The ledger grants them as a whole or not at all.
    pub need: u64,
    /// Uses that the host would take in all, `need` included, if there are so many.
    pub want: u64,
}

/// What the ledger answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Taken {
    /// The ledger has no window, and nothing was asked of it.
    Nothing,
    /// The ledger has seen a later number of this host: a clone, or a directory that was restored.
    Stale,
    /// What the host holds now.
    Granted(Granted),
}

/// What a host holds in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Granted {
    /// The window's start by the ledger's clock.
    pub window: u64,
    /// In a window that the host did not name: how many of its uses count in this one.
    pub base: Option<u64>,
    /// The host may spend up to this in the window, its earlier uses included.
    pub allowance: u64,
    /// Uses that the ledger has not granted to any host; below 0 if too many are out.
    pub pool: i64,
    /// Milliseconds until the window turns; none: never.
    pub turn_ms: Option<u64>,
    /// Uses that other hosts may have unspent.
    pub others: u64,
    /// Uses beyond the maximum.
    pub over: u64,
    /// Uses that the message has given back, and that no host has told to have used.
    pub left: u64,
    /// Of a sliding limit: uses that the host is to take out of its log, since the ledger has known
    /// it. Other hosts have given them back.
    pub back: u64,
}
