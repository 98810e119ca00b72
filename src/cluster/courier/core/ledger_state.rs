//! The state of a ledger while something is going on there.
//!
//! Invariant: at most one message is under way. Waiting requests are in the order of arrival.

use std::collections::VecDeque;

use super::returns::Unplaced;
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
    /// Uses that are reserved for requests.
    pub reservations: Reservations,
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
            reservations: Reservations::default(),
        }
    }

    /// Whether nothing is going on there any more.
    pub fn is_over(&mut self, now_ms: u64) -> bool {
        self.waiting.is_empty()
            && self.flight.is_none()
            && !self.is_queued
            && !self.is_lost
            && !self.reasons.is_recalled
            && !self.reasons.is_claimed
            && self.unplaced.is_none()
            && self.recalls.is_none()
            && self.reservations.at(now_ms).count == 0
    }
}

/// Uses that are reserved for a request, or for all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    /// The most uses.
    pub count: u64,
    /// The end of the last reservation, CLOCK_BOOTTIME.
    pub until_ms: u64,
}

/// The reservations at a ledger, one for each request.
#[derive(Debug, Default)]
pub struct Reservations(pub Vec<Reserved>);

impl Reservations {
    /// Releases the reserved uses of a request.
    pub fn release(&mut self, reserved: Reserved) {
        if let Some(nth) = self.0.iter().position(|one| *one == reserved) {
            self.0.swap_remove(nth);
        }
    }

    /// The most uses that can be reserved now, and until when.
    pub fn at(&mut self, now_ms: u64) -> Reserved {
        self.0.retain(|one| now_ms < one.until_ms);
        let count = self.0.iter().map(|one| one.count).sum();
        let until_ms = self.0.iter().map(|one| one.until_ms).max().unwrap_or(0);
        Reserved { count, until_ms }
    }
}
