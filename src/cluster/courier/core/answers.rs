//! Takes in the answers of the cluster, and the news of other hosts.
//!
//! Invariant: an answer is applied only to the message that is under way. Any other answer is void.

use frs_engine::NeedEnd;

use super::actions::Action;
use super::ledger_state::{Flight, Purpose};
use super::nodes::{Nodes, Now};
use super::recalls::{PAUSE_MS, Question};
use super::state::Core;
use super::timers::Due;
use crate::figures::LeaseCounter;
use crate::lease::{Granted, Incarnation, Kind, Received, Taken};
use crate::ledger::{Answer, NoAnswer, Reply};
use crate::name::LedgerId;
use crate::news::{News, NewsKind};

impl<N: Nodes> Core<N> {
    /// Takes in the answer to a message.
    pub fn answered(&mut self, nodes: &mut N, now: Now, id: u64, answer: Result<Reply, NoAnswer>) {
        let Some(ledger) = self.flights.remove(&id) else { return };
        let Some(state) = self.ledgers.get_mut(&ledger) else { return };
        let Some(flight) = state.flight.take() else { return };
        let slot = state.slot;
        match answer {
            Ok(reply) => {
                self.reach.reached(slot);
                self.replied(nodes, now, ledger, &flight, reply);
            }
            Err(NoAnswer::Lost) => self.lost(ledger),
            Err(NoAnswer::Down) => self.down(ledger, slot, now.boot_ms),
            Err(NoAnswer::Unfit) => {
                for id in std::mem::take(&mut state.waiting) {
                    self.end_request(id, NeedEnd::Unserved);
                }
                self.look_soon(ledger);
            }
        }
    }

    fn replied(
        &mut self,
        nodes: &mut N,
        now: Now,
        ledger: LedgerId,
        flight: &Flight,
        reply: Reply,
    ) {
        let Reply { learning_ms, answer } = reply;
        let taken = match answer {
            Answer::Taken(taken) => taken,
            Answer::Conflict { taken, .. } => {
                self.figures.add(LeaseCounter::Conflicts, 1);
                taken
            }
            Answer::OtherWindow { .. } if flight.names_later_windows => {
                // The master's time has moved on since: the message is repeated after a pause.
                return self.lost(ledger);
            }
            Answer::OtherWindow { now_ms } => {
                if let Some(state) = self.ledgers.get_mut(&ledger) {
                    state.reasons.master_ms = Some(now_ms);
                }
                return self.look_soon(ledger);
            }
        };
        if let Taken::Granted(granted) = &taken {
            // A limit that refuses nothing has no maximum to exceed.
            let is_over = granted.over > 0 && flight.purpose != Purpose::Reports;
            self.figures.add(LeaseCounter::Over, u64::from(is_over));
            self.publish_again(ledger, flight, granted);
            self.find_users(ledger, flight, granted, now.boot_ms);
        }
        // An answer without the window does not answer a question for it.
        let end = match taken {
            Taken::Stale => NeedEnd::Unserved,
            Taken::Nothing if learning_ms > 0 => NeedEnd::Unserved,
            Taken::Nothing | Taken::Granted(_) => NeedEnd::Answered,
        };
        self.end_asking(ledger, flight.id, end);
        let Flight { settings, take, .. } = *flight;
        let received = Received { settings, take, taken, learning_ms, now_ms: now.boot_ms };
        self.turn(nodes, now, ledger, Some(received));
    }

    /// Has a message without an answer repeated after its pause.
    fn lost(&mut self, ledger: LedgerId) {
        if let Some(state) = self.ledgers.get_mut(&ledger) {
            state.is_lost = true;
        }
        self.look_soon(ledger);
    }

    /// Looks at all ledgers of a slot that cannot be reached, as their requests need not wait.
    fn down(&mut self, ledger: LedgerId, slot: u16, now_ms: u64) {
        let was_open = self.reach.is_open(slot, now_ms);
        self.reach.lose(slot, now_ms);
        self.look_soon(ledger);
        if !was_open {
            return;
        }
        let there = self.ledgers.iter().filter(|(_, state)| state.slot == slot);
        let ledgers: Vec<LedgerId> = there.map(|(ledger, _)| *ledger).collect();
        ledgers.into_iter().for_each(|ledger| self.look_soon(ledger));
    }

