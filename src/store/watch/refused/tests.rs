//! Invariant: no count is wrong by more than its error, even if owners change or die, or a clock
//! steps back.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::crash;
use crate::file::layout::slot::{SKETCHES, WORDS};

const T: Millis = 1_700_000_000_000;
const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR_MS: u64 = 60 * MINUTE;

/// A slot, and its owner.
struct Slot {
    region: Region,
    owner: RefusedSketches,
    /// The number of sketches that the disk has blocks for.
    blocks: usize,
}

impl Slot {
    fn new() -> Slot {
        Slot { region: Region::boxed(WORDS), owner: RefusedSketches::default(), blocks: usize::MAX }
    }

    fn refuse(&mut self, biz_id: u32, key: u64, now: Millis) {
        let blocks = &mut self.blocks;
        let allocate = |_: usize| {
            let has_room = *blocks > 0;
            *blocks = blocks.saturating_sub(1);
            has_room
        };
        let counters = Counters::at(&self.region, 0);
        self.owner.count(counters, &key_of(biz_id, key), now, allocate);
    }

    /// Another process takes the slot.
    fn passes_on(&mut self) {
        self.owner = RefusedSketches::default();
    }
}

fn key_of(biz_id: u32, key: u64) -> RefusedKey {
    RefusedKey::new(biz_id, 1, 8, &[key])
}

fn read(slots: &[&Slot], biz_id: Option<u32>, window: Window, now: Millis) -> RefusedKeys {
    let mut sums = RefusedSums::new(window, biz_id, now);
    for (number, slot) in (0..).zip(slots) {
        sums.add(number, Counters::at(&slot.region, 0));
    }
    sums.finish(usize::MAX)
}

/// The business, the key, the refusals and the error of each found key.
fn counts(found: &RefusedKeys) -> Vec<(u32, u64, u64, u64)> {
    let count =
        |found: &RefusedCount| (found.key.biz_id(), found.key.field[0], found.refused, found.error);
    found.keys.iter().map(count).collect()
}

#[test]
fn few_keys_are_counted_exactly() {
    let mut slot = Slot::new();
    for nth in 0..640 {
        slot.refuse(1, nth % 64, T + nth);
    }
    (0..5).for_each(|nth| slot.refuse(1, 7, T + 1000 + nth));
    slot.refuse(2, 7, T + 2000);
    let found = read(&[&slot], Some(1), Window::Minute, T + 3000);
    assert_eq!(found.keys.len(), 64);
    assert_eq!(counts(&found)[0], (1, 7, 15, 0));
    assert!(counts(&found)[1..].iter().all(|&(_, _, refused, error)| (refused, error) == (10, 0)));
    assert_eq!(found.keys[0].last_ms, T + 1004);
    assert_eq!(counts(&read(&[&slot], Some(2), Window::Hour, T + 3000)), [(2, 7, 1, 0)]);
    assert_eq!(read(&[&slot], None, Window::Minute, T + 3000).keys.len(), 65);
    assert_eq!(read(&[&slot], Some(3), Window::Minute, T + 3000).keys, []);
}

// Shows: refused-keys.
#[test]
fn a_key_is_kept_whole_or_as_its_digest_and_how_it_begins() {
    const DIGEST: [u64; 2] = [7, 8];
    let cut = |text: &str| RefusedKey::cut(1, &DIGEST, text.as_bytes());
    for (text, begins) in [
        ("x".repeat(41), "x".repeat(40)),
        (format!("{}\u{20ac}", "x".repeat(38)), "x".repeat(38)),
        (format!("{}\u{20ac}y", "x".repeat(37)), format!("{}\u{20ac}", "x".repeat(37))),
        ("\u{1f600}".repeat(256), "\u{1f600}".repeat(10)),
    ] {
        let mut slot = Slot::new();
        slot.owner.count(Counters::at(&slot.region, 0), &cut(&text), T, |_| true);
        let found = read(&[&slot], Some(1), Window::Minute, T).keys[0].key;
        assert_eq!(found.begins(), Some(begins));
        let key = found.key().expect("a key");
        assert_eq!((key.form(), key.words()), (KeyForm::Digest, &DIGEST[..]));
    }
    let whole = RefusedKey::new(1, KeyForm::Text as u8, 40, &[u64::from_le_bytes(*b"abcdefgh"); 5]);
    assert_eq!(whole.key().map(|key| key.to_string()), Some("abcdefgh".repeat(5)));
    assert_eq!(whole.begins(), None);
    assert_eq!(RefusedKey::new(1, KeyForm::Digest as u8, 16, &DIGEST).begins(), None);
    // Two keys with the same beginning are counted separately.
    let other = RefusedKey::cut(1, &[7, 9], "x".repeat(41).as_bytes());
    assert_ne!(cut(&"x".repeat(41)), other);
}

