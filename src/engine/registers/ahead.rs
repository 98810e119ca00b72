//! Memory for registers, fetched before the transactions that need it.
//!
//! Invariant: nothing is locked or changed, and no result depends on it. Keys that are expected in
//! vain only cost time.

use frs_conf::key::{KeyField, KeyRef};
use frs_store::Wanted;

use super::stored_key;
use crate::Service;

/// The most registers whose memory is fetched together.
pub const EXPECTED_REGISTERS: usize = 16;

/// The keys of the next transactions, and where they lead.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// The business, and the generation by which the places were found.
    of: (usize, u64),
    keys: Vec<KeyField>,
    places: Vec<Wanted>,
    /// How many of them have come.
    come: usize,
}

impl Expected {
    /// The place of a key, if it is expected. Those before it have come or never will.
    pub fn place_of(&mut self, biz: usize, generation: u64, key: &KeyRef<'_>) -> Option<Wanted> {
        if self.of != (biz, generation) {
            return None;
        }
        let mut rest = self.come..self.places.len();
        let at = rest.find(|&at| self.keys[at].key() == *key)?;
        self.come = at + 1;
        Some(self.places[at])
    }
}

impl Service {
    /// Fetches the memory of registers that the next transactions are about, the first
    /// [`EXPECTED_REGISTERS`] of them. So these wait for memory once, together.
    pub fn expect_registers(&mut self, biz: usize, database: u16, keys: &[&[u8]]) {
        let Some(entry) = self.table.get(biz).filter(|entry| entry.is_available()) else { return };
        let (text, expected) = (&mut self.registers.text, &mut self.registers.expected);
        (expected.of, expected.come) = ((biz, self.generation), 0);
        expected.places.clear();
        expected.keys.resize_with(EXPECTED_REGISTERS, KeyField::default);
        for key in keys.iter().take(EXPECTED_REGISTERS) {
            let field = &mut expected.keys[expected.places.len()];
            if entry.encode(stored_key(database, key, text), field).is_ok() {
                expected.places.extend(entry.locate(&field.key()));
            }
        }
        // Prefetches that follow each other directly wait together.
        let mut homes = [0; EXPECTED_REGISTERS];
        for (wanted, home) in expected.places.iter().zip(&mut homes) {
            *home = self.handle.prefetch_head(wanted);
        }
        for (wanted, home) in expected.places.iter().zip(homes) {
            self.handle.prefetch_node(wanted, Some(home));
        }
    }
}
