//! Items that wait for what peers know of their keys.
//!
//! Invariant: each is finished once: when all peers that were asked have answered or are gone, or
//! when its time is over.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use frs_engine::StoredKey;

/// Until when an item waits, in milliseconds of CLOCK_BOOTTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskTime {
    /// Without an answer.
    pub answer_ms: u64,
    /// With an answer that cannot be taken in yet.
    pub longest_ms: u64,
}

/// The question about one key.
#[derive(Debug)]
struct Ask<T> {
    key: StoredKey,
    tickets: Vec<T>,
    time: AskTime,
    /// The peers that have not answered.
    peers: BTreeSet<usize>,
    /// Those of them whose answer cannot be taken in yet.
    early: BTreeSet<usize>,
}

impl<T> Ask<T> {
    fn remove(&mut self, peer: usize) {
        self.peers.remove(&peer);
        self.early.remove(&peer);
    }

    fn deadline_ms(&self) -> u64 {
        if self.early.is_empty() { self.time.answer_ms } else { self.time.longest_ms }
    }
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
        time: AskTime,
        peers: &BTreeSet<usize>,
    ) -> Option<u64> {
        if let Some(ask) = self.by_key.get(&key).and_then(|id| self.by_id.get_mut(id)) {
            ask.tickets.push(ticket);
            ask.time.answer_ms = ask.time.answer_ms.max(time.answer_ms);
            ask.time.longest_ms = ask.time.longest_ms.max(time.longest_ms);
            return None;
        }
        self.last_id += 1;
        let (tickets, peers) = (vec![ticket], peers.clone());
        let ask = Ask { key, tickets, time, peers, early: BTreeSet::new() };
        self.by_id.insert(self.last_id, ask);
        self.by_key.insert(key, self.last_id);
        Some(self.last_id)
    }

    /// A peer has answered.
    pub fn answered(&mut self, id: u64, peer: usize) {
        if let Some(ask) = self.by_id.get_mut(&id) {
            ask.remove(peer);
        }
    }

    /// The questions that this peer has not answered.
    pub fn of(&self, peer: usize) -> Vec<(u64, StoredKey)> {
        let open = self.by_id.iter().filter(|(_, ask)| ask.peers.contains(&peer));
        open.map(|(&id, ask)| (id, ask.key)).collect()
    }

    /// A peer has answered, and its record cannot be taken in yet. False: the wait is over.
    pub fn answered_early(&mut self, id: u64, peer: usize) -> bool {
        let ask = self.by_id.get_mut(&id).filter(|ask| ask.peers.contains(&peer));
        ask.map(|ask| ask.early.insert(peer)).is_some()
    }

    /// A peer is gone, and answers nothing any more.
    pub fn forget(&mut self, peer: usize) {
        self.by_id.values_mut().for_each(|ask| ask.remove(peer));
    }

    /// The items whose wait is over.
    pub fn finished(&mut self, boot_ms: u64) -> Vec<T> {
        let is_over = |ask: &Ask<T>| ask.peers.is_empty() || ask.deadline_ms() <= boot_ms;
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
        self.by_id.values().map(Ask::deadline_ms).min()
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
        let time = |answer_ms| AskTime { answer_ms, longest_ms: 500 };
        let first = asks.add(key, 'a', time(100), &both).expect("asks");
        assert_eq!(asks.add(key, 'b', time(120), &both), None, "asked already");
        let second = asks.add(other, 'c', time(90), &both).expect("asks");
        assert_eq!(asks.of(0), [(first, key), (second, other)]);
        asks.answered(first, 0);
        asks.answered(first, 0);
        assert_eq!((asks.of(0), asks.of(1).len()), (vec![(second, other)], 2));
        assert_eq!((asks.finished(50), asks.deadline_ms()), (vec![], Some(90)));
        asks.forget(1);
        assert_eq!(asks.finished(50), ['a', 'b']);
        asks.answered(second, 7);
        assert_eq!((asks.finished(89), asks.finished(90)), (vec![], vec!['c']));
        assert!(asks.add(key, 'd', time(1), &both).is_some(), "a new question");
    }

    #[test]
    fn an_answer_that_cannot_be_taken_in_yet_is_waited_for_longer() {
        let (mut asks, key) = (Asks::default(), StoredKey::of_key(1, KeyRef::BIZ));
        let both = BTreeSet::from([0, 1]);
        let time = AskTime { answer_ms: 50, longest_ms: 500 };
        let id = asks.add(key, 'a', time, &both).expect("asks");
        assert!(asks.answered_early(id, 0) && !asks.answered_early(id, 2));
        assert_eq!((asks.finished(499), asks.deadline_ms()), (vec![], Some(500)));
        asks.answered(id, 0);
        assert_eq!(asks.deadline_ms(), Some(50), "the other peer has not answered");
        assert_eq!((asks.finished(50), asks.answered_early(id, 1)), (vec!['a'], false));
        let id = asks.add(key, 'b', time, &both).expect("asks");
        assert!(asks.answered_early(id, 1));
        asks.forget(1);
        assert_eq!(asks.finished(50), ['b'], "who is gone is not waited for");
    }
}
