//! Uses that a host admits without a lease, across two of its own windows.

use super::super::Spending;
use super::{ALL, CALENDAR, CLUSTER, COUNTER, INTERVAL, Key, MINUTE, SLIDING, TOKEN, TOTAL};

/// The number of uses admitted in the last millisecond of the host's own window and in the one
/// after it. This many uses begin the window.
fn admitted_where_windows_meet(key: &mut Key, first: usize, spending: Spending) -> usize {
    assert_eq!(key.admitted(first, spending), first);
    key.pass_ms(MINUTE - 1);
    let before = key.admitted(50, spending);
    key.pass_ms(1);
    before + key.admitted(50, spending)
}

/// The most uses in any interval of a minute, for single uses at these times.
fn most_in_a_minute(key: &mut Key, pauses_ms: &[u64], spending: Spending) -> usize {
    let mut admitted = Vec::new();
    for pause_ms in pauses_ms {
        key.pass_ms(*pause_ms);
        let now_ms = key.clock.boot_ms();
        admitted.extend(std::iter::repeat_n(now_ms, key.admitted(50, spending)));
    }
    let within = |nth: usize| {
        let from_ms = admitted[nth];
        admitted[nth..].iter().take_while(|&&at_ms| at_ms < from_ms + MINUTE).count()
    };
    (0..admitted.len()).map(within).max().unwrap_or(0)
}

/// Pauses of all lengths up to some more than a minute; each seed has its own.
fn pauses_ms(seed: u64) -> Vec<u64> {
    let mut word = seed * 2 + 0x9e37_79b9_7f4a_7c15;
    let mut below = |bound: u64| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word % bound
    };
    (0..60)
        .map(|_| match below(4) {
            0 => below(3),
            1 => MINUTE - 1 + below(3),
            _ => below(MINUTE),
        })
        .collect()
}

// Shows: cluster-faults.
#[test]
fn twice_what_a_cut_off_host_allows_itself_passes_where_two_of_its_windows_meet() {
    for (on_down, most) in [("share", 2), ("local", 10)] {
        let sharing = format!("{CLUSTER} on-down='{on_down}'");
        for (limit, expected) in [
            (INTERVAL, 2 * most - 1),
            (COUNTER, 2 * most - 1),
            (TOKEN, 2 * most - 1),
            // The log knows its uses. A day has a share of its own, and a total has one for good.
            (SLIDING, most),
            (CALENDAR, most - 1),
            (TOTAL, most - 1),
        ] {
            let mut key = Key::new(&sharing, limit);
            let met = admitted_where_windows_meet(&mut key, 1, Spending::CutOff);
            assert_eq!(met, expected, "{limit}, {on_down}");
        }
    }
}

// Shows: cluster-faults.
#[test]
fn no_minute_has_more_than_twice_what_a_cut_off_host_allows_itself() {
    for (on_down, most) in [("share", 2), ("local", 10), ("refuse", 0)] {
        let sharing = format!("{CLUSTER} on-down='{on_down}'");
        for limit in ALL {
            let bound = if [SLIDING, TOTAL].contains(&limit) { most } else { 2 * most };
            for seed in 0..40 {
                let mut key = Key::new(&sharing, limit);
                let found = most_in_a_minute(&mut key, &pauses_ms(seed), Spending::CutOff);
                assert!(found <= bound, "{limit}, {on_down}, seed {seed}: {found}");
                assert!(found >= most, "{limit}, {on_down}, seed {seed}: {found}");
            }
        }
    }
}

// Shows: on-miss-admit.
#[test]
fn twice_the_largest_lease_passes_where_answers_are_late_and_never_more() {
    for limit in [SLIDING, TOKEN] {
        for (sharing, most) in [(CLUSTER, 5), ("share='exact' on-miss='admit'", 1)] {
            let mut key = Key::new(sharing, limit);
            let met = admitted_where_windows_meet(&mut key, 1, Spending::Admit);
            assert_eq!(met, 2 * most - 1, "{limit}, {sharing}");
            for seed in 0..40 {
                let mut key = Key::new(sharing, limit);
                let found = most_in_a_minute(&mut key, &pauses_ms(seed), Spending::Admit);
                assert!(found <= 2 * most, "{limit}, {sharing}, seed {seed}: {found}");
            }
        }
    }
}
