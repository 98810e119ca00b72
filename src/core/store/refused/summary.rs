//! Two panes in one.
//!
//! Invariant: a count of the result is never too low, and too high by at most its error. That of a
//! key that is not in it is at most the least count in it, if it is full.

use super::{RefusedKey, Tally};

/// What a key that is not in a pane was counted there at most.
pub(super) fn floor(tallies: &[Tally], room: usize) -> u64 {
    if tallies.len() < room {
        return 0;
    }
    tallies.iter().map(|tally| tally.count).min().unwrap_or(0)
}

/// Adds the tallies of another pane. Those with the largest counts stay.
pub(super) fn fold(into: &mut Vec<Tally>, other: &[Tally], room: usize) {
    let (own_floor, other_floor) = (floor(into, room), floor(other, room));
    let own = into.len();
    for tally in into.iter_mut() {
        match find(other, &tally.key) {
            Some(found) => {
                tally.count += found.count;
                tally.error += found.error;
                tally.last_ms = tally.last_ms.max(found.last_ms);
            }
            None => {
                tally.count += other_floor;
                tally.error += other_floor;
            }
        }
    }
    for tally in other {
        if find(&into[..own], &tally.key).is_none() {
            let (count, error) = (tally.count + own_floor, tally.error + own_floor);
            into.push(Tally { count, error, ..*tally });
        }
    }
    into.sort_unstable_by_key(|tally| (std::cmp::Reverse(tally.count), tally.error, tally.key));
    into.truncate(room);
}

fn find<'a>(tallies: &'a [Tally], key: &RefusedKey) -> Option<&'a Tally> {
    tallies.iter().find(|tally| tally.key == *key)
}
