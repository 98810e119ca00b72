//! What the courier counts.
//!
//! Invariant: numbers only grow.

use frs::lease::Kind;

/// A function of the ledger's library, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Function {
    /// Messages about interval limits.
    Interval,
    /// Messages about calendar limits.
    Calendar,
    /// Messages about totals.
    Total,
    /// Messages about sliding limits.
    Sliding,
    /// Messages about token buckets.
    Token,
    /// Messages about sliding counters.
    SlidingCounter,
    /// Who has unspent uses.
    Holders,
}

impl Function {
    /// All of them, in the order of their numbers.
    pub const ALL: [Function; 7] = [
        Function::Interval,
        Function::Calendar,
        Function::Total,
        Function::Sliding,
        Function::Token,
        Function::SlidingCounter,
        Function::Holders,
    ];

    /// The function for messages about such a limit.
    pub fn of_kind(kind: &Kind) -> Function {
        match kind {
            Kind::Interval { .. } => Function::Interval,
            Kind::Calendar { .. } => Function::Calendar,
            Kind::Total => Function::Total,
            Kind::Sliding { .. } => Function::Sliding,
            Kind::Token { .. } => Function::Token,
            Kind::SlidingCounter { .. } => Function::SlidingCounter,
        }
    }

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Function::Interval => "interval",
            Function::Calendar => "calendar",
            Function::Total => "total",
            Function::Sliding => "sliding",
            Function::Token => "token",
            Function::SlidingCounter => "sliding_counter",
            Function::Holders => "holders",
        }
    }
}

/// What a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum RequestResult {
    /// It was answered.
    Answered,
    /// By a ledger that knows a later number of this host.
    Stale,
    /// By a server whose time is in neither calendar window.
    Elsewhere,
    /// No answer is known.
    Lost,
    /// The master was not connected.
    Down,
}

impl RequestResult {
    /// All of them, in the order of their numbers.
    pub const ALL: [RequestResult; 5] = [
        RequestResult::Answered,
        RequestResult::Stale,
        RequestResult::Elsewhere,
        RequestResult::Lost,
        RequestResult::Down,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            RequestResult::Answered => "answered",
            RequestResult::Stale => "stale",
            RequestResult::Elsewhere => "elsewhere",
            RequestResult::Lost => "lost",
            RequestResult::Down => "down",
        }
    }
}

/// What a courier has counted since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    requests: [[u64; RequestResult::ALL.len()]; Function::ALL.len()],
    /// Wants taken from rings.
    pub wants: u64,
    /// Answers by which a need was granted.
    pub grants: u64,
    /// Messages by which uses were given back.
    pub returns: u64,
    /// Recalls published.
    pub recalls: u64,
    /// Leases claimed from new masters.
    pub claims: u64,
    /// Uses beyond a maximum, as ledgers have answered.
    pub over: u64,
    /// Answers by another maximum than this host's.
    pub conflicts: u64,
    /// Answers that say that the directory is a copy.
    pub stale: u64,
}

impl Figures {
    /// Requests of a function that came to this.
    pub fn requests(&self, function: Function, result: RequestResult) -> u64 {
        self.requests[function as usize][result as usize]
    }

    /// Counts a request.
    pub fn count(&mut self, function: Function, result: RequestResult) {
        self.requests[function as usize][result as usize] += 1;
    }
}
