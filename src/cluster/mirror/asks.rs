//! Items that wait for what peers know of their keys.
//!
//! Invariant: each is finished once: when all peers that were asked have answered or are gone, or
//! when its time is over.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use frs_engine::StoredKey;

/// The question about one key.
#[derive(Debug)]
struct Ask<T> {
    key: StoredKey,
    tickets: Vec<T>,
    deadline_ms: u64,
    /// The peers that have not answered.
    peers: BTreeSet<usize>,
}

/// All questions under way.
#[derive(Debug)]
pub struct Asks<T> {
    by_id: BTreeMap<u64, Ask<T>>,
    by_key: HashMap<StoredKey, u64>,
    last_id: u64,
}

impl<T> Default for Asks<T> {
    fn default() -> Asks<T> {
        Asks { by_id: BTreeMap::new(), by_key: HashMap::new(), last_id: 0 }
    }
}

impl<T: Copy> Asks<T> {
    /// Adds an item that waits. The number of the question, if these peers are to be asked: another
    /// item may have asked already.
    pub fn add(
        &mut self,
        key: StoredKey,
        ticket: T,
        deadline_ms: u64,
        peers: &BTreeSet<usize>,
    ) -> Option<u64> {
        if let Some(ask) = self.by_key.get(&key).and_then(|id| self.by_id.get_mut(id)) {
            ask.tickets.push(ticket);
            ask.deadline_ms = ask.deadline_ms.max(deadline_ms);
            return None;
        }
        self.last_id += 1;
        let ask = Ask { key, tickets: vec![ticket], deadline_ms, peers: peers.clone() };
        self.by_id.insert(self.last_id, ask);
        self.by_key.insert(key, self.last_id);
        Some(self.last_id)
    }

    /// A peer has answered.
    pub fn answered(&mut self, id: u64, peer: usize) {
        if let Some(ask) = self.by_id.get_mut(&id) {
            ask.peers.remove(&peer);
        }
    }

    /// The questions that this peer has not answered.
    pub fn of(&self, peer: usize) -> Vec<(u64, StoredKey)> {
        let open = self.by_id.iter().filter(|(_, ask)| ask.peers.contains(&peer));
        open.map(|(&id, ask)| (id, ask.key)).collect()
    }

    /// A peer is gone, and answers nothing any more.
    pub fn forget(&mut self, peer: usize) {
        self.by_id.values_mut().for_each(|ask| _ = ask.peers.remove(&peer));
    }

    /// The items whose wait is over.
    pub fn finished(&mut self, boot_ms: u64) -> Vec<T> {
        let is_over = |ask: &Ask<T>| ask.peers.is_empty() || ask.deadline_ms <= boot_ms;
        let over: Vec<u64> =
            self.by_id.iter().filter(|(_, ask)| is_over(ask)).map(|(&id, _)| id).collect();
        let mut finished = Vec::new();
        for id in over {
            let Some(ask) = self.by_id.remove(&id) else { continue };
            self.by_key.remove(&ask.key);
            finished.extend(ask.tickets);
        }
        finished
    }

    /// When the time of an item is over.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.by_id.values().map(|ask| ask.deadline_ms).min()
    }
}

#[cfg(test)]
mod tests {
    use frs_conf::key::KeyRef;

    use super::*;

    #[test]
    fn an_item_goes_on_when_all_have_answered_or_are_gone_or_its_time_is_over() {
        let (mut asks, key) = (Asks::default(), StoredKey::of_key(1, KeyRef::BIZ));
        let other = StoredKey::of_key(2, KeyRef::BIZ);
        let both = BTreeSet::from([0, 1]);
        let first = asks.add(key, 'a', 100, &both).expect("asks");
        assert_eq!(asks.add(key, 'b', 120, &both), None, "asked already");
        let second = asks.add(other, 'c', 90, &both).expect("asks");
        assert_eq!(asks.of(0), [(first, key), (second, other)]);
        asks.answered(first, 0);
        asks.answered(first, 0);
        assert_eq!((asks.of(0), asks.of(1).len()), (vec![(second, other)], 2));
        assert_eq!((asks.finished(50), asks.deadline_ms()), (vec![], Some(90)));
        asks.forget(1);
        assert_eq!(asks.finished(50), ['a', 'b']);
        asks.answered(second, 7);
        assert_eq!((asks.finished(89), asks.finished(90)), (vec![], vec!['c']));
        assert!(asks.add(key, 'd', 1, &both).is_some(), "a new question");
    }
}
