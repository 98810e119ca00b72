//! When the leases of a key are recalled: at most once in a pause.
//!
//! Invariant: the memory holds only the recalls of the last pause.

use std::collections::{HashMap, VecDeque};

use crate::name::LedgerId;

/// The pause between two recalls of a key.
pub const PAUSE_MS: u64 = 200;

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
