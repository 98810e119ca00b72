//! The ring against a plain log of uses.

use proptest::prelude::*;

use super::*;

const T0: u64 = 1_700_000_000_000;
const DAY: u64 = 86_400_000;

fn of(uses: u32, longest_ms: u64) -> (Ring, Vec<u64>) {
    let ring = Ring { uses, longest_ms };
    (ring, vec![0; words(ring)])
}

/// Rolls, then charges, as each command does.
fn charge_at(ring: Ring, words: &mut [u64], now: u64, count: i32) {
    roll(ring, words, now);
    charge(ring, words, now, count);
}

fn times(words: &[u64]) -> Vec<u64> {
    let uses = Uses::of(words);
    (0..uses.len()).map(|nth| uses.time(nth)).collect()
}

fn changed(before: &[u64], after: &[u64]) -> usize {
    before.iter().zip(after).filter(|(before, after)| before != after).count()
}

#[test]
fn its_words_are_those_that_the_configuration_counts() {
    for (uses, expected) in [(0, 2), (1, 3), (2, 3), (3, 4), (50, 27), (4096, 2050)] {
        assert_eq!(words(Ring { uses, longest_ms: 1 }), expected);
    }
}

#[test]
fn a_use_changes_two_words_and_the_first_one_three() {
    let (ring, mut words) = of(50, 100);
    for ms in 0..1000 {
        let before = words.clone();
        charge_at(ring, &mut words, T0 + ms, 1);
        let expected = if ms == 0 { 3 } else { 2 };
        assert_eq!(changed(&before, &words), expected, "{ms}");
    }
    let before = words.clone();
    charge_at(ring, &mut words, T0 + 1000, -3);
    assert_eq!(changed(&before, &words), 1);
}

#[test]
fn a_full_ring_overwrites_the_oldest() {
    let (ring, mut words) = of(3, DAY);
    for ms in 0..7 {
        charge(ring, &mut words, T0 + ms, 1);
    }
    assert_eq!(times(&words), [T0 + 4, T0 + 5, T0 + 6]);
    charge(ring, &mut words, T0 + 9, 2);
    assert_eq!(times(&words), [T0 + 6, T0 + 9, T0 + 9]);
    charge(ring, &mut words, T0 + 10, i32::MAX);
    assert_eq!(times(&words), [T0 + 10; 3]);
}

#[test]
fn an_emptied_ring_is_fresh_whatever_its_slots_hold() {
    let (ring, mut words) = of(4, 1000);
    charge(ring, &mut words, T0, 3);
    let mut rolled = words.clone();
    roll(ring, &mut rolled, T0 + 1000);
    charge(ring, &mut words, T0, i32::MIN);
    for emptied in [rolled, words] {
        assert!(is_fresh(&emptied) && emptied[2] != 0);
        assert_eq!(emptied[..2], [0, 0]);
    }
}

#[test]
fn rolling_drops_in_the_middle_too_and_keeps_the_order() {
    let (ring, mut words) = of(7, 100);
    for ahead in [500, 10, 700, 20, 800, 15, 900] {
        charge(ring, &mut words, T0 + ahead, 1);
    }
    roll(ring, &mut words, T0 + 50);
    assert_eq!(times(&words), [T0 + 10, T0 + 20, T0 + 15]);
    charge(ring, &mut words, T0 + 50, 1);
    charge(ring, &mut words, T0 + 50, -2);
    assert_eq!(times(&words), [T0 + 10, T0 + 20]);
}

#[test]
fn a_long_used_ring_moves_its_base() {
    let (ring, mut words) = of(8, 45 * DAY);
    let mut bases = Vec::new();
    for day in 0..200 {
        charge_at(ring, &mut words, T0 + day * DAY, 1);
        let expected: Vec<u64> = (day.saturating_sub(7)..=day).map(|day| T0 + day * DAY).collect();
        assert_eq!(times(&words), expected);
        bases.push(words[0]);
    }
    bases.dedup();
    // Eight days with uses, and then 41 more days.
    assert_eq!(bases.len(), 5);
}

#[test]
fn the_base_moves_after_25_and_after_50_idle_days() {
    for days in [25, 44, 45, 49, 50, 99, 400] {
        let (ring, mut words) = of(4, 45 * DAY);
        charge_at(ring, &mut words, T0, 2);
        let now = T0 + days * DAY + 1;
        charge_at(ring, &mut words, now, 1);
        let kept = if days < 45 { vec![T0, T0, now] } else { vec![now] };
        assert_eq!(times(&words), kept, "{days}");
    }
}

