//! The rounds over all nodes with leases, and what is told each second.
//!
//! Invariant: a round takes a tenth of a core at most, but for the claims after a change of masters
//! and the repeats after an outage: those have a deadline.

use std::time::{Duration, Instant};

use frs::base::clock;
use frs::lease::Holding;
use frs::service::LeaseKey;

use super::Courier;
use super::events::TELL_EVERY;
use crate::courier::core::Now;
use crate::courier::telemetry::LeaseUses;

/// Key-nodes of one step.
const STEP: usize = 128;
/// The pause after a step, as many times as long as it took.
const PAUSES: u32 = 9;
/// The pause after a round.
const REST: Duration = Duration::from_millis(200);

/// How far a round is.
#[derive(Debug)]
pub struct Rounds {
    due: Instant,
    next_tell: Instant,
    /// A round without pauses.
    is_hurried: bool,
    /// It is a claim's: it has to see all nodes.
    is_claim: bool,
    /// The round under way has begun before the last reason to hurry.
    is_stale: bool,
    /// Uses in the leases that it has seen.
    uses: LeaseUses,
}

impl Rounds {
    /// A courier that has just begun: the one before it may have left something undone.
    pub fn new(now: Instant) -> Rounds {
        Rounds {
            due: now,
            next_tell: now,
            is_hurried: true,
            is_claim: false,
            is_stale: false,
            uses: LeaseUses::default(),
        }
    }

    /// When the next step is due.
    pub fn due(&self) -> Instant {
        self.due.min(self.next_tell)
    }

    /// All leases are to be claimed.
    pub fn claim(&mut self) {
        self.is_claim = true;
        self.hurry();
    }

    /// The cluster is told and asked of epochs without waiting for the next second.
    pub fn tell_soon(&mut self) {
        self.next_tell = clock::instant();
    }

    /// All nodes are to be looked at soon.
    pub fn hurry(&mut self) {
        (self.is_hurried, self.is_stale) = (true, true);
        self.due = clock::instant();
    }

    /// Another configuration: the pass begins anew.
    pub fn restart(&mut self) {
        self.is_stale |= self.is_hurried;
    }

    /// A round is over. True if it was one that claims.
    fn end(&mut self, now: Instant) -> bool {
        if self.is_stale {
            // It has not seen all nodes since: the next one does.
            self.is_stale = false;
            return false;
        }
        self.is_hurried = false;
        self.due = now + REST;
        std::mem::take(&mut self.is_claim)
    }
}

impl Courier {
    /// Goes on with the round if that is due.
    pub(super) fn round(&mut self, now: Now) {
        let begun = clock::instant();
        if begun >= self.rounds.next_tell {
            self.rounds.next_tell = begun + TELL_EVERY;
            self.tell();
        }
        if begun < self.rounds.due {
            return;
        }
        if !self.core.has_room() {
            self.rounds.due = begun + Duration::from_millis(1);
            return;
        }
        let (keys, is_over) = self.step(now);
        for key in &keys {
            self.core.look(&mut self.nodes, now, key);
        }
        let after = clock::instant();
        let pause = if self.rounds.is_hurried { Duration::ZERO } else { (after - begun) * PAUSES };
        self.rounds.due = after + pause;
        if is_over {
            self.telemetry.set_uses(std::mem::take(&mut self.rounds.uses));
        }
        if is_over && self.rounds.end(after) {
            self.core.end_claims();
        }
    }

    /// The items with leases in the next key-nodes; whether the round is over.
    fn step(&mut self, now: Now) -> (Vec<LeaseKey>, bool) {
        let mut keys = Vec::new();
        let moment = self.nodes.moment(now);
        let (pass, uses) = (&mut self.nodes.pass, &mut self.rounds.uses);
        let is_over = self.nodes.service.lease_pass(pass, STEP, |service, key| {
            let is_live = service.with_leases(key, moment, |limits| {
                let holdings = limits.iter().map(|limit| &limit.holding);
                holdings.for_each(|holding| uses.add(holding, now.boot_ms));
                limits.iter().any(|limit| has_to_be_seen(&limit.holding, now.boot_ms))
            });
            // One that cannot be had now is looked at again.
            let stays = is_live.unwrap_or(true);
            if stays {
                keys.push(*key);
            }
            stays
        });
        (keys, is_over)
    }
}

/// Is there something that has to be given back, reported or claimed one day?
fn has_to_be_seen(holding: &Holding, now_ms: u64) -> bool {
    let lease = &holding.lease;
    lease.in_flight || lease.extra != 0 || holding.counts(now_ms)
}
