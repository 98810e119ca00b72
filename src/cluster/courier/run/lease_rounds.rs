//! The rounds over all nodes with leases, and the reports of each second.
//!
//! Invariant: a round takes a tenth of a core at most. Exceptions with a deadline are the claims
//! after a change of masters and the repeats after an outage.

use std::time::{Duration, Instant};

use frs_base::clock;
use frs_engine::StoredKey;

use super::Courier;
use crate::courier::core::Now;
use crate::figures::LeaseUses;
use crate::lease::Holding;
use crate::nodes::{self, LeasePass};
use crate::shared::LeasedLimit;

/// Key-nodes of one step.
const STEP: usize = 128;
/// The pause after a step, as a multiple of its duration.
const PAUSES: u32 = 9;
/// A claiming round that takes longer may still find leases to claim.
const LONG_ROUND: Duration = Duration::from_millis(50);
/// Most claims that are sorted together.
const CLAIMS: usize = 1 << 16;
/// Longest search for claims that are sorted together: a tenth of a master's longest wait.
const LONGEST_FIND: Duration = Duration::from_secs(1);
/// The pause after a round.
const REST: Duration = Duration::from_millis(200);

/// The progress of a round.
#[derive(Debug)]
pub struct LeaseRounds {
    /// When the next step is due.
    pub due: Instant,
    /// When the next reports and questions are due.
    pub next_publish: Instant,
    /// Whether the round makes no pauses.
    hurries: Until,
    /// Whether the round claims leases, so that it has to see all nodes.
    claims: Until,
    /// When the last claim began, and the number of claims sent before it.
    claim_begun: Instant,
    claims_before: u64,
    /// Items that were found and not looked at yet, the last one first.
    found: Vec<Found>,
    /// When the search for them began.
    find_begun: Instant,
    phase: Phase,
    /// Uses in the leases that the round has seen.
    uses: LeaseUses,
}

/// What a round does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It searches key-nodes for items with leases.
    Finding,
    /// It looks at the items that were found.
    Looking,
    /// It looks at the last items: all key-nodes have been searched.
    LookingAtLast,
}

/// How long something is done in rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Not at all.
    Never,
    /// Until the end of this round.
    ThisRound,
    /// Until the end of the next round, as this one began before the last reason for it.
    NextRound,
}

impl Until {
    /// Notes a reason: what this round does already is done in the next one, too.
    fn extend(&mut self) {
        if *self == Until::ThisRound {
            *self = Until::NextRound;
        }
    }

    /// Notes the end of a round. True if nothing is left to do.
    fn end_round(&mut self) -> bool {
        let is_left = *self == Until::NextRound;
        *self = if is_left { Until::ThisRound } else { Until::Never };
        !is_left
    }
}

/// An item with leases.
#[derive(Debug)]
struct Found {
    /// The allowance of its leases, used or not: so many uses could be granted once more.
    allowed: u64,
    key: StoredKey,
}

impl LeaseRounds {
    /// The rounds of a new courier. It hurries, as the courier before it may have left something
    /// undone.
    pub fn new(now: Instant) -> LeaseRounds {
        LeaseRounds {
            due: now,
            next_publish: now,
            hurries: Until::ThisRound,
            claims: Until::Never,
            claim_begun: now,
            claims_before: 0,
            found: Vec::new(),
            find_begun: now,
            phase: Phase::Finding,
            uses: LeaseUses::default(),
        }
    }

    /// Has all leases claimed; `sent` claims were sent before. The pass over the nodes starts
    /// again, so that the largest leases come first. But if a claiming round is under way it goes
    /// on, or no claim would ever be sent.
    pub fn claim(&mut self, sent: u64, pass: &mut LeasePass) {
        self.hurry();
        if self.is_claiming() {
            return self.claims.extend();
        }
        pass.begin_anew();
        self.found.clear();
        self.uses = LeaseUses::default();
        self.phase = Phase::Finding;
        (self.hurries, self.claims) = (Until::ThisRound, Until::ThisRound);
        (self.claim_begun, self.claims_before) = (clock::instant(), sent);
    }

    /// Has all nodes looked at soon.
    pub fn hurry(&mut self) {
        self.hurries = Until::NextRound;
        self.due = clock::instant();
    }

    /// Notes another configuration: the pass starts again.
    pub fn restart(&mut self) {
        self.hurries.extend();
        self.claims.extend();
    }

    /// Ends a round. True if it has claimed all leases.
    fn end(&mut self, now: Instant) -> bool {
        if self.hurries.end_round() {
            self.due = now + REST;
        }
        self.is_claiming() && self.claims.end_round()
    }

    fn is_claiming(&self) -> bool {
        self.claims != Until::Never
    }

