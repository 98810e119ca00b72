//! When the leases of a key are recalled: at most once in a pause.
//!
//! Invariant: the memory holds only the recalls of the last pause.

use std::collections::{HashMap, VecDeque};

use super::actions::Action;
use super::nodes::Nodes;
use super::state::Core;
use super::timers::Due;
use crate::figures::LeaseCounter;
use crate::lease::Incarnation;
use crate::name::LedgerId;
use crate::news::{News, NewsKind};

/// The pause between two recalls of a key.
const PAUSE_MS: u64 = 200;

/// The recent recalls.
#[derive(Debug, Default)]
pub struct Recalls {
    at_ms: HashMap<LedgerId, u64>,
    order: VecDeque<(u64, LedgerId)>,
}

impl Recalls {
    /// Whether the leases of this ledger may be recalled now. If so, the recall is noted.
    pub fn begin(&mut self, ledger: LedgerId, now_ms: u64) -> bool {
        while let Some((at_ms, old)) = self.order.front().copied() {
            if now_ms.saturating_sub(at_ms) < PAUSE_MS {
                break;
            }
            self.order.pop_front();
            self.at_ms.remove(&old);
        }
        if self.at_ms.contains_key(&ledger) {
            return false;
        }
        self.at_ms.insert(ledger, now_ms);
        self.order.push_back((now_ms, ledger));
        true
    }
}

/// A question for the holders of a ledger, to recall their leases.
#[derive(Debug)]
pub(super) struct Question<K> {
    pub ledger: LedgerId,
    pub key: K,
    pub window: u64,
}

impl<N: Nodes> Core<N> {
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
