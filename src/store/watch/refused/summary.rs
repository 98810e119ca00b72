//! Folds two panes into one.
//!
//! Invariant: a count of the result is never too low, and too high by at most its error. If the
//! result is full, a key that it lacks was counted at most as often as its least entry.

use super::{Pane, RefusedKey, Tally};

/// The most that a key can have been counted in a pane that lacks it.
pub(super) fn floor(pane: &Pane) -> u64 {
    if !pane.is_full {
        return 0;
    }
    pane.tallies.iter().map(|tally| tally.count).min().unwrap_or(0)
}

/// Adds the tallies of another pane. Those with the largest counts stay.
pub(super) fn fold(into: &mut Pane, other: &Pane, room: usize) {
    let (own_floor, other_floor) = (floor(into), floor(other));
    let own = into.tallies.len();
    for tally in &mut into.tallies {
        let (count, error) = match find(&other.tallies, &tally.key) {
            Some(found) => {
                tally.last_ms = tally.last_ms.max(found.last_ms);
                (found.count, found.error)
            }
            None => (other_floor, other_floor),
        };
        tally.count = tally.count.saturating_add(count);
        tally.error = tally.error.saturating_add(error);
    }
    for tally in &other.tallies {
        if find(&into.tallies[..own], &tally.key).is_none() {
            let count = tally.count.saturating_add(own_floor);
            let error = tally.error.saturating_add(own_floor);
            into.tallies.push(Tally { count, error, ..*tally });
        }
    }
    into.tallies
        .sort_unstable_by_key(|tally| (std::cmp::Reverse(tally.count), tally.error, tally.key));
    into.tallies.truncate(room);
    into.is_full |= other.is_full || into.tallies.len() == room;
}

fn find<'a>(tallies: &'a [Tally], key: &RefusedKey) -> Option<&'a Tally> {
    tallies.iter().find(|tally| tally.key == *key)
}
