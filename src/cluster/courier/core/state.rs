//! The state of the courier, and the loop over the ledgers that are due to be looked at.
//!
//! Invariant: every accepted request is finished once: when it has all that it waits for, when it
//! is refused, when its ledger cannot be reached, or at its deadline.

use std::collections::{HashMap, HashSet, VecDeque};

use frs_engine::{NeedEnd, NeedKind};

use super::actions::Action;
use super::ledger_state::{Flight, LedgerState, Purpose, Reserved};
use super::ledger_turn::{Gate, LedgerTurn, TurnOutcome, Waiter};
use super::nodes::{Leased, Nodes, Now};
use super::recalls::{Question, Recalls};
use super::request::{AskedNeed, AtomicRequest, Request};
use super::slot_reach::Reach;
use super::timers::{Due, Timers};
use crate::figures::{CourierFigures, LeaseCounter};
use crate::lease::{Kind, Next, Received, RequestPart};
use crate::name::LedgerId;

/// Bounds of the courier's memory.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Waiting needs. A need beyond the bound is [`NeedEnd::Unserved`].
    pub needs: usize,
    /// Messages under way. Further messages wait.
    pub messages: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        // As many needs as all rings hold, and as many messages as may wait for one master.
        Bounds { needs: 256 * 1024, messages: 4096 }
    }
}

/// The courier without its sockets.
#[derive(Debug)]
pub struct Core<N: Nodes> {
    pub(super) cluster: String,
    pub(super) bounds: Bounds,
    pub(super) ledgers: HashMap<LedgerId, LedgerState<N::Key>>,
    pub(super) requests: HashMap<u64, Request<N>>,
    /// Needs of atomic requests that are not complete yet, by slot and number.
    atomic: HashMap<(u32, u64), Vec<AskedNeed<N>>>,
    pub(super) needs: usize,
    /// The messages under way, and the ledgers of the questions for holders.
    pub(super) flights: HashMap<u64, LedgerId>,
    pub(super) questions: HashMap<u64, Question<N::Key>>,
    todo: VecDeque<LedgerId>,
    pub(super) timers: Timers,
    pub(super) recalls: Recalls,
    pub(super) reach: Reach,
    /// Slots of new masters, and the host's seq at the time they were found.
    pub(super) claimed: HashSet<u16>,
    pub(super) claimed_seq: u64,
    /// Slots whose master this courier has met, and those of them that another master has taken
    /// over.
    pub(super) met: HashSet<u16>,
    pub(super) followed: HashSet<u16>,
    pub(super) actions: Vec<Action<N>>,
    pub(super) figures: CourierFigures,
    next_id: u64,
}

impl<N: Nodes> Core<N> {
    /// A core without any state, for the cluster with this name.
    pub fn new(cluster: &str, bounds: Bounds) -> Core<N> {
        Core {
            cluster: cluster.to_owned(),
            bounds,
            ledgers: HashMap::new(),
            requests: HashMap::new(),
            atomic: HashMap::new(),
            needs: 0,
            flights: HashMap::new(),
            questions: HashMap::new(),
            todo: VecDeque::new(),
            timers: Timers::default(),
            recalls: Recalls::default(),
            reach: Reach::default(),
            claimed: HashSet::new(),
            claimed_seq: 0,
            met: HashSet::new(),
            followed: HashSet::new(),
            actions: Vec::new(),
            figures: CourierFigures::default(),
            next_id: 0,
        }
    }

    /// The figures so far.
    pub fn figures(&self) -> &CourierFigures {
        &self.figures
    }

    /// The number of waiting needs.
    #[cfg(any(test, feature = "testing"))]
    pub fn waiting(&self) -> usize {
        self.needs
    }

    /// When [`Core::settle`] next has something to do, CLOCK_BOOTTIME.
    pub fn next_due_ms(&self) -> Option<u64> {
        if self.todo.is_empty() { self.timers.next_ms() } else { Some(0) }
    }

