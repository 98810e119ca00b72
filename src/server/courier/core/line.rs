//! What the courier remembers of a ledger while something is going on there.
//!
//! Invariant: at most one message is under way; those that wait are in the order of arrival.

use std::collections::VecDeque;

use frs_limit::lease::{Settings, Take};

/// A message that is under way.
#[derive(Debug, Clone, Copy)]
pub struct Flight {
    /// Its id.
    pub id: u64,
    /// By which settings.
    pub settings: Settings,
    /// What it says.
    pub take: Take,
    /// What it does for others.
    pub purpose: Purpose,
    /// It names the windows of another time, as a master has said.
    pub is_elsewhere: bool,
}

/// What a message does for other hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing.
    Own,
    /// Resolves an unanswered message: uses it returned, and grants it never received, are free
    /// again.
    Settles,
    /// Of a limit that refuses nothing it tells what was used.
    Tells,
    /// It gives back so many idle uses.
    Returns {
        /// Uses.
        count: u64,
    },
    /// It answers a recall.
    AnswersRecall,
}

/// Uses that a request holds.
#[derive(Debug, Clone, Copy)]
struct Hold {
    until_ms: u64,
    count: u64,
}

/// What has happened that a ledger is to be looked at for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reasons {
    /// A recall names this host.
    pub is_recalled: bool,
    /// There are uses to be had again.
    pub has_again: bool,
    /// A new master is to hear of the lease.
    pub is_claimed: bool,
    /// The master is in another calendar window: its time.
    pub elsewhere_ms: Option<u64>,
}

/// How often uses are told again that were given back, and the pause before the first time.
const UNPLACED_TRIES: u32 = 6;
const UNPLACED_PAUSE_MS: u64 = 30;

/// Uses that were given back, and that no host has told to have used. The hosts are recalled, and
/// the ledger is told again when they have said so: for two seconds at most, as later uses are
/// others.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unplaced {
    count: u64,
    tries: u32,
    due_ms: u64,
}

impl Unplaced {
    /// The ledger has found nobody for some. When it is told again; none: no more.
    pub fn add(&mut self, count: u64, now_ms: u64) -> Option<u64> {
        if self.tries == UNPLACED_TRIES {
            *self = Unplaced::default();
            return None;
        }
        self.count = self.count.saturating_add(count);
        self.due_ms = now_ms + (UNPLACED_PAUSE_MS << self.tries);
        self.tries += 1;
        Some(self.due_ms)
    }

    /// The ledger has found somebody for all of them.
    pub fn forget_tries(&mut self) {
        if self.count == 0 {
            self.tries = 0;
        }
    }

    /// What the ledger is to be told again now.
    pub fn take_due(&mut self, now_ms: u64) -> u64 {
        if now_ms < self.due_ms { 0 } else { std::mem::take(&mut self.count) }
    }
}

/// A ledger where something is going on.
#[derive(Debug)]
pub struct Line<K> {
    /// An item with this ledger.
    pub key: K,
    /// Its slot in the cluster.
    pub slot: u16,
    /// Requests that wait for it.
    pub waiting: VecDeque<u64>,
    /// The message under way.
    pub flight: Option<Flight>,
    /// The last message of this line was lost: it is repeated when its pause is over.
    pub is_lost: bool,
    /// To be looked at already.
    pub is_queued: bool,
    /// What for.
    pub reasons: Reasons,
    /// The next timer.
    pub due_ms: Option<u64>,
    /// Uses that were given back and are to be told again.
    pub unplaced: Unplaced,
    /// A window whose holders are to be recalled when the pause between two recalls is over.
    pub recalls: Option<u64>,
    holds: Vec<Hold>,
}

impl<K> Line<K> {
    /// Where nothing is going on yet.
    pub fn new(key: K, slot: u16) -> Line<K> {
        Line {
            key,
            slot,
            waiting: VecDeque::new(),
            flight: None,
            is_lost: false,
            is_queued: false,
            reasons: Reasons::default(),
            due_ms: None,
            unplaced: Unplaced::default(),
            recalls: None,
            holds: Vec::new(),
        }
    }

    /// A request holds uses.
    pub fn hold(&mut self, count: u64, until_ms: u64) {
        self.holds.push(Hold { until_ms, count });
    }

    /// A request holds them no more.
    pub fn release(&mut self, count: u64, until_ms: u64) {
        let is_it = |hold: &Hold| hold.count == count && hold.until_ms == until_ms;
        if let Some(nth) = self.holds.iter().position(is_it) {
            self.holds.swap_remove(nth);
        }
    }

    /// The most that requests can hold now, and until when.
    pub fn held(&mut self, now_ms: u64) -> Held {
        self.holds.retain(|hold| now_ms < hold.until_ms);
        let count = self.holds.iter().map(|hold| hold.count).sum();
        let until_ms = self.holds.iter().map(|hold| hold.until_ms).max().unwrap_or(0);
        Held { count, until_ms }
    }

    /// Is nothing going on there any more?
    pub fn is_over(&mut self, now_ms: u64) -> bool {
        self.waiting.is_empty()
            && self.flight.is_none()
            && !self.is_queued
            && !self.is_lost
            && !self.reasons.is_recalled
            && !self.reasons.is_claimed
            && self.unplaced.count == 0
            && self.recalls.is_none()
            && self.held(now_ms).count == 0
    }
}

/// Uses that requests hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// So many at most.
    pub count: u64,
    /// Until then.
    pub until_ms: u64,
}