    /// Whether claims may be left to send, given the number of claims sent. A host that finds no
    /// claims at first, and has soon seen all nodes, delays no master.
    pub fn has_claims(&self, sent: u64) -> bool {
        let is_found = sent > self.claims_before;
        self.is_claiming() && (is_found || clock::since(self.claim_begun) >= LONG_ROUND)
    }
}

impl Courier {
    /// Goes on with the round if a step is due.
    pub(super) fn round(&mut self, now: Now) {
        let begun = clock::instant();
        if begun < self.rounds.due {
            return;
        }
        if !self.core.has_room() {
            self.rounds.due = begun + Duration::from_millis(1);
            return;
        }
        if self.rounds.phase == Phase::Finding {
            self.find(now);
        }
        if self.rounds.phase == Phase::Finding {
            return;
        }
        // As many as in one step: their messages are under way before the next ones are looked at.
        let first = self.rounds.found.len().saturating_sub(STEP);
        for Found { key, .. } in self.rounds.found.split_off(first).into_iter().rev() {
            self.core.look(&mut self.nodes, now, &key);
        }
        let after = clock::instant();
        let pauses = if self.rounds.hurries == Until::Never { PAUSES } else { 0 };
        self.rounds.due = after + (after - begun) * pauses;
        if !self.rounds.found.is_empty() {
            return;
        }
        self.rounds.found.shrink_to(STEP);
        if std::mem::replace(&mut self.rounds.phase, Phase::Finding) == Phase::Looking {
            return;
        }
        self.telemetry.uses = std::mem::take(&mut self.rounds.uses);
        if self.rounds.end(after) {
            self.core.end_claims();
        }
    }

    /// Searches the next key-nodes for items with leases. A claiming round searches longer, and
    /// takes the largest leases first: a master does not wait forever, and it may grant uses again
    /// whose lease was not claimed.
    fn find(&mut self, now: Now) {
        if self.rounds.found.is_empty() {
            self.rounds.find_begun = clock::instant();
        }
        let is_seen = self.step(now);
        let is_claiming = self.rounds.is_claiming();
        let LeaseRounds { found, find_begun, phase, .. } = &mut self.rounds;
        let is_long = clock::since(*find_begun) >= LONGEST_FIND;
        if is_seen {
            *phase = Phase::LookingAtLast;
        } else if !is_claiming || found.len() >= CLAIMS || is_long {
            *phase = Phase::Looking;
        }
        if is_claiming && *phase != Phase::Finding {
            found.sort_unstable_by_key(|found| found.allowed);
        }
    }

    /// Looks at the next key-nodes. True if all have been seen.
    fn step(&mut self, now: Now) -> bool {
        let moment = self.nodes.moment(now);
        let LeaseRounds { uses, found, .. } = &mut self.rounds;
        nodes::lease_pass(&mut self.nodes.service, &mut self.nodes.pass, STEP, |service, key| {
            let seen = nodes::with_leases(service, key, moment, now.ledger_ms, |limits| {
                let holdings = || limits.iter().map(|limit| &limit.holding);
                holdings().for_each(|holding| add_uses(uses, holding, now.boot_ms));
                let is_live = holdings().any(|holding| has_to_be_seen(holding, now.boot_ms));
                (is_live, limits.iter().map(allowed_by).sum())
            });
            // An item that cannot be read now is looked at again.
            let (stays, allowed) = seen.unwrap_or((true, 0));
            if stays {
                found.push(Found { allowed, key: *key });
            }
            stays
        })
    }
}

/// Adds the uses of a lease: unspent, reserved, and not reported yet.
fn add_uses(sums: &mut LeaseUses, holding: &Holding, now_ms: u64) {
    let lease = &holding.lease;
    let beyond = lease.extra.max(0).saturating_add(lease.sent_extra.max(0)).unsigned_abs();
    let uses = [holding.unspent(now_ms), holding.reserved(now_ms), beyond];
    sums.iter_mut().zip(uses).for_each(|(sum, uses)| *sum = sum.saturating_add(uses));
}

/// Uses that could be granted once more if the ledger did not learn of the lease.
fn allowed_by(limit: &LeasedLimit) -> u64 {
    let Holding { lease, used } = &limit.holding;
    match limit.refuses_nothing {
        true => 0,
        // Allowance and used tokens are both cumulative.
        false => lease.allowance.max(*used).min(limit.settings.max),
    }
}

/// Whether the lease has to be returned, reported or claimed one day.
fn has_to_be_seen(holding: &Holding, now_ms: u64) -> bool {
    let lease = &holding.lease;
    lease.in_flight || lease.extra != 0 || holding.counts(now_ms)
}