// Shows: refused-keys.
#[test]
fn keys_of_the_same_tag_are_told_apart() {
    let tag = |key: u64| key_of(1, key).check() >> 48;
    let same: Vec<u64> = (0..).filter(|&key| tag(key) == tag(0)).take(3).collect();
    let mut slot = Slot::new();
    for nth in 0..6 {
        // Each key comes before the others, and after them.
        (0..3).for_each(|key| slot.refuse(1, same[(nth + key) % 3], T));
        slot.refuse(1, same[0], T);
    }
    let found = read(&[&slot], Some(1), Window::Minute, T);
    let mut expected = vec![(1, same[0], 12, 0), (1, same[1], 6, 0), (1, same[2], 6, 0)];
    expected.sort_unstable_by_key(|&(_, key, refused, _)| (std::cmp::Reverse(refused), key));
    assert_eq!(counts(&found), expected);
}

#[test]
fn an_attacker_is_first_among_many() {
    let mut slots = [Slot::new(), Slot::new()];
    // In 5 seconds: 200 refusals a second of one key, 2000 a second of 10,000 others.
    for ms in 0..5000 {
        let slot = &mut slots[(ms % 2) as usize];
        if ms % 5 == 0 {
            slot.refuse(1, 77_777, T + ms);
        }
        (0..2).for_each(|nth| slot.refuse(1, (ms * 2 + nth) * 7919 % 10_000, T + ms));
    }
    let [one, other] = &slots;
    let found = read(&[one, other], Some(1), Window::Minute, T + 5000);
    let first = found.keys[0];
    assert_eq!(first.key.field[0], 77_777);
    assert!(first.refused >= 1000 && first.refused - first.error <= 1000, "{first:?}");
    assert!(found.keys[1].refused < first.refused / 2, "{:?}", found.keys[1]);
}

#[test]
fn a_window_ends() {
    let mut slot = Slot::new();
    slot.refuse(1, 7, T);
    let is_in = |slot: &Slot, window, after: u64| {
        let found = read(&[slot], Some(1), window, T + after);
        assert!(found.keys.is_empty() || found.since_ms <= T, "{after}");
        !found.keys.is_empty()
    };
    for (window, length, slack) in
        [(Window::Minute, MINUTE, 10 * SECOND), (Window::Hour, HOUR_MS, 10 * MINUTE)]
    {
        assert!(is_in(&slot, window, length));
        assert!(!is_in(&slot, window, length + slack));
    }
    // The same after the pane was folded.
    slot.refuse(2, 1, T + MINUTE);
    slot.refuse(1, 8, T + MINUTE);
    assert!(is_in(&slot, Window::Hour, HOUR_MS));
    let found = read(&[&slot], Some(1), Window::Hour, T + MINUTE);
    assert_eq!(counts(&found), [(1, 7, 1, 0), (1, 8, 1, 0)]);
    assert_eq!(counts(&read(&[&slot], Some(1), Window::Minute, T + 75 * SECOND)), [(1, 8, 1, 0)]);
}

#[test]
fn another_owner_goes_on() {
    let mut slot = Slot::new();
    for second in 0..100 {
        slot.refuse(1, second % 3, T + second * SECOND);
        if second % 7 == 0 {
            slot.passes_on();
        }
    }
    let found = read(&[&slot], Some(1), Window::Hour, T + 100 * SECOND);
    assert_eq!(counts(&found), [(1, 0, 34, 0), (1, 1, 33, 0), (1, 2, 33, 0)]);
}

#[test]
fn a_clock_that_steps_back_loses_nothing_within_an_hour() {
    let mut slot = Slot::new();
    (0..100).for_each(|second| slot.refuse(1, 7, T + second * SECOND));
    (0..50).for_each(|second| slot.refuse(1, 7, T + second * SECOND));
    (50..200).for_each(|second| slot.refuse(1, 7, T + second * SECOND));
    let now = T + 200 * SECOND;
    assert_eq!(counts(&read(&[&slot], Some(1), Window::Hour, now)), [(1, 7, 300, 0)]);
    // A clock that steps back further starts anew.
    slot.refuse(1, 8, now - 3 * HOUR_MS);
    let now = now - 3 * HOUR_MS;
    for window in [Window::Minute, Window::Hour] {
        assert_eq!(counts(&read(&[&slot], Some(1), window, now)), [(1, 8, 1, 0)]);
    }
}

