//! The order in which parked requests of several keys acquire their uses.
//!
//! Invariant: a request that waits has reserved uses of lower keys only. Ledger keys have one order
//! on all hosts, so requests never wait for each other in a circle: the request that waits for the
//! highest key waits for no other request.

/// Uses of one key that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestPart<K> {
    /// The ledger key.
    pub key: K,
    /// The number of uses.
    pub count: u64,
}

/// An atomic request that waits for leases.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Parked<K> {
    parts: Vec<RequestPart<K>>,
    /// When `on-miss` answers the request, CLOCK_BOOTTIME.
    pub deadline_ms: u64,
    is_in_order: bool,
}

impl<K: Ord + Copy> Parked<K> {
    /// A request that waits until its deadline, CLOCK_BOOTTIME. A key may occur in it several
    /// times.
    pub fn new(parts: impl IntoIterator<Item = RequestPart<K>>, deadline_ms: u64) -> Parked<K> {
        let mut sorted: Vec<RequestPart<K>> = parts.into_iter().collect();
        sorted.sort_by_key(|part| part.key);
        let mut parts: Vec<RequestPart<K>> = Vec::with_capacity(sorted.len());
        for part in sorted {
            match parts.last_mut() {
                Some(last) if last.key == part.key => {
                    last.count = last.count.saturating_add(part.count);
                }
                _ => parts.push(part),
            }
        }
        Parked { parts, deadline_ms, is_in_order: false }
    }

    /// The keys, lowest first.
    pub fn parts(&self) -> &[RequestPart<K>] {
        &self.parts
    }

    /// Records that a ledger was short of uses: from now on the request asks for one key at a time.
    pub fn was_short(&mut self) {
        self.is_in_order = true;
    }

    /// The parts to request now, given the uses in hand of each key: all that are missing, or after
    /// a first shortage only the lowest one.
    pub fn asks(&self, in_hand: impl Fn(&K) -> u64) -> impl Iterator<Item = RequestPart<K>> {
        let missing = self.parts.iter().filter_map(move |&RequestPart { key, count }| {
            let need = count.saturating_sub(in_hand(&key));
            (need > 0).then_some(RequestPart { key, count: need })
        });
        missing.take(if self.is_in_order { 1 } else { usize::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<const N: usize>(parts: [(char, u64); N]) -> Parked<char> {
        Parked::new(parts.map(|(key, count)| RequestPart { key, count }), 100)
    }

    fn hands<const N: usize>(hands: [(char, u64); N]) -> impl Fn(&char) -> u64 {
        move |key| hands.iter().find(|hand| hand.0 == *key).map_or(0, |hand| hand.1)
    }

    #[test]
    fn all_keys_are_asked_for_at_once_and_after_a_shortage_the_lowest() {
        let mut request = request([('c', 1), ('a', 2), ('b', 1), ('a', 1)]);
        let missing = |request: &Parked<char>, hand: [(char, u64); 2]| {
            request.asks(hands(hand)).map(|part| (part.key, part.count)).collect::<Vec<_>>()
        };
        assert_eq!(missing(&request, [('a', 1), ('b', 1)]), [('a', 2), ('c', 1)]);
        request.was_short();
        assert_eq!(missing(&request, [('a', 1), ('b', 1)]), [('a', 2)]);
        assert_eq!(missing(&request, [('a', 3), ('b', 1)]), [('c', 1)]);
    }
}