#[test]
fn a_clock_set_back_a_little_moves_no_base_and_one_set_back_a_lot_does() {
    let (ring, mut words) = of(4, 45 * DAY);
    charge_at(ring, &mut words, T0, 1);
    let base = words[0];
    charge_at(ring, &mut words, T0 - 1000, 1);
    assert_eq!((words[0], times(&words)), (base, vec![T0, T0 - 1000]));
    charge_at(ring, &mut words, T0 - 2 * DAY, 1);
    assert_eq!(times(&words), [T0, T0 - 1000, T0 - 2 * DAY]);
    charge_at(ring, &mut words, T0 - 44 * DAY, 1);
    assert_eq!(times(&words), [T0, T0 - 1000, T0 - 2 * DAY, T0 - 44 * DAY]);
}

#[test]
fn steps_of_the_clock_by_up_to_45_days_lose_no_use_that_is_counted() {
    let days = [0, 44, 1, 30, 80, 60, 37, 100, 58, 145, 101];
    let (ring, mut words) = of(16, 45 * DAY);
    let mut model: Vec<u64> = Vec::new();
    for now in days.map(|day| T0 + day * DAY) {
        charge_at(ring, &mut words, now, 1);
        model.retain(|time| time.abs_diff(now) < 45 * DAY);
        model.push(now);
        assert_eq!(times(&words), model);
    }
}

#[test]
fn times_at_the_ends_of_the_range_are_told_apart() {
    let (ring, mut words) = of(4, 45 * DAY);
    for now in [0, 5, u64::MAX, u64::MAX - 1, 7] {
        charge_at(ring, &mut words, now, 1);
        assert!(times(&words).contains(&now));
    }
}

#[test]
fn another_size_keeps_the_newest_uses() {
    for (first, uses) in [(5, 5), (5, 3), (5, 8), (5, 1), (5, 0), (6, 3), (4096, 7), (7, 4096)] {
        for count in [0, 2, 5, 7] {
            let (old, _) = of(first, DAY);
            let new = Ring { uses, ..old };
            let mut node = vec![0; words(old).max(words(new)) + 3];
            for ms in 0..count {
                charge(old, &mut node, T0 + ms, 1);
            }
            let before = times(&node);
            assert_eq!(is_of(new, &node), first == uses || count == 0);
            resize(new, &mut node);
            let newest = &before[before.len().saturating_sub(uses as usize)..];
            assert_eq!(times(&node), newest);
            assert!(is_of(new, &node[..words(new)]));
            charge(new, &mut node[..words(new)], T0 + 99, 1);
            let appended = [newest, &[T0 + 99]].concat();
            assert_eq!(times(&node), appended[appended.len().saturating_sub(uses as usize)..]);
        }
    }
}

#[test]
fn words_that_cannot_be_a_rings_are_an_empty_one() {
    let (ring, mut words) = of(5, 1000);
    let packed = |head: u64, len: u64, capacity: u64| capacity << 32 | len << 16 | head;
    let odd = [
        packed(5, 1, 5),
        packed(0, 6, 5),
        packed(0, 1, 7),
        packed(0, 0, 5),
        packed(0xffff, 0xffff, 0xffff),
        packed(1, 1, 5) | 1 << 48,
    ];
    for packed in odd {
        words[..2].copy_from_slice(&[T0, packed]);
        assert!(is_fresh(&words) && is_of(ring, &words));
        roll(ring, &mut words, T0);
        assert_eq!(words[..2], [0, 0]);
        words[..2].copy_from_slice(&[T0, packed]);
        charge(ring, &mut words, T0, 1);
        assert_eq!(times(&words), [T0]);
    }
}

proptest! {
    /// Nothing panics for any words of a node, and the result is a ring.
    #[test]
    fn any_words_are_dealt_with(
        node in prop::collection::vec(any::<u64>(), 0..12),
        (head, len, capacity) in (0_u64..14, 0_u64..14, 0_u64..14),
        uses in 0_u32..14,
        (now, longest_ms) in (any::<u64>(), any::<u64>()),
        near in any::<bool>(),
        count in any::<i32>(),
    ) {
        let mut node = node;
        if let Some(packed) = node.get_mut(1) {
            *packed = capacity << 32 | len << 16 | head;
        }
        let base = node.first().copied().unwrap_or(0);
        let now = if near { base.saturating_add(now % (1 << 34)) } else { now };
        let ring = Ring { uses, longest_ms };
        for step in [resize, |ring, words: &mut [u64]| roll(ring, words, T0)] {
            let mut node = node.clone();
            step(ring, &mut node);
            charge_at(ring, &mut node, now, count);
            let uses = Uses::of(&node);
            prop_assert!(uses.count(now, longest_ms) <= uses.len());
            prop_assert_eq!(uses.latest(now, 1).is_some(), uses.count(now, 1) > 0);
            uses.sort_into(&mut [0; MAX_USES]);
        }
    }
}
