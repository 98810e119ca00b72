//! The ring of windows against a plain list.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{HEADER, Past, Totals, carried, is_empty, is_unused, set_carried};
use crate::part::{Part, parts};

fn past(windows: u16) -> Past {
    Past { windows, position: 3 }
}

fn laid_out(settings: Past) -> Vec<u64> {
    let mut words = vec![0; settings.words()];
    settings.lay_out(&mut words);
    words
}

fn totals(words: &[u64]) -> Vec<u32> {
    Totals::of(words).collect()
}

#[test]
fn the_newest_window_is_first_and_the_oldest_leaves() {
    let settings = past(3);
    let mut words = laid_out(settings);
    assert!(is_empty(&words) && is_unused(&words) && words.len() == HEADER + 2);
    settings.end_windows(&mut words, 5, 1);
    assert_eq!(totals(&words), [5]);
    settings.end_windows(&mut words, 7, 2);
    assert_eq!(totals(&words), [0, 7, 5]);
    settings.end_windows(&mut words, u64::MAX, 1);
    assert_eq!(totals(&words), [u32::MAX, 0, 7]);
    // More windows than the ring holds.
    settings.end_windows(&mut words, 9, u64::MAX);
    assert_eq!(totals(&words), [0, 0, 0]);
    assert!(is_unused(&words) && !is_empty(&words));
}

#[test]
fn words_that_are_no_history_know_nothing() {
    for word in [0, 1, u64::MAX, 1 << 63, 1 << 63 | 400 << 32, 1 << 63 | 3 << 32 | 3] {
        let mut words = [word, 0, 0, 0];
        assert_eq!(totals(&words), [] as [u32; 0], "{word:x}");
        assert_eq!(parts(&words).next(), None, "{word:x}");
        past(3).end_windows(&mut words, 4, 1);
        assert_eq!(totals(&words), [4], "{word:x}");
    }
    assert_eq!(totals(&[]), [] as [u32; 0]);
}

#[test]
fn each_history_tells_where_the_next_is() {
    let settings: Vec<Past> = [4, 1, 366]
        .iter()
        .zip(0..)
        .map(|(&windows, position)| Past { windows, position })
        .collect();
    let mut words = Vec::new();
    for settings in &settings {
        let mut own = laid_out(*settings);
        settings.end_windows(&mut own, u64::from(settings.windows), 1);
        words.extend(own);
    }
    // The base of a ring of uses follows.
    words.extend([1_700_000_000_000, 0]);
    let found: Vec<Part<'_>> = parts(&words).collect();
    assert_eq!(found.len(), 3);
    for (part, settings) in found.iter().zip(&settings) {
        assert_eq!((part.position, part.words.len()), (settings.position, settings.words()));
        assert_eq!(totals(part.words), [u32::from(settings.windows)]);
    }
}

proptest! {
    /// Windows end and sizes change in any order.
    // Shows: history-of-limits.
    #[test]
    fn it_holds_what_a_list_holds(
        first in 1..12_u16,
        steps in vec((any::<u32>(), 1..5_u64, prop::option::of(1..12_u16)), 0..40),
    ) {
        let mut settings = past(first);
        let (mut words, mut list) = (laid_out(settings), Vec::new());
        for (uses, turns, size) in steps {
            set_carried(&mut words, 7);
            if let Some(windows) = size {
                settings = past(windows);
                prop_assert_eq!(settings.is_laid_out(&words), windows == words_of(&words));
                let mut other = vec![u64::MAX; settings.words()];
                settings.take_over(&mut other, &words);
                prop_assert_eq!(carried(&other), 7);
                words = other;
                list.truncate(windows.into());
            }
            settings.end_windows(&mut words, uses.into(), turns);
            list.splice(0..0, (1..turns).map(|_| 0).chain([uses]));
            list.truncate(settings.windows.into());
            prop_assert_eq!(totals(&words), list.clone());
            prop_assert_eq!(carried(&words), 0);
            prop_assert_eq!(is_unused(&words), list.iter().all(|&total| total == 0));
        }
    }
}

/// The size that words are laid out for.
fn words_of(words: &[u64]) -> u16 {
    (words[0] >> 32) as u16
}
