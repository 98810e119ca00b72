//! Requests that wait for leases: one item, or all items of an atomic request.
//!
//! Invariant: a part of a request is reserved in the node of its ledger only while all lower parts
//! are reserved (rule 9).

use frs_engine::NeedKind;

use super::nodes::Nodes;
use crate::lease::{Parked, RequestPart};
use crate::name::LedgerId;

/// A need, as the loop has taken it from a ring.
#[derive(Debug, Clone)]
pub struct AskedNeed<N: Nodes> {
    /// Names the need when it is finished.
    pub ticket: N::Ticket,
    /// The item.
    pub key: N::Key,
    /// Uses that the item charges in all.
    pub count: u64,
    /// What the item asks for. Never [`NeedKind::Fetch`].
    pub kind: NeedKind,
    /// When nobody waits any more, CLOCK_BOOTTIME.
    pub deadline_ms: u64,
    /// The atomic request that the item belongs to.
    pub atomic: Option<AtomicRequest>,
}

/// An atomic request, which its needs name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomicRequest {
    /// The slot that asks.
    pub slot: u32,
    /// The number of the request in this slot.
    pub number: u64,
    /// The number of its needs.
    pub needs: u32,
}

/// A request that waits.
#[derive(Debug)]
pub struct Request<N: Nodes> {
    /// Its needs, which are finished together.
    pub tickets: Vec<N::Ticket>,
    /// The item of each need.
    pub keys: Vec<N::Key>,
    /// What it needs, and until when.
    pub parts: Parked<LedgerId>,
    reserved: Vec<bool>,
    /// Ledgers that have yet to answer a question about their state.
    pub unanswered: Vec<LedgerId>,
}

impl<N: Nodes> Request<N> {
    /// A request with the parts and questions of its needs.
    pub fn new(
        (tickets, keys): (Vec<N::Ticket>, Vec<N::Key>),
        parts: Vec<RequestPart<LedgerId>>,
        unanswered: Vec<LedgerId>,
        deadline_ms: u64,
    ) -> Request<N> {
        let parts = Parked::new(parts, deadline_ms);
        let reserved = vec![false; parts.parts().len()];
        Request { tickets, keys, parts, reserved, unanswered }
    }

    /// Its ledgers, lowest first.
    pub fn ledgers(&self) -> impl Iterator<Item = LedgerId> + '_ {
        let asked = self.unanswered.iter().copied();
        self.parts.parts().iter().map(|part| part.key).chain(asked)
    }

    /// The uses that it still needs of a ledger. `None` if they are reserved, or if the ledger is
    /// not one of its parts.
    pub fn missing(&self, ledger: &LedgerId) -> Option<u64> {
        let nth = self.nth(ledger)?;
        (!self.reserved[nth]).then(|| self.parts.parts()[nth].count)
    }

    /// Whether all lower parts are reserved.
    pub fn is_next(&self, ledger: &LedgerId) -> bool {
        self.nth(ledger).is_some_and(|nth| self.reserved[..nth].iter().all(|reserved| *reserved))
    }

    /// Whether it may ask this ledger now.
    pub fn may_ask(&self, ledger: &LedgerId) -> bool {
        let in_hand = |key: &LedgerId| match self.nth(key) {
            Some(nth) if self.reserved[nth] => u64::MAX,
            _ => 0,
        };
        self.parts.asks(in_hand).any(|part| part.key == *ledger)
    }

    /// Marks a part as reserved.
    pub fn reserve(&mut self, ledger: &LedgerId) {
        if let Some(nth) = self.nth(ledger) {
            self.reserved[nth] = true;
        }
    }

    /// The reserved parts.
    pub fn reserved(&self) -> impl Iterator<Item = RequestPart<LedgerId>> + '_ {
        let parts = self.parts.parts().iter().zip(&self.reserved);
        parts.filter_map(|(part, reserved)| reserved.then_some(*part))
    }

    /// The lowest part that is not reserved.
    pub fn next(&self) -> Option<LedgerId> {
        let nth = self.reserved.iter().position(|reserved| !reserved)?;
        Some(self.parts.parts()[nth].key)
    }

    /// Whether it has all that it waits for.
    pub fn is_complete(&self) -> bool {
        self.unanswered.is_empty() && self.reserved.iter().all(|reserved| *reserved)
    }

    /// Notes that a ledger had too few uses for it.
    pub fn was_short(&mut self) {
        self.parts.was_short();
    }

    fn nth(&self, ledger: &LedgerId) -> Option<usize> {
        self.parts.parts().binary_search_by_key(ledger, |part| part.key).ok()
    }
}
