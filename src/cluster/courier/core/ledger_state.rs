//! The state of a ledger while something is going on there.
//!
//! Invariant: at most one message is under way. Waiting requests are in the order of arrival.

use std::collections::VecDeque;

use crate::lease::{Settings, Take};

/// A message that is under way.
#[derive(Debug, Clone, Copy)]
pub struct Flight {
    /// Its id.
    pub id: u64,
    /// The settings of the limit.
    pub settings: Settings,
    /// The content.
    pub take: Take,
    /// Its effect for other hosts.
    pub purpose: Purpose,
    /// It names the calendar windows of the time that a master has answered.
    pub names_later_windows: bool,
}

/// The effect of a message for other hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// No effect.
    Own,
    /// Resolves an unanswered message: uses it returned, and grants it never received, are free
    /// again.
    Settles,
    /// Reports uses of a limit that refuses nothing.
    Reports,
    /// Returns idle uses.
    Returns {
        /// The number of uses.
        count: u64,
    },
    /// Answers a recall.
    AnswersRecall,
}

/// Uses that are reserved for a request.
#[derive(Debug, Clone, Copy)]
struct Reservation {
    until_ms: u64,
    count: u64,
}

/// Reasons to look at a ledger.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reasons {
    /// A recall names this host.
    pub is_recalled: bool,
    /// The ledger has uses again.
    pub has_again: bool,
    /// The lease is to be claimed from a new master.
    pub is_claimed: bool,
    /// The time of a master that is in another calendar window.
    pub master_ms: Option<u64>,
}

/// How often returned uses are reported again, and the pause before the first repetition.
const UNPLACED_TRIES: u32 = 6;
const UNPLACED_PAUSE_MS: u64 = 30;

/// Returned uses that no host has reported as used. The hosts are recalled, and the ledger gets
/// another report after they have answered. This ends after two seconds, as later uses are others.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unplaced {
    count: u64,
    tries: u32,
    due_ms: u64,
}

impl Unplaced {
    /// Adds returned uses that the ledger could not assign to any host. Returns when they are
    /// reported again; `None` if they are given up.
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

    /// Starts to count the tries anew, as the ledger has assigned all returned uses to hosts.
    pub fn forget_tries(&mut self) {
        if self.count == 0 {
            self.tries = 0;
        }
    }

    /// Takes the uses that are to be reported again now.
    pub fn take_due(&mut self, now_ms: u64) -> u64 {
        if now_ms < self.due_ms { 0 } else { std::mem::take(&mut self.count) }
    }
}

/// A ledger where something is going on.
#[derive(Debug)]
pub struct LedgerState<K> {
    /// An item with this ledger.
    pub key: K,
    /// Its slot in the cluster.
    pub slot: u16,
    /// Requests that wait for it.
    pub waiting: VecDeque<u64>,
    /// The message under way.
    pub flight: Option<Flight>,
    /// The last message of this ledger was lost: it is repeated when its pause is over.
    pub is_lost: bool,
    /// Already queued for a look.
    pub is_queued: bool,
    /// The reasons for the next look.
    pub reasons: Reasons,
    /// The next timer.
    pub due_ms: Option<u64>,
    /// Returned uses that are to be reported again.
    pub unplaced: Unplaced,
    /// A window whose holders are recalled after the pause between two recalls.
    pub recalls: Option<u64>,
    reservations: Vec<Reservation>,
}

impl<K> LedgerState<K> {
    /// A ledger where nothing is going on yet.
    pub fn new(key: K, slot: u16) -> LedgerState<K> {
        LedgerState {
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
            reservations: Vec::new(),
        }
    }

    /// Reserves uses for a request.
    pub fn reserve(&mut self, count: u64, until_ms: u64) {
        self.reservations.push(Reservation { until_ms, count });
    }

    /// Releases the reserved uses of a request.
    pub fn release(&mut self, count: u64, until_ms: u64) {
        let is_it = |one: &Reservation| one.count == count && one.until_ms == until_ms;
        if let Some(nth) = self.reservations.iter().position(is_it) {
            self.reservations.swap_remove(nth);
        }
    }

    /// The most uses that can be reserved now, and until when.
    pub fn reserved(&mut self, now_ms: u64) -> Reserved {
        self.reservations.retain(|one| now_ms < one.until_ms);
        let count = self.reservations.iter().map(|one| one.count).sum();
        let until_ms = self.reservations.iter().map(|one| one.until_ms).max().unwrap_or(0);
        Reserved { count, until_ms }
    }

    /// Whether nothing is going on there any more.
    pub fn is_over(&mut self, now_ms: u64) -> bool {
        self.waiting.is_empty()
            && self.flight.is_none()
            && !self.is_queued
            && !self.is_lost
            && !self.reasons.is_recalled
            && !self.reasons.is_claimed
            && self.unplaced.count == 0
            && self.recalls.is_none()
            && self.reserved(now_ms).count == 0
    }
}

/// Uses that are reserved for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    /// The most uses.
    pub count: u64,
    /// The end of the last reservation, CLOCK_BOOTTIME.
    pub until_ms: u64,
}
