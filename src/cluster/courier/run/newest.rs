//! Proves that the data directory is the newest of its copies, before its leases are spent.
//!
//! Invariant: after a start of the server nothing is requested from a ledger, returned or claimed
//! until the cluster has confirmed the directory. If the cluster calls the directory an older copy,
//! its leases are void, as their uses may have been spent.

use std::time::{Duration, Instant};

use frs_base::clock;

use super::Courier;
use crate::connections::Lost;
use crate::newest_copy::Starts;

/// The pause before a question without an answer is repeated.
const PAUSE: Duration = Duration::from_millis(50);

/// The state of the question.
#[derive(Debug, Default)]
pub struct Newest {
    /// The question that is under way.
    pub asked: Option<Starts>,
    /// When it is asked again.
    pub next_ask: Option<Instant>,
    /// The cluster could not be reached: no item waits for an answer.
    is_cut_off: bool,
}

impl Newest {
    /// When the next question is due, while leases are unproven.
    pub fn due(&self) -> Option<Instant> {
        self.next_ask.filter(|_| self.asked.is_none())
    }
}

impl Courier {
    /// Asks the cluster, until it has answered, whether leases may be spent. True if they may.
    pub(super) fn prove_newest(&mut self) -> bool {
        if !self.nodes.are_leases_unproven() {
            return true;
        }
        let is_due = self.newest.next_ask.is_none_or(|next| clock::instant() >= next);
        if self.newest.asked.is_none() && is_due {
            self.newest.is_cut_off |= self.links.is_none();
            self.ask_start();
        }
        if self.newest.is_cut_off {
            self.refuse_all();
        }
        false
    }

    /// Whether needs are taken from the rings: they are served, or refused while the cluster cannot
    /// be reached.
    pub(super) fn takes_needs(&self) -> bool {
        !self.nodes.are_leases_unproven() || self.newest.is_cut_off
    }

    /// Asks about the last start, or reports it once more.
    pub(super) fn ask_start(&mut self) {
        self.newest.next_ask = Some(clock::instant() + PAUSE);
        let Some(links) = &mut self.links else { return };
        match self.nodes.next_start() {
            Ok(starts) => {
                links.ask_start(starts);
                self.newest.asked = Some(starts);
            }
            Err(error) => self.complain_of(&error),
        }
    }

    /// Takes in the cluster's answer, or its loss.
    pub(super) fn take_start_answer(&mut self, starts: Starts, result: Result<bool, Lost>) {
        if self.newest.asked != Some(starts) {
            return;
        }
        self.newest.asked = None;
        match result {
            Ok(is_newest) => {
                let was_unproven = self.nodes.are_leases_unproven();
                self.newest.is_cut_off = false;
                if is_newest {
                    self.nodes.prove_leases(starts);
                } else {
                    tracing::warn!(
                        "the data directory is an older copy, or the cluster has lost its start: \
                         its leases are void, and count as spent until their windows end"
                    );
                    if let Err(error) = self.nodes.renew_as_older_copy() {
                        self.complain_of(&error);
                    }
                }
                if was_unproven {
                    self.rounds.hurry();
                }
            }
            // Whatever the reason, no item waits for the answer.
            Err(_) => self.newest.is_cut_off = true,
        }
    }

    fn complain_of(&mut self, error: &frs_store::Error) {
        if self.complaints.is_due(clock::instant()) {
            tracing::error!(%error, "leases stay unproven");
        }
    }
}
