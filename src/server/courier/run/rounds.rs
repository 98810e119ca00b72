//! The rounds over all nodes with leases, and what is told each second.
//!
//! Invariant: a round takes a tenth of a core at most, but for the claims after a change of masters
//! and the repeats after an outage: those have a deadline.

use std::time::{Duration, Instant};

use frs_base::clock;
use frs_engine::{LeaseKey, LeasePass, LeasedLimit};
use frs_limit::lease::Holding;

use super::Courier;
use super::events::TELL_EVERY;
use crate::courier::core::Now;
use crate::courier::telemetry::LeaseUses;

/// Key-nodes of one step.
const STEP: usize = 128;
/// The pause after a step, as many times as long as it took.
const PAUSES: u32 = 9;
/// A round that takes longer may find something yet.
const LONG_ROUND: Duration = Duration::from_millis(50);
/// Claims that are put in order at once.
const CLAIMS: usize = 1 << 16;
/// Or those that are found in this time, a tenth of that in which a master waits.
const LONGEST_FIND: Duration = Duration::from_secs(1);
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
    /// The round under way has begun before the last reason to hurry, or to claim.
    is_stale: bool,
    is_claim_stale: bool,
    /// When it was told to claim last, and the claims sent before.
    claim_begun: Instant,
    claims_before: u64,
    /// The items that were found and not looked at yet, the last one first.
    found: Vec<Found>,
    /// When the first of them was looked for.
    find_begun: Instant,
    /// They are all that are looked for at once.
    is_found: bool,
    /// All key-nodes have been seen.
    is_seen: bool,
    /// Uses in the leases that it has seen.
    uses: LeaseUses,
}

/// An item with leases.
#[derive(Debug)]
struct Found {
    /// What they allow, used or not: as many uses could be granted once more.
    allowed: u64,
    key: LeaseKey,
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
            is_claim_stale: false,
            claim_begun: now,
            claims_before: 0,
            found: Vec::new(),
            find_begun: now,
            is_found: false,
            is_seen: false,
            uses: LeaseUses::default(),
        }
    }

    /// When the next step is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// When the cluster is told and asked again.
    pub fn tell_due(&self) -> Instant {
        self.next_tell
    }

    /// All leases are to be claimed; so many claims were sent before. The pass over them begins
    /// anew, so that the largest come first, unless claims are under way: these go on, or none
    /// would ever be sent.
    pub fn claim(&mut self, sent: u64, pass: &mut LeasePass) {
        self.hurry();
        if self.is_claim {
            self.is_claim_stale = true;
            return;
        }
        pass.begin_anew();
        self.found.clear();
        self.uses = LeaseUses::default();
        (self.is_found, self.is_seen, self.is_stale) = (false, false, false);
        self.is_claim = true;
        (self.claim_begun, self.claims_before) = (clock::instant(), sent);
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
        self.is_claim_stale |= self.is_claim;
    }

    /// A round is over. True if it was one that claims.
    fn end(&mut self, now: Instant) -> bool {
        // One that has not seen all nodes since is followed by one that does.
        let has_claimed = self.is_claim && !std::mem::take(&mut self.is_claim_stale);
        self.is_claim &= !has_claimed;
        if !std::mem::take(&mut self.is_stale) {
            self.is_hurried = false;
            self.due = now + REST;
        }
        has_claimed
    }

    /// Whether claims are yet to be sent, as far as is known: this many were. A host that finds
    /// none at first, and soon has seen all, holds no master up.
    pub fn has_claims(&self, sent: u64) -> bool {
        let is_found = sent > self.claims_before;
        self.is_claim && (is_found || clock::since(self.claim_begun) >= LONG_ROUND)
    }
}

impl Courier {
    /// Tells and asks what is due each second.
    pub(super) fn tell_if_due(&mut self) {
        let now = clock::instant();
        if now >= self.rounds.next_tell {
            self.rounds.next_tell = now + TELL_EVERY;
            self.tell();
        }
    }

    /// Goes on with the round if that is due.
    pub(super) fn round(&mut self, now: Now) {
        let begun = clock::instant();
        if begun < self.rounds.due {
            return;
        }
        if !self.core.has_room() {
            self.rounds.due = begun + Duration::from_millis(1);
            return;
        }
        if !self.rounds.is_found && !self.find(now) {
            return;
        }
        // As many as of one step: the messages are under way before the next ones are looked at.
        let first = self.rounds.found.len().saturating_sub(STEP);
        for Found { key, .. } in self.rounds.found.split_off(first).into_iter().rev() {
            self.core.look(&mut self.nodes, now, &key);
        }
        let after = clock::instant();
        let pause = if self.rounds.is_hurried { Duration::ZERO } else { (after - begun) * PAUSES };
        self.rounds.due = after + pause;
        if !self.rounds.found.is_empty() {
            return;
        }
        self.rounds.is_found = false;
        self.rounds.found.shrink_to(STEP);
        if !std::mem::take(&mut self.rounds.is_seen) {
            return;
        }
        self.telemetry.set_uses(std::mem::take(&mut self.rounds.uses));
        if self.rounds.end(after) {
            self.core.end_claims();
        }
    }

    /// Looks for the items with leases in the next key-nodes; false: there is more to be looked at
    /// first. Of those to be claimed the largest leases come first: a master does not wait for
    /// ever, and what it has not heard of may be granted once more.
    fn find(&mut self, now: Now) -> bool {
        if self.rounds.found.is_empty() {
            self.rounds.find_begun = clock::instant();
        }
        self.rounds.is_seen = self.step(now);
        let Rounds { found, find_begun, is_claim, is_seen, is_found, .. } = &mut self.rounds;
        let is_long = clock::since(*find_begun) >= LONGEST_FIND;
        *is_found = !*is_claim || *is_seen || found.len() >= CLAIMS || is_long;
        if *is_found && *is_claim {
            found.sort_unstable_by_key(|found| found.allowed);
        }
        *is_found
    }

    /// Looks at the next key-nodes; whether all have been seen.
    fn step(&mut self, now: Now) -> bool {
        let moment = self.nodes.moment(now);
        let Rounds { uses, found, .. } = &mut self.rounds;
        self.nodes.service.lease_pass(&mut self.nodes.pass, STEP, |service, key| {
            let seen = service.with_leases(key, moment, |limits| {
                let holdings = || limits.iter().map(|limit| &limit.holding);
                holdings().for_each(|holding| uses.add(holding, now.boot_ms));
                let is_live = holdings().any(|holding| has_to_be_seen(holding, now.boot_ms));
                (is_live, limits.iter().map(allowed_by).sum())
            });
            // One that cannot be had now is looked at again.
            let (stays, allowed) = seen.unwrap_or((true, 0));
            if stays {
                found.push(Found { allowed, key: *key });
            }
            stays
        })
    }
}

/// What could be granted once more, if the ledger did not hear of the lease.
fn allowed_by(limit: &LeasedLimit) -> u64 {
    let Holding { lease, used } = &limit.holding;
    match limit.refuses_nothing {
        true => 0,
        // Of tokens both are cumulative.
        false => lease.allowance.max(*used).min(limit.settings.max),
    }
}

/// Is there something that has to be given back, reported or claimed one day?
fn has_to_be_seen(holding: &Holding, now_ms: u64) -> bool {
    let lease = &holding.lease;
    lease.in_flight || lease.extra != 0 || holding.counts(now_ms)
}
