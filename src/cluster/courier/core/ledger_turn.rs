//! One turn of one ledger, in a transaction on its node: it applies an answer, serves the waiting
//! requests in order, and binds the host if a message is to go out.
//!
//! Invariant: the message is a result of the transaction. It is sent only after the transaction is
//! stored.

use super::ledger_state::{Flight, Purpose, Reasons, Reserved};
use super::nodes::Leased;
use super::returns::{self, Asks};
use crate::lease::{
    Asking, Binding, Holding, Incarnation, Keep, Kind, Next, Received, Settings, Take,
};

/// The pause while nothing can be sent for the moment.
const FULL_PAUSE_MS: u64 = 10;
/// The pause before the next check whether a master can be reached.
const CLOSED_PAUSE_MS: u64 = 100;

/// A request that needs uses of the ledger.
#[derive(Debug, Clone, Copy)]
pub struct Waiter {
    /// The request.
    pub request: u64,
    /// The uses that it charges.
    pub count: u64,
    /// Until when these uses may be reserved for it.
    pub until_ms: u64,
    /// All its lower parts are reserved.
    pub is_next: bool,
    /// It may ask this ledger now.
    pub may_ask: bool,
}

/// Can a message go out?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// A message can go out.
    Open,
    /// Too many messages are under way.
    Full,
    /// The slot's master cannot be reached.
    Closed,
}

/// The input of a turn.
#[derive(Debug)]
pub struct LedgerTurn<'a> {
    /// CLOCK_BOOTTIME.
    pub now_ms: u64,
    /// The incarnation of the host.
    pub incarnation: Incarnation,
    /// The id of the next message.
    pub id: u64,
    /// The seq for a new binding.
    pub seq: u64,
    /// The requests that need uses, in the order of arrival.
    pub waiters: &'a [Waiter],
    /// A request asks for the ledger's present state.
    pub is_asked: bool,
    /// The most uses that are already reserved for requests.
    pub reserved: Reserved,
    /// The reasons for the turn.
    pub reasons: Reasons,
    /// An answer that has come.
    pub answer: Option<Received>,
    /// A message of this courier is under way.
    pub has_flight: bool,
    /// Returned uses that are to be reported again.
    pub unplaced: u64,
    /// The last message was lost.
    pub is_lost: bool,
    /// The slot has changed its master while this courier ran.
    pub has_followed: bool,
    /// Can a message go out?
    pub gate: Gate,
}

/// The results of a turn.
#[derive(Debug, Default)]
pub struct TurnOutcome {
    /// Requests whose uses are reserved now.
    pub reserved: Vec<u64>,
    /// Requests that are refused for good.
    pub refused: Vec<u64>,
    /// Requests that end because the ledger cannot be reached.
    pub unreachable: Vec<u64>,
    /// A request still needs uses.
    pub needs_uses: bool,
    /// The ledger had too few uses when it last answered. It is asked again after a pause.
    pub is_paused: bool,
    /// The message to send.
    pub flight: Option<Flight>,
    /// The message claims a lease from a new master.
    pub is_claim: bool,
    /// When to look at the ledger again.
    pub until_ms: Option<u64>,
    /// What follows from the answer.
    pub next: Option<Next>,
    /// The recall that is answered later, and the claim that is sent later, as a message is under
    /// way.
    pub left: Reasons,
    /// The start of the window, for a recall.
    pub window: u64,
    /// Uses taken out of the log because other hosts have returned them.
    pub taken_out: u64,
}

/// The first waiting request, as its message asks for it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FirstRequest {
    /// The uses that it needs.
    pub(super) uses: u64,
    /// The uses that the message requests.
    pub(super) request: u64,
    /// None: no request waits.
    pub(super) asking: Option<Asking>,
}

impl TurnOutcome {
    pub(super) fn look_at(&mut self, at_ms: u64) {
        self.until_ms = Some(self.until_ms.map_or(at_ms, |until_ms| until_ms.min(at_ms)));
    }
}