    /// Takes the actions, in the order in which they are to be done.
    pub fn take_actions(&mut self) -> Vec<Action<N>> {
        std::mem::take(&mut self.actions)
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Takes in a need.
    pub fn need(&mut self, nodes: &mut N, now: Now, asked: AskedNeed<N>) {
        self.figures.add(LeaseCounter::Needs, 1);
        if self.needs >= self.bounds.needs {
            self.finish(asked.ticket, NeedEnd::Unserved);
            return;
        }
        self.needs += 1;
        let deadline_ms = asked.deadline_ms;
        let Some(AtomicRequest { slot, number, needs }) = asked.atomic.filter(|of| of.needs > 1)
        else {
            return self.begin(nodes, now, vec![asked]);
        };
        let come = self.atomic.entry((slot, number)).or_default();
        if come.is_empty() {
            self.timers.add(deadline_ms, Due::Atomic { slot, number });
        }
        come.push(asked);
        if come.len() >= needs as usize
            && let Some(needs) = self.atomic.remove(&(slot, number))
        {
            self.begin(nodes, now, needs);
        }
    }

    /// Refuses a need because no master can be asked.
    pub fn refuse(&mut self, ticket: N::Ticket) {
        self.figures.add(LeaseCounter::Needs, 1);
        self.finish(ticket, NeedEnd::Unreachable);
    }

    /// Begins a request, all of whose needs have come.
    fn begin(&mut self, nodes: &mut N, now: Now, needs: Vec<AskedNeed<N>>) {
        let deadline_ms = needs.iter().map(|need| need.deadline_ms).min().unwrap_or(0);
        let id = self.new_id();
        let (mut parts, mut unanswered, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        let mut reported = Vec::new();
        let tickets: Vec<N::Ticket> = needs.iter().map(|need| need.ticket).collect();
        let asked = needs.iter().map(|need| need.key.clone()).collect();
        for need in needs {
            let look = |leased: &Leased| {
                (leased.ledger, leased.is_tally(), leased.holding.is_live(now.boot_ms))
            };
            let look = |leased: &mut [Leased]| leased.iter().map(look).collect::<Vec<_>>();
            let leases = match nodes.with_leases(&need.key, now, look) {
                Ok(leases) => leases,
                Err(end) => return self.end(tickets, end),
            };
            for (ledger, is_tally, is_live) in leases {
                if is_tally {
                    // Nobody waits for a limit that refuses nothing. Its uses go out with the other
                    // messages.
                    reported.push((ledger, need.key.clone()));
                    continue;
                }
                match need.kind {
                    // The window is already known.
                    NeedKind::Window if is_live => continue,
                    NeedKind::Query | NeedKind::Window | NeedKind::Fetch => unanswered.push(ledger),
                    NeedKind::Update => parts.push(RequestPart { key: ledger, count: need.count }),
                }
                keys.push((ledger, need.key.clone()));
            }
        }
        for (ledger, key) in reported {
            self.state_of(ledger, &key);
            self.look_soon(ledger);
        }
        let request = Request::new((tickets, asked), parts, unanswered, deadline_ms);
        if request.is_complete() || now.boot_ms >= deadline_ms {
            self.end(request.tickets, NeedEnd::Answered);
            return;
        }
        self.timers.add(deadline_ms, Due::Request(id));
        self.requests.insert(id, request);
        // The lowest ledger first: if it is short of uses, the others are not asked.
        keys.sort_unstable_by_key(|(ledger, _)| *ledger);
        for (ledger, key) in keys {
            let state = self.state_of(ledger, &key);
            if state.waiting.back() != Some(&id) {
                state.waiting.push_back(id);
            }
            self.look_soon(ledger);
        }
    }

    /// The state of a ledger, which is made if there is none.
    pub(super) fn state_of(&mut self, ledger: LedgerId, key: &N::Key) -> &mut LedgerState<N::Key> {
        let cluster = &self.cluster;
        self.ledgers
            .entry(ledger)
            .or_insert_with(|| LedgerState::new(key.clone(), ledger.slot(cluster)))
    }

    /// Queues the ledger for a look.
    pub(super) fn look_soon(&mut self, ledger: LedgerId) {
        if let Some(state) = self.ledgers.get_mut(&ledger)
            && !state.is_queued
        {
            state.is_queued = true;
            self.todo.push_back(ledger);
        }
    }

    /// Does all that is due.
    pub fn settle(&mut self, nodes: &mut N, now: Now) {
        while let Some(due) = self.timers.take(now.boot_ms) {
            match due {
                Due::Request(id) => self.end_request(id, NeedEnd::Answered),
                Due::Atomic { slot, number } => {
                    let Some(needs) = self.atomic.get(&(slot, number)) else { continue };
                    // A later request of this number may wait longer.
                    if needs.iter().all(|need| now.boot_ms >= need.deadline_ms) {
                        let tickets = needs.iter().map(|need| need.ticket).collect();
                        self.atomic.remove(&(slot, number));
                        self.end(tickets, NeedEnd::Unserved);
                    }
                }
                Due::Ledger(ledger) => {
                    let Some(state) = self.ledgers.get_mut(&ledger) else { continue };
                    state.due_ms = None;
                    // A ledger without reserved uses needs no look: the reservation has ended in
                    // the node as well.
                    if state.is_over(now.boot_ms) {
                        self.ledgers.remove(&ledger);
                    } else {
                        self.look_soon(ledger);
                    }
                }
            }
        }
        while let Some(ledger) = self.todo.pop_front() {
            // An answer may have caused a look meanwhile.
            if self.ledgers.get(&ledger).is_some_and(|state| state.is_queued) {
                self.turn(nodes, now, ledger, None);
            }
        }
    }

    /// Looks at a ledger in a transaction, and does what follows from the result.
    pub(super) fn turn(
        &mut self,
        nodes: &mut N,
        now: Now,
        ledger: LedgerId,
        answer: Option<Received>,
    ) {
        let id = self.new_id();
        let Some(state) = self.ledgers.get_mut(&ledger) else { return };
        state.is_queued = false;
        let requests = &self.requests;
        state.waiting.retain(|id| requests.contains_key(id));
        let waiting = || state.waiting.iter().map(|id| (*id, &requests[id]));
        let is_asked = waiting().any(|(_, request)| request.unanswered.contains(&ledger));
        let waiters = waiting().filter_map(|(id, request)| {
            Some(Waiter {
                request: id,
                count: request.missing(&ledger)?,
                until_ms: request.parts.deadline_ms,
                is_next: request.is_next(&ledger),
                may_ask: request.may_ask(&ledger),
            })
        });
        let waiters: Vec<Waiter> = waiters.collect();
        let gate = if !self.reach.is_open(state.slot, now.boot_ms) {
            Gate::Closed
        } else if self.flights.len() >= self.bounds.messages {
            Gate::Full
        } else {
            Gate::Open
        };
        let reasons = std::mem::take(&mut state.reasons);
        let has_flight = state.flight.is_some();
        let unplaced = if has_flight { 0 } else { state.unplaced.take_due(now.boot_ms) };
        let turn = LedgerTurn {
            now_ms: now.boot_ms,
            incarnation: nodes.incarnation(),
            id,
            seq: nodes.next_seq(),
            waiters: &waiters,
            is_asked: is_asked && state.flight.is_none(),
            reserved: state.reservations.at(now.boot_ms),
            reasons,
            answer,
            has_flight,
            unplaced,
            is_lost: state.is_lost,
            has_followed: self.followed.contains(&state.slot),
            gate,
        };
        let at = Now { ledger_ms: reasons.master_ms.unwrap_or(now.ledger_ms), ..now };
        let key = state.key.clone();
        let mut beside = Vec::new();
        let outcome = nodes.with_leases(&key, at, |leased| {
            let nth = leased.iter().position(|leased| leased.ledger == ledger)?;
            let outcome = turn.run(&mut leased[nth]);
            beside = take_out_beside(leased, nth, outcome.taken_out);
            Some(outcome)
        });
        for other in beside {
            self.state_of(other, &key);
            self.look_soon(other);
        }
        match outcome {
            Ok(Some(outcome)) => self.follow(nodes, now, ledger, &turn, outcome),
            // The configuration no longer has this ledger.
            Ok(None) => self.give_up(ledger, NeedEnd::Unserved),
            Err(end) => self.give_up(ledger, end),
        }
        let recall = self.ledgers.get_mut(&ledger).and_then(|state| state.recalls.take());
        if let Some(window) = recall {
            self.recall(ledger, window, now.boot_ms);
        }
        self.forget(ledger, now.boot_ms);
    }

    /// Ends all requests that wait for a ledger without a node here.
    fn give_up(&mut self, ledger: LedgerId, end: NeedEnd) {
        let Some(state) = self.ledgers.get_mut(&ledger) else { return };
        if let Some(flight) = state.flight.take() {
            self.flights.remove(&flight.id);
        }
        let full = state.key.clone();
        for id in std::mem::take(&mut state.waiting) {
            self.end_request_by(id, |key| match end {
                // The other items of the request have room, and their reserved uses are spendable
                // again.
                NeedEnd::Full if *key != full => NeedEnd::Answered,
                _ => end,
            });
        }
    }

    /// Does what follows from a turn.
    fn follow(
        &mut self,
        nodes: &mut N,
        now: Now,
        ledger: LedgerId,
        turn: &LedgerTurn<'_>,
        outcome: TurnOutcome,
    ) {
        if outcome.next == Some(Next::Copied) {
            self.figures.stale += 1;
            nodes.renew_incarnation();
            self.look_soon(ledger);
            return;
        }
        for id in &outcome.reserved {
            self.note_reserved(*id, ledger);
        }
        for id in &outcome.refused {
            self.refuse_request(*id);
        }
        for id in &outcome.unreachable {
            self.end_request(*id, NeedEnd::Unreachable);
        }
        if turn.gate == Gate::Closed {
            self.end_asking(ledger, u64::MAX, NeedEnd::Unreachable);
        }
        if let (Some(Next::Run), Some(answer)) = (outcome.next, turn.answer)
            && answer.take.need > 0
        {
            self.figures.add(LeaseCounter::Grants, 1);
        }
        let is_short = matches!(outcome.next, Some(Next::Recall | Next::Wait | Next::Refuse));
        if is_short || outcome.is_paused {
            for waiter in turn.waiters.iter().filter(|waiter| waiter.may_ask) {
                self.requests.get_mut(&waiter.request).into_iter().for_each(Request::was_short);
            }
        }
        if outcome.next == Some(Next::Recall) && outcome.needs_uses {
            self.ask_holders(ledger, outcome.window, now.boot_ms);
        }
        let Some(state) = self.ledgers.get_mut(&ledger) else { return };
        state.reasons.is_recalled |= outcome.left.is_recalled;
        state.reasons.is_claimed |= outcome.left.is_claimed;
        if let Some(until_ms) = outcome.until_ms
            && state.due_ms.is_none_or(|due_ms| until_ms < due_ms)
        {
            state.due_ms = Some(until_ms);
            self.timers.add(until_ms, Due::Ledger(ledger));
        }
        let Some(flight) = outcome.flight else { return };
        state.is_lost = false;
        self.met.insert(state.slot);
        let Flight { id, settings, take, purpose, .. } = flight;
        if let Some(before) = state.flight.replace(flight) {
            self.flights.remove(&before.id);
        }
        self.flights.insert(id, ledger);
        self.figures.add(LeaseCounter::Claims, u64::from(outcome.is_claim));
        let is_return = !matches!(purpose, Purpose::Own | Purpose::Settles | Purpose::Reports);
        self.figures.add(LeaseCounter::Returns, u64::from(is_return));
        self.actions.push(Action::Send { id, ledger, settings, take });
    }

    /// Notes that a part of a request is reserved. The request is complete now, or its next part
    /// may be reserved.
    fn note_reserved(&mut self, id: u64, ledger: LedgerId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let count = request.missing(&ledger).unwrap_or(0);
        request.reserve(&ledger);
        let (until_ms, next) = (request.parts.deadline_ms, request.next());
        let is_complete = request.is_complete();
        if let Some(state) = self.ledgers.get_mut(&ledger) {
            state.reservations.0.push(Reserved { count, until_ms });
        }
        if is_complete {
            // The reserved uses are for its next run.
            if let Some(request) = self.requests.remove(&id) {
                self.end(request.tickets, NeedEnd::Answered);
            }
        } else if let Some(next) = next {
            self.look_soon(next);
        }
    }

    /// Ends a request before it is complete. Its reserved uses are spendable again.
    pub(super) fn end_request(&mut self, id: u64, end: NeedEnd) {
        self.end_request_by(id, |_| end);
    }

    /// Ends a request because a part of it is refused. Keys whose ledger has yet to answer a
    /// question stay without an answer.
    fn refuse_request(&mut self, id: u64) {
        let Some(request) = self.requests.get(&id) else { return };
        let states = request.unanswered.iter().filter_map(|ledger| self.ledgers.get(ledger));
        let unanswered: Vec<N::Key> = states.map(|state| state.key.clone()).collect();
        self.end_request_by(id, |key| match unanswered.contains(key) {
            true => NeedEnd::Unserved,
            false => NeedEnd::Answered,
        });
    }

    /// Ends a request with an end for each key, and releases its reserved uses.
    fn end_request_by(&mut self, id: u64, end: impl Fn(&N::Key) -> NeedEnd) {
        let Some(request) = self.requests.remove(&id) else { return };
        let until_ms = request.parts.deadline_ms;
        for part in request.reserved() {
            if let Some(state) = self.ledgers.get_mut(&part.key) {
                state.reservations.release(Reserved { count: part.count, until_ms });
            }
            self.look_soon(part.key);
        }
        let ledgers: Vec<LedgerId> = request.ledgers().collect();
        for (ticket, key) in request.tickets.into_iter().zip(&request.keys) {
            self.needs -= 1;
            self.finish(ticket, end(key));
        }
        // Another request may be the first to wait now.
        ledgers.into_iter().for_each(|ledger| self.look_soon(ledger));
    }

    pub(super) fn end(&mut self, tickets: Vec<N::Ticket>, end: NeedEnd) {
        self.needs -= tickets.len();
        tickets.into_iter().for_each(|ticket| self.finish(ticket, end));
    }

    fn finish(&mut self, ticket: N::Ticket, end: NeedEnd) {
        self.actions.push(Action::Finish { ticket, end });
    }

    /// Forgets a ledger where nothing is going on.
    fn forget(&mut self, ledger: LedgerId, now_ms: u64) {
        let Some(state) = self.ledgers.get_mut(&ledger) else { return };
        if state.is_over(now_ms) {
            self.ledgers.remove(&ledger);
            return;
        }
        let Reserved { count, until_ms } = state.reservations.at(now_ms);
        if state.due_ms.is_none() && count > 0 {
            state.due_ms = Some(until_ms);
            self.timers.add(until_ms, Due::Ledger(ledger));
        }
    }
}

/// Other limits share the log of this one, but only one of them reports returned uses. So uses that
/// leave the log are taken out of the others here. Returns the ledgers of the others, which are to
/// be looked at.
fn take_out_beside(leased: &mut [Leased], nth: usize, count: u64) -> Vec<LedgerId> {
    let own = leased[nth].ledger;
    let is_beside = |other: &&mut Leased| {
        let has_log = matches!(other.settings.kind, Kind::Sliding { .. });
        has_log && other.ledger.key == own.key && other.ledger != own
    };
    let beside = leased.iter_mut().filter(|_| count > 0).filter(is_beside);
    let take_out = |other: &mut Leased| {
        other.holding.used = other.holding.used.saturating_sub(count);
        other.holding.lease.has_returned = true;
        other.ledger
    };
    beside.map(take_out).collect()
}