#[test]
fn the_last_sketch_is_that_of_all_others() {
    let mut slot = Slot::new();
    let bizs = SKETCHES as u32 + 36;
    for biz_id in 1..=bizs {
        (0..u64::from(biz_id)).for_each(|_| slot.refuse(biz_id, 7, T));
    }
    let found = read(&[&slot], None, Window::Minute, T);
    let expected: Vec<(u32, u64, u64, u64)> =
        (1..=bizs).rev().map(|biz_id| (biz_id, 7, biz_id.into(), 0)).collect();
    assert_eq!(counts(&found), expected);
    // A sketch that was not used for more than an hour is given to another business.
    let later = T + 2 * HOUR_MS;
    slot.refuse(bizs, 8, later);
    slot.refuse(1, 8, later);
    let found = read(&[&slot], None, Window::Hour, later);
    assert_eq!(counts(&found), [(1, 8, 1, 0), (bizs, 8, 1, 0)]);
    let owned = |biz_id| {
        let sketches = 0..SKETCHES - 1;
        let counters = Counters::at(&slot.region, 0);
        sketches.filter(|&at| SketchWords::of(counters, at).biz() == Some(biz_id)).count()
    };
    assert_eq!((owned(1), owned(bizs)), (1, 1));
}

#[test]
fn without_blocks_nothing_is_written() {
    let mut slot = Slot::new();
    slot.blocks = 0;
    slot.refuse(1, 7, T);
    assert!(
        slot.region
            .words(0, WORDS)
            .iter()
            .all(|word| { word.load(frs_base::sync::Ordering::Relaxed) == 0 })
    );
    // In the next pane its blocks are requested again.
    slot.blocks = 1;
    slot.refuse(1, 7, T);
    let later = T + 10 * SECOND;
    slot.refuse(1, 7, later);
    assert_eq!(counts(&read(&[&slot], Some(1), Window::Minute, later)), [(1, 7, 1, 0)]);
}

// Shows: refused-keys.
#[test]
fn whichever_store_is_an_owners_last_nothing_is_counted_twice() {
    let play = |last: Option<usize>| {
        let mut slot = Slot::new();
        // Full, so that the fold replaces entries. One pane was folded before.
        for nth in 0..100 {
            slot.refuse(1, nth % 70, T + 580 * SECOND);
            slot.refuse(1, nth % 70, T + 590 * SECOND);
        }
        slot.passes_on();
        crash::die_after(last);
        slot.refuse(1, 7, T + 610 * SECOND);
        let has_lived = crash::lives();
        crash::die_after(None);
        let read_of = |slot: &Slot, key, now| {
            let found = read(&[slot], Some(1), Window::Hour, now);
            let found = found.keys.into_iter().find(|found| found.key.field[0] == key);
            found.map_or(0, |found| found.refused - found.error)
        };
        assert!(read_of(&slot, 7, T + 611 * SECOND) <= 5, "{last:?}: before another owner");
        slot.passes_on();
        slot.refuse(1, 8, T + 611 * SECOND);
        slot.refuse(1, 8, T + 625 * SECOND);
        let of = |key| read_of(&slot, key, T + 626 * SECOND);
        assert!(of(7) <= 5 && of(8) <= 6, "{last:?}: {} {}", of(7), of(8));
        assert!(of(8) >= 2, "{last:?}: what came after the death is there");
        has_lived
    };
    let deaths = (0..).take_while(|&last| !play(Some(last))).count();
    assert!(deaths > 500, "{deaths}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Against a model that counts everything.
    // Shows: refused-keys.
    #[test]
    fn no_count_is_wrong_by_more_than_its_error(
        bizs in prop::sample::select(vec![3_u32, SKETCHES as u32 + 40]),
        refusals in
            prop::collection::vec((0..3_usize, 0..1000_u32, 0..200_u64, 0..2000_u64), 1..3000),
        restarts in prop::collection::vec(0..3000_usize, 0..5),
    ) {
        let mut slots = [Slot::new(), Slot::new(), Slot::new()];
        let mut now = T;
        let mut all = Vec::new();
        for (at, &(slot, biz_id, key, pause)) in refusals.iter().enumerate() {
            now += pause;
            let biz_id = biz_id % bizs + 1;
            if restarts.contains(&at) {
                slots[slot].passes_on();
            }
            // A few keys are refused often.
            let key = if key % 4 == 0 { key % 12 } else { key };
            slots[slot].refuse(biz_id, key, now);
            all.push((key_of(biz_id, key), now));
        }
        let [one, two, three] = &slots;
        for window in [Window::Minute, Window::Hour] {
            let found = read(&[one, two, three], None, window, now);
            let mut model: HashMap<RefusedKey, u64> = HashMap::new();
            for (key, at) in &all {
                if *at >= found.since_ms {
                    *model.entry(*key).or_default() += 1;
                }
            }
            for count in &found.keys {
                let exact = model.get(&count.key).copied().unwrap_or(0);
                prop_assert!(
                    exact <= count.refused && count.refused - count.error <= exact,
                    "{window:?} {count:?}: {exact}"
                );
            }
            let least = found.keys.iter().map(|count| count.error).max().unwrap_or(0);
            for (key, exact) in model {
                let is_found = found.keys.iter().any(|count| count.key == key);
                prop_assert!(is_found || exact <= least, "{window:?} {key:?}: {exact}, {least}");
            }
            prop_assert!(found.keys.is_sorted_by_key(|count| std::cmp::Reverse(count.refused)));
        }
    }
}
