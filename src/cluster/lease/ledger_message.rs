//! The one message of a host to the ledger, and the ledger's answer.
//!
//! Invariant: a message is absolute. It says what the host has bound itself to, not what changed,
//! so the ledger may receive it late, twice, or never.

use frs_conf::Policy;

/// Identifies a host for the ledger: a random number that changes with the boot and the host's
/// files.
pub type Incarnation = u64;

/// The kind of limit that a ledger counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A window that opens at the first use.
    Interval {
        /// Its length.
        interval_ms: u64,
    },
    /// A calendar window: the bounds of this window and of the next one, in Unix milliseconds. The
    /// ledger's clock decides which of the two is current.
    Calendar {
        /// The start of this window.
        start_ms: u64,
        /// Its end, at which the next one starts.
        end_ms: u64,
        /// The end of the next one.
        next_end_ms: u64,
    },
    /// No window: it never ends.
    Total,
    /// An exact log at each host; the ledger divides the maximum into shares.
    Sliding {
        /// How long a use counts.
        interval_ms: u64,
    },
    /// A token bucket: `rate` tokens flow back in each `period_ms`.
    Token {
        /// Tokens that flow back in a period.
        rate: u64,
        /// The period.
        period_ms: u64,
    },
    /// Two counters, windows aligned to the interval.
    SlidingCounter {
        /// The length of a window.
        interval_ms: u64,
    },
}

impl Kind {
    /// The kind of ledger that counts a policy. `None` if machines cannot share it. The windows of
    /// a calendar are set later.
    pub fn of(policy: &Policy) -> Option<Kind> {
        const CALENDAR: Kind = Kind::Calendar { start_ms: 0, end_ms: 0, next_end_ms: 0 };
        Some(match policy {
            Policy::Interval(limit) => Kind::Interval { interval_ms: limit.interval_ms },
            Policy::Calendar(_) => CALENDAR,
            Policy::Sliding(limit) => Kind::Sliding { interval_ms: limit.interval_ms },
            Policy::SlidingCounter(limit) => {
                Kind::SlidingCounter { interval_ms: limit.interval_ms }
            }
            Policy::Token(limit) => Kind::Token { rate: limit.rate, period_ms: limit.per_ms },
            Policy::Total(_) => Kind::Total,
            Policy::Count(limit) if limit.turns.is_some() => CALENDAR,
            Policy::Count(_) => Kind::Total,
            Policy::Gcra(_) | Policy::Distinct(_) | Policy::Concurrent(_) => return None,
        })
    }

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
    /// The kind of the limit.
    pub kind: Kind,
    /// The most uses in a window, or the burst of a token bucket. At most 2^50.
    pub max: u64,
    /// The configured number of hosts.
    pub hosts: u64,
}

/// The window that a message is about, and what the host has done in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The window's start by the ledger's clock; 0: the host no longer knows it.
    pub window: u64,
    /// The host has bound itself to spend at most this many uses in the window. If the host does
    /// not know the window: the first seq without an answer; 0: the host does not know that either.
    pub floor: u64,
    /// Uses of the floor that are spent.
    pub spent: u64,
    /// Uses beyond any lease since the last answered message; negative: returned.
    pub extra: i64,
    /// For a sliding counter: uses in the previous window. For a sliding limit: uses that the
    /// ledger has had taken out of the host's log.
    pub noted: u64,
}

/// *In this window I have bound myself to at most FLOOR, of which SPENT are used, and used EXTRA
/// beyond any lease; grant me NEED now, and up to WANT.*
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Take {
    /// The sender.
    pub host: Incarnation,
    /// The number of the binding: one counter for the whole host, never 0.
    pub seq: u64,
    /// The host's claim.
    pub claim: Claim,
    /// Uses that waiting requests need. The ledger grants all of them or none.
    pub need: u64,
    /// The most uses that the host would take, `need` included.
    pub request: u64,
}

/// The ledger's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Taken {
    /// The ledger has no window, and the message requested nothing.
    Nothing,
    /// The ledger has seen a later seq of this host: the host is a clone, or its directory was
    /// restored.
    Stale,
    /// The host's grant.
    Granted(Granted),
}

/// A host's grant in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Granted {
    /// The window's start by the ledger's clock.
    pub window: u64,
    /// If the host named another window: how many of its uses count in this one.
    pub base: Option<u64>,
    /// The host may spend up to this in the window, its earlier uses included.
    pub allowance: u64,
    /// Uses that the ledger has not granted to any host; below 0 if too many are granted.
    pub pool: i64,
    /// Milliseconds until the window turns; none: never.
    pub turn_ms: Option<u64>,
    /// Uses of other hosts that may be unspent.
    pub others: u64,
    /// Uses beyond the maximum.
    pub over: u64,
    /// Uses that the message has returned, and that no host has reported.
    pub left: u64,
    /// For a sliding limit: uses that the host must take out of its log, counted since the ledger
    /// has known it. Other hosts have returned them.
    pub back: u64,
}
