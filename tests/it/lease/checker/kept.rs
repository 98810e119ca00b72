//! The uses that a host keeps for its parked requests when a lease is recalled.
//!
//! Invariant: a use is kept only for a request that has it, and all that it needs of lower keys, in
//! hand. Earlier requests are served first.

use frs_cluster::lease::{Parked, RequestPart};

/// Returns how many uses of a key are kept. `in_hand` returns the unspent uses here of each key.
pub fn kept<'a, K: Ord + Copy + 'a>(
    parked: impl IntoIterator<Item = &'a Parked<K>>,
    key: &K,
    in_hand: impl Fn(&K) -> u64,
    now_ms: u64,
) -> u64 {
    let mut kept = 0;
    // Each use in hand is given to one request only, in the order of arrival.
    let mut given: Vec<RequestPart<K>> = Vec::new();
    for request in parked.into_iter().filter(|request| now_ms < request.deadline_ms) {
        for &RequestPart { key: at, count } in request.parts() {
            let nth = given.iter().position(|part| part.key == at).unwrap_or_else(|| {
                given.push(RequestPart { key: at, count: 0 });
                given.len() - 1
            });
            let before = given[nth].count;
            if in_hand(&at).saturating_sub(before) < count {
                break;
            }
            given[nth].count = before + count;
            if at == *key {
                kept += count;
            }
        }
    }
    kept
}

fn request<const N: usize>(parts: [(char, u64); N]) -> Parked<char> {
    Parked::new(parts.map(|(key, count)| RequestPart { key, count }), 100)
}

fn hands<const N: usize>(hands: [(char, u64); N]) -> impl Fn(&char) -> u64 {
    move |key| hands.iter().find(|hand| hand.0 == *key).map_or(0, |hand| hand.1)
}

#[test]
fn a_use_is_kept_only_with_all_lower_ones_in_hand_and_until_the_deadline() {
    let parked = [request([('a', 1), ('b', 2), ('c', 1)])];
    let kept =
        |key: char, hand: [(char, u64); 3], now_ms: u64| kept(&parked, &key, hands(hand), now_ms);
    assert_eq!(kept('a', [('a', 5), ('b', 0), ('c', 0)], 99), 1);
    assert_eq!(kept('b', [('a', 1), ('b', 2), ('c', 0)], 99), 2);
    assert_eq!(kept('b', [('a', 0), ('b', 2), ('c', 0)], 99), 0, "the lower one lacks");
    assert_eq!(kept('b', [('a', 1), ('b', 1), ('c', 0)], 99), 0, "it has not all of it");
    assert_eq!(kept('c', [('a', 1), ('b', 1), ('c', 1)], 99), 0);
    assert_eq!(kept('a', [('a', 5), ('b', 0), ('c', 0)], 100), 0, "its deadline is over");
    assert_eq!(kept('d', [('a', 1), ('b', 2), ('c', 1)], 99), 0);
}

#[test]
fn what_is_in_hand_is_kept_once() {
    let parked = [request([('a', 1), ('b', 1)]), request([('a', 1), ('c', 1)])];
    let count = |key, hand| kept(&parked, &key, hands(hand), 0);
    assert_eq!(count('a', [('a', 1), ('c', 9)]), 1);
    assert_eq!(count('c', [('a', 1), ('c', 9)]), 0);
    assert_eq!(count('a', [('a', 2), ('c', 9)]), 2);
    assert_eq!(count('c', [('a', 2), ('c', 9)]), 1);
}