    /// Answers the questions about the ledger's state of all requests before this id.
    pub(super) fn end_asking(&mut self, ledger: LedgerId, before: u64, end: NeedEnd) {
        let Some(state) = self.ledgers.get(&ledger) else { return };
        let waiting: Vec<u64> = state.waiting.iter().copied().filter(|id| *id < before).collect();
        for id in waiting {
            let Some(request) = self.requests.get_mut(&id) else { continue };
            if !request.unanswered.contains(&ledger) {
                continue;
            }
            request.unanswered.retain(|asked| *asked != ledger);
            if request.is_complete() || end != NeedEnd::Answered {
                self.end_request(id, end);
            }
        }
    }

    /// Takes in the news of a host.
    pub fn news(&mut self, nodes: &N, news: News<N::Key>) {
        let News { ledger, key, kind } = news;
        match kind {
            NewsKind::Recall { holders, .. } if !holders.contains(&nodes.incarnation()) => return,
            NewsKind::Recall { .. } => self.state_of(ledger, &key).reasons.is_recalled = true,
            NewsKind::Again => self.state_of(ledger, &key).reasons.has_again = true,
        }
        self.look_soon(ledger);
    }

    /// Recalls the hosts that may have used returned uses: these uses are in their logs, or not
    /// reported yet. These hosts learn of the return, or report their uses, when they answer the
    /// recall.
    fn find_users(&mut self, ledger: LedgerId, flight: &Flight, granted: &Granted, now_ms: u64) {
        if flight.take.claim.extra >= 0 || flight.purpose == Purpose::Reports {
            return;
        }
        let Some(state) = self.ledgers.get_mut(&ledger) else { return };
        if granted.left == 0 {
            state.unplaced.forget_tries();
        } else if granted.others > 0
            && let Some(due_ms) = state.unplaced.add(granted.left, now_ms)
        {
            self.timers.add(due_ms, Due::Ledger(ledger));
        } else {
            // No host can have used them.
            return;
        }
        let is_in_logs = matches!(flight.settings.kind, Kind::Sliding { .. });
        if is_in_logs || granted.left > 0 {
            self.recall(ledger, granted.window, now_ms);
        }
    }

    /// Publishes that uses were returned, so that other hosts ask again.
    fn publish_again(&mut self, ledger: LedgerId, flight: &Flight, granted: &Granted) {
        let is_news = match flight.purpose {
            Purpose::Own | Purpose::Reports => false,
            Purpose::Settles | Purpose::AnswersRecall => granted.pool > 0,
            // No host was refused while the pool had uses.
            Purpose::Returns { count } => {
                granted.pool > 0 && i128::from(granted.pool) <= i128::from(count)
            }
        };
        if let (true, Some(state)) = (is_news, self.ledgers.get(&ledger)) {
            let key = state.key.clone();
            self.actions.push(Action::Publish(News { ledger, key, kind: NewsKind::Again }));
        }
    }

    /// Recalls the holders now, or after the pause between two recalls.
    pub(super) fn recall(&mut self, ledger: LedgerId, window: u64, now_ms: u64) {
        if self.ask_holders(ledger, window, now_ms) {
            return;
        }
        if let Some(state) = self.ledgers.get_mut(&ledger)
            && state.recalls.replace(window).is_none()
        {
            self.timers.add(now_ms + PAUSE_MS, Due::Ledger(ledger));
        }
    }

    /// Asks for the holders, to recall their leases; for a ledger at most once in a pause. False if
    /// it may not ask now.
    pub(super) fn ask_holders(&mut self, ledger: LedgerId, window: u64, now_ms: u64) -> bool {
        let Some(state) = self.ledgers.get(&ledger) else { return true };
        let key = state.key.clone();
        let may_ask =
            self.questions.len() < self.bounds.messages && self.recalls.begin(ledger, now_ms);
        if may_ask {
            let id = self.new_id();
            self.questions.insert(id, Question { ledger, key, window });
            self.actions.push(Action::AskHolders { id, ledger });
        }
        may_ask
    }

    /// Takes in the hosts with unspent uses of a ledger. `None` if no answer is known.
    pub fn holders(&mut self, nodes: &N, id: u64, hosts: Option<Vec<Incarnation>>) {
        let Some(Question { ledger, key, window }) = self.questions.remove(&id) else { return };
        let Some(mut holders) = hosts else { return };
        holders.retain(|host| *host != nodes.incarnation());
        if !holders.is_empty() {
            self.figures.add(LeaseCounter::Recalls, 1);
            let kind = NewsKind::Recall { window, holders };
            self.actions.push(Action::Publish(News { ledger, key, kind }));
        }
    }
}
