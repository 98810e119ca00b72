//! Memory for registers, fetched before the transactions that need it.
//!
//! Invariant: nothing is locked or changed, and no result depends on it. Keys that are expected in
//! vain only cost time.

use super::stored_key;
use crate::Service;

/// The most registers whose memory is fetched together.
pub const EXPECTED_REGISTERS: usize = 16;

impl Service {
    /// Fetches the memory of registers that the next transactions are about, the first
    /// [`EXPECTED_REGISTERS`] of them. So these wait for memory once, together.
    pub fn expect_registers(&mut self, biz: usize, database: u16, keys: &[&[u8]]) {
        let Some(entry) = self.table.get(biz).filter(|entry| entry.is_available()) else { return };
        let (field, text, wanted) = self.registers.for_expected();
        for key in keys.iter().take(EXPECTED_REGISTERS) {
            let stored = stored_key(database, key, text);
            if entry.encode(stored, field).is_ok() {
                wanted.extend(entry.locate(&field.key()));
            }
        }
        // Prefetches that follow each other directly wait together.
        let mut homes = [0; EXPECTED_REGISTERS];
        for (wanted, home) in wanted.iter().zip(&mut homes) {
            *home = self.handle.prefetch_head(wanted);
        }
        for (wanted, home) in wanted.iter().zip(homes) {
            self.handle.prefetch_node(wanted, Some(home));
        }
    }
}
