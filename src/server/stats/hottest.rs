//! The most used keys of each business, as found by the sweep over all nodes.
//!
//! Invariant: memory is bounded by a number of keys for each of a number of businesses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::history::BIZS_MAX;
use super::snapshot::{HotKey, Stats};
use frs_engine::Seen;

/// The most keys that are kept of a business.
pub const KEYS: usize = 10;

/// The hottest keys by the id of their business.
#[derive(Debug, Default)]
pub struct Hottest {
    /// The least used key of a business comes first.
    bizs: BTreeMap<u32, BinaryHeap<Reverse<HotKey>>>,
}

impl Hottest {
    /// Adds a node if it is one of the hottest of its business so far.
    pub fn note(&mut self, seen: &Seen<'_>) {
        if seen.used == 0 || !self.bizs.contains_key(&seen.biz_id) && self.bizs.len() == BIZS_MAX {
            return;
        }
        let keys = self.bizs.entry(seen.biz_id).or_default();
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

    /// Writes the hottest keys into `stats`, the most used first.
    pub fn fill(&self, stats: &mut Stats) {
        for biz in &mut stats.bizs {
            let Some(keys) = biz.id().and_then(|id| self.bizs.get(&id)) else { continue };
            let sorted = keys.clone().into_sorted_vec();
            biz.hottest = sorted.into_iter().map(|Reverse(key)| key).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs_conf::KeyType;
    use frs_conf::key::{KeyField, Seed};

    fn note(hottest: &mut Hottest, biz_id: u32, key: &str, used: u64, last_use_ms: u64) {
        let mut field = KeyField::default();
        field.encode(KeyType::String, key.as_bytes(), 24, Seed([0; 2])).unwrap();
        hottest.note(&Seen { biz_id, key: field.key(), used, last_use_ms });
    }

    fn keys(hottest: &Hottest, id: u32) -> Vec<(String, u64)> {
        let mut stats =
            Stats { bizs: vec![crate::stats::snapshot::unnamed(id)], ..Stats::default() };
        hottest.fill(&mut stats);
        stats.bizs.remove(0).hottest.into_iter().map(|hot| (hot.key, hot.used)).collect()
    }

    #[test]
    fn the_hottest_are_kept_in_order() {
        let mut hottest = Hottest::default();
        // Of keys with equal use, those used last are kept. A key without use is left out.
        for nth in 0..30 {
            note(&mut hottest, 1, &format!("k{nth}"), nth / 10, nth);
        }
        note(&mut hottest, 2, "other", 1, 0);
        let expected: Vec<(String, u64)> =
            (20..30).rev().map(|nth| (format!("k{nth}"), 2)).collect();
        assert_eq!(keys(&hottest, 1), expected);
        assert_eq!(keys(&hottest, 2), [("other".to_owned(), 1)]);
        assert_eq!(keys(&hottest, 3), []);
    }

    #[test]
    fn memory_is_bounded() {
        let mut hottest = Hottest::default();
        for id in 0..2 * BIZS_MAX as u32 {
            note(&mut hottest, id, "k", 1, 1);
        }
        assert_eq!(hottest.bizs.len(), BIZS_MAX);
    }
}
