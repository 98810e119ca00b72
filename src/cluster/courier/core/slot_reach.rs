//! Which slots of the cluster can be reached.
//!
//! Invariant: a slot whose master was not connected is tried again after a bounded pause. No slot
//! is given up for good.

use std::collections::HashMap;

/// The pause before a slot that could not be reached is tried again.
const PAUSE_MS: u64 = 100;

/// Slots that cannot be reached, and when each is tried again.
#[derive(Debug, Default)]
pub struct Reach(HashMap<u16, u64>);

impl Reach {
    /// Notes that the slot's master is not connected.
    pub fn lose(&mut self, slot: u16, now_ms: u64) {
        self.0.insert(slot, now_ms.saturating_add(PAUSE_MS));
    }

    /// Notes that the slot's master has answered.
    pub fn reached(&mut self, slot: u16) {
        // Usually all slots can be reached, and the map is empty.
        if !self.0.is_empty() {
            self.0.remove(&slot);
        }
    }

    /// Tries all slots again, as a master is connected again and its slots are not known yet.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether a message may be sent there.
    pub fn is_open(&self, slot: u16, now_ms: u64) -> bool {
        self.0.get(&slot).is_none_or(|until_ms| now_ms >= *until_ms)
    }
}
