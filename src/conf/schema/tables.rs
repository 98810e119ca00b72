//! The tables of ids and of holds, and the register, in the records of a business.
//!
//! Invariant: only the records of keys have them.

use super::calls::{HOLD_BYTES, ONCE_BYTES, TABLE_HEADER_BYTES};
use super::map::{Biz, Policy};
use super::register::RegisterRoom;
use super::scope::Scope;

impl Biz {
    /// 64-bit words of the ids that a record of a scope remembers. 0 without `once`.
    pub fn once_words(&self, scope: Scope) -> usize {
        let once = self.once.filter(|_| scope == Scope::Key);
        once.map_or(0, |once| table_words(once.ids.into(), ONCE_BYTES))
    }

    /// 64-bit words of the holds of a record of a scope. 0 without `holds`.
    pub fn hold_words(&self, scope: Scope) -> usize {
        let holds = self.holds.filter(|_| scope == Scope::Key);
        holds.map_or(0, |holds| table_words(holds.entries.into(), HOLD_BYTES))
    }

    /// 64-bit words of the remembered ids and the holds of a record of a scope.
    pub fn table_words(&self, scope: Scope) -> usize {
        self.once_words(scope) + self.hold_words(scope)
    }

    /// 64-bit words of the register in a record of a scope. 0 without registers.
    pub fn register_words(&self, scope: Scope) -> usize {
        self.register.filter(|_| scope == Scope::Key).map_or(0, RegisterRoom::words)
    }

    /// Whether one of its limits is `concurrent`.
    pub fn is_concurrent(&self) -> bool {
        self.limits.iter().any(|limit| matches!(limit.policy, Policy::Concurrent(_)))
    }
}

/// 64-bit words of a table of so many entries of so many bytes.
const fn table_words(entries: u32, bytes: u32) -> usize {
    (TABLE_HEADER_BYTES + entries * bytes).div_ceil(8) as usize
}