impl LedgerTurn<'_> {
    /// Runs the turn.
    pub fn run(&self, leased: &mut Leased) -> TurnOutcome {
        let mut outcome = TurnOutcome::default();
        let is_tally = leased.is_tally();
        let node = &mut leased.holding;
        *node = node.of_host(self.incarnation);
        let used = node.used;
        if let Some(received) = &self.answer {
            outcome.next =
                Some(if is_tally { node.apply_sum(received) } else { node.apply(received) });
            outcome.window = node.lease.window;
            if matches!(leased.settings.kind, Kind::Sliding { .. }) {
                outcome.taken_out = used.saturating_sub(node.used);
            }
        }
        if outcome.next == Some(Next::Copied) {
            return outcome;
        }
        if self.reasons.has_again {
            node.has_again();
        }
        if node.counts(self.now_ms) {
            node.lease.extra = node.lease.extra.saturating_sub_unsigned(self.unplaced);
        }
        self.release(node);
        let first = self.serve(leased, &mut outcome);
        self.decide(leased, &first, &mut outcome);
        outcome
    }

    fn decide(&self, leased: &mut Leased, first: &FirstRequest, outcome: &mut TurnOutcome) {
        let (settings, is_tally) = (leased.settings, leased.is_tally());
        let purpose = own_purpose(leased);
        let node = &mut leased.holding;
        let (now_ms, reasons) = (self.now_ms, self.reasons);
        // An earlier courier sent the first request, and its answer was never received. A claim
        // would count that grant as spent. No other master can answer this courier.
        let is_unanswered = node.lease.in_flight && node.lease.window == 0 && !self.has_followed;
        // Uses are reported under one seq only, or they might count twice. Nothing is granted for
        // them, so an answer of any master does no harm.
        let reports_first = is_tally && node.lease.sent_extra > 0;
        outcome.left.is_claimed = reasons.is_claimed && reports_first && node.lease.in_flight;
        let claim = if is_tally { Holding::claim_reported } else { Holding::claim };
        if reasons.is_claimed
            && !is_unanswered
            && !outcome.left.is_claimed
            && let Some(take) = claim(node, &settings, self.seq, now_ms)
        {
            outcome.left.is_recalled = reasons.is_recalled;
            (outcome.flight, outcome.is_claim) = (self.flight(settings, take, purpose), true);
            return;
        }
        if node.lease.in_flight {
            outcome.left.is_recalled = reasons.is_recalled;
            self.repeat(leased, first, outcome);
            return;
        }
        let keep = self.keep(leased, first);
        match (keep, self.gate) {
            (Some(_), Gate::Full) => outcome.look_at(now_ms + FULL_PAUSE_MS),
            (Some(keep), Gate::Open) => self.bind(leased, keep, first, outcome),
            // A later round finds the ledger again.
            (Some(_), Gate::Closed) => {}
            (None, _) => {
                if let Some(Asking::Wait { until_ms }) = first.asking {
                    outcome.look_at(until_ms);
                }
            }
        }
    }

    /// What the host keeps if it binds itself now. `None` if it has no reason to.
    fn keep(&self, leased: &Leased, first: &FirstRequest) -> Option<Keep> {
        if self.reasons.is_recalled {
            return Some(Keep::Quarter);
        }
        let asks = match first.asking {
            _ if self.is_asked => Asks::Now,
            Some(Asking::Now) => Asks::Now,
            Some(_) => Asks::Later,
            None => Asks::No,
        };
        returns::keep(leased, asks, self.now_ms)
    }

    fn bind(
        &self,
        leased: &mut Leased,
        keep: Keep,
        first: &FirstRequest,
        outcome: &mut TurnOutcome,
    ) {
        let is_tally = leased.is_tally();
        let Leased { settings, holding: node, .. } = leased;
        let (now_ms, seq) = (self.now_ms, self.seq);
        let before = node.unspent(now_ms);
        let FirstRequest { uses: need, request, .. } = *first;
        let take = match is_tally {
            true => node.report(settings, seq, now_ms),
            false => node.bind(settings, &Binding { seq, now_ms, keep, need, request }),
        };
        let count = before - node.unspent(now_ms);
        let purpose = match keep {
            _ if is_tally => Purpose::Reports,
            Keep::Quarter => Purpose::AnswersRecall,
            Keep::Reserved => Purpose::Returns { count },
            Keep::All if take.claim.extra < 0 => {
                Purpose::Returns { count: take.claim.extra.unsigned_abs() }
            }
            Keep::All => Purpose::Own,
        };
        outcome.flight = self.flight(leased.settings, take, purpose);
    }

    /// Repeats the message in flight if its answer is overdue; else its answer decides.
    fn repeat(&self, leased: &mut Leased, first: &FirstRequest, outcome: &mut TurnOutcome) {
        let (is_tally, purpose) = (leased.is_tally(), own_purpose(leased));
        let node = &mut leased.holding;
        let (now_ms, again_ms) = (self.now_ms, node.lease.again_ms);
        let is_waited_for = first.asking.is_some() || self.is_asked || outcome.left.is_claimed;
        // A message of an earlier courier is repeated at once if a request waits.
        let is_due = again_ms <= now_ms || is_waited_for && !self.is_lost;
        if self.reasons.master_ms.is_some() || !self.has_flight && is_due && self.gate == Gate::Open
        {
            let take = match is_tally {
                true => node.repeat_report(now_ms),
                false => node.repeat(now_ms, first.uses, first.request),
            };
            outcome.flight = self.flight(leased.settings, take, purpose);
        } else if !self.has_flight && (is_waited_for || self.is_lost) {
            let pause_ms = if self.gate == Gate::Closed { CLOSED_PAUSE_MS } else { FULL_PAUSE_MS };
            outcome.look_at(again_ms.max(now_ms + pause_ms));
        }
    }

    fn flight(&self, settings: Settings, take: Take, purpose: Purpose) -> Option<Flight> {
        let names_later_windows = self.reasons.master_ms.is_some();
        Some(Flight { id: self.id, settings, take, purpose, names_later_windows })
    }
}

/// The purpose of a message that returns nothing.
fn own_purpose(leased: &Leased) -> Purpose {
    match leased.holding.lease.in_flight {
        _ if leased.is_tally() => Purpose::Reports,
        true => Purpose::Settles,
        false => Purpose::Own,
    }
}
