//! What a sweep over all nodes finds of each business: its most used keys, how many holds live, and
//! how many registers there are.
//!
//! Invariant: memory is bounded by a number of keys for each of a number of businesses, and by a
//! number for each business with holds or registers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::history::BIZS_MAX;
use super::snapshot::{HotKey, Stats};
use frs_engine::Seen;

/// The most keys that are kept of a business.
pub const KEYS: usize = 10;

/// The findings of a sweep, by the ids of the businesses.
#[derive(Debug, Default)]
pub struct Swept {
    /// The hottest keys. The least used key of a business comes first.
    hottest: BTreeMap<u32, BinaryHeap<Reverse<HotKey>>>,
    /// The numbers of live holds, without zeros.
    holds: BTreeMap<u32, u64>,
    /// The numbers of registers, without zeros.
    registers: BTreeMap<u32, u64>,
}

impl Swept {
    /// Adds a node.
    pub fn note(&mut self, seen: &Seen<'_>) {
        if seen.live_holds > 0 {
            *self.holds.entry(seen.biz_id).or_default() += seen.live_holds as u64;
        }
        if seen.is_register {
            *self.registers.entry(seen.biz_id).or_default() += 1;
        }
        self.note_if_hot(seen);
    }

    /// Adds a node if it is one of the hottest of its business so far.
    fn note_if_hot(&mut self, seen: &Seen<'_>) {
        let is_full = self.hottest.len() == BIZS_MAX;
        if seen.used == 0 || is_full && !self.hottest.contains_key(&seen.biz_id) {
            return;
        }
        let keys = self.hottest.entry(seen.biz_id).or_default();
        let is_hot = |Reverse(least): &Reverse<HotKey>| {
            (seen.used, seen.last_use_ms) > (least.used, least.last_ms)
        };
        if keys.len() < KEYS || keys.peek().is_some_and(is_hot) {
            let (used, last_ms, key) = (seen.used, seen.last_use_ms, seen.key.to_string());
            keys.push(Reverse(HotKey { used, last_ms, key }));
            if keys.len() > KEYS {
                keys.pop();
            }
        }
    }

    /// Writes the findings into `stats`. Of the hottest keys the most used comes first.
    pub fn fill(&self, stats: &mut Stats) {
        for biz in &mut stats.bizs {
            let Some(id) = biz.id() else { continue };
            if biz.has_holds {
                biz.holds = Some(self.holds.get(&id).copied().unwrap_or(0));
            }
            if biz.has_registers {
                biz.registers = Some(self.registers.get(&id).copied().unwrap_or(0));
            }
            let Some(keys) = self.hottest.get(&id) else { continue };
            let sorted = keys.clone().into_sorted_vec();
            biz.hottest = sorted.into_iter().map(|Reverse(key)| key).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::snapshot::BizSnapshot;
    use frs_conf::KeyType;
    use frs_conf::key::{KeyField, Seed};

    fn note(swept: &mut Swept, biz_id: u32, key: &str, used: u64, last_use_ms: u64) {
        let mut field = KeyField::default();
        field.encode(KeyType::String, key.as_bytes(), 24, Seed([0; 2])).unwrap();
        swept.note(&Seen {
            biz_id,
            key: field.key(),
            used,
            live_holds: 2,
            is_register: biz_id == 4,
            last_use_ms,
        });
    }

    fn keys(swept: &Swept, id: u32) -> Vec<(String, u64)> {
        let mut stats =
            Stats { bizs: vec![crate::stats::snapshot::unnamed(id)], ..Stats::default() };
        swept.fill(&mut stats);
        stats.bizs.remove(0).hottest.into_iter().map(|hot| (hot.key, hot.used)).collect()
    }

    #[test]
    fn the_hottest_are_kept_in_order() {
        let mut swept = Swept::default();
        // Of keys with equal use, those used last are kept. A key without use is left out.
        for nth in 0..30 {
            note(&mut swept, 1, &format!("k{nth}"), nth / 10, nth);
        }
        note(&mut swept, 2, "other", 1, 0);
        let expected: Vec<(String, u64)> =
            (20..30).rev().map(|nth| (format!("k{nth}"), 2)).collect();
        assert_eq!(keys(&swept, 1), expected);
        assert_eq!(keys(&swept, 2), [("other".to_owned(), 1)]);
        assert_eq!(keys(&swept, 3), []);
    }

    #[test]
    fn memory_is_bounded() {
        let mut swept = Swept::default();
        for id in 0..2 * BIZS_MAX as u32 {
            note(&mut swept, id, "k", 1, 1);
        }
        assert_eq!(swept.hottest.len(), BIZS_MAX);
    }

    #[test]
    fn live_holds_are_counted_where_a_business_has_holds() {
        let mut swept = Swept::default();
        // A key without use counts, too.
        for (id, used) in [(1, 0), (1, 5), (2, 5)] {
            note(&mut swept, id, "k", used, 1);
        }
        let biz = |id, has_holds| BizSnapshot { has_holds, ..crate::stats::snapshot::unnamed(id) };
        let bizs = vec![biz(1, true), biz(2, false), biz(3, true)];
        let mut stats = Stats { bizs, ..Stats::default() };
        swept.fill(&mut stats);
        let found: Vec<_> = stats.bizs.iter().map(|biz| biz.holds).collect();
        assert_eq!(found, [Some(4), None, Some(0)]);
    }

    #[test]
    fn registers_are_counted_where_a_business_has_them() {
        let mut swept = Swept::default();
        for (id, key) in [(4, "a"), (4, "b"), (1, "a")] {
            note(&mut swept, id, key, 0, 1);
        }
        let biz = |id, has_registers| BizSnapshot {
            has_registers,
            ..crate::stats::snapshot::unnamed(id)
        };
        let bizs = vec![biz(4, true), biz(1, false), biz(5, true)];
        let mut stats = Stats { bizs, ..Stats::default() };
        swept.fill(&mut stats);
        let found: Vec<_> = stats.bizs.iter().map(|biz| biz.registers).collect();
        assert_eq!(found, [Some(2), None, Some(0)]);
    }
}
