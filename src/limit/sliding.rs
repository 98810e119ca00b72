//! `sliding`: exact, at most M in any I.
//!
//! Invariant: the state is the ring that all sliding limits of the biz and scope share. A limit
//! counts the uses whose time is less than an interval away from `now`, in either direction,
//! whatever else the ring holds.

use frs_conf::Sliding;

use super::Figures;
use super::ring::{MAX_USES, Uses};

/// Whether a rolled ring admits `count`, 0 or more.
#[inline]
pub(super) fn admits(limit: &Sliding, ring: &[u64], now: u64, count: u32) -> bool {
    let Some(room) = limit.max.checked_sub(count.into()) else {
        return false;
    };
    let uses = Uses::of(ring);
    // Mostly all of them fit, counted or not.
    uses.len() as u64 <= room || uses.count(now, limit.interval_ms) as u64 <= room
}

/// The figures of a rolled ring.
#[inline]
pub(super) fn figures(limit: &Sliding, ring: &[u64], now: u64) -> Figures {
    let uses = Uses::of(ring);
    let used = uses.count(now, limit.interval_ms) as u64;
    Figures {
        used,
        max: limit.max,
        remaining: limit.max.saturating_sub(used),
        reset_ms: Some(reset_ms(limit, uses, now)),
    }
}

/// Milliseconds until a rolled ring that refuses `count` would admit it, if no other use came.
pub(super) fn retry_ms(limit: &Sliding, ring: &[u64], now: u64, count: u32) -> Option<u64> {
    let room = limit.max.checked_sub(count.into())? as usize;
    let uses = Uses::of(ring);
    Some(if uses.are_in_order() {
        first_room(limit, Room { uses: uses.len(), room }, now, |nth| uses.time(nth))
    } else {
        first_room_after_steps(limit, uses, now, room)
    })
}

/// An upper bound of the milliseconds from a ring's last use until no use in it is counted.
///
/// A clock that was set back by up to an interval may have stamped the last use before the newest
/// one. Hence the bound is one interval longer than a use counts.
pub(super) fn life_ms(limit: &Sliding) -> u64 {
    limit.interval_ms.saturating_mul(2)
}

/// Milliseconds until the newest of the counted uses leaves.
#[inline]
fn reset_ms(limit: &Sliding, uses: Uses<'_>, now: u64) -> u64 {
    let newest = uses.latest(now, limit.interval_ms);
    newest.map_or(0, |time| time.saturating_add(limit.interval_ms).saturating_sub(now))
}

/// [`first_room`] for uses whose times are out of order because the clock was set.
#[cold]
fn first_room_after_steps(limit: &Sliding, uses: Uses<'_>, now: u64, room: usize) -> u64 {
    let mut times = [0; MAX_USES];
    let times = uses.sort_into(&mut times);
    first_room(limit, Room { uses: times.len(), room }, now, |nth| times[nth])
}

/// What an item waits for: at most `room` of this many `uses` are counted.
struct Room {
    uses: usize,
    room: usize,
}

/// Milliseconds until there is room for an item. `time` returns the time of each use, in order.
///
/// Room grows only when a use leaves. By then others may be counted that were too far in the future
/// before. So there is room when the use that comes `room` after the next one is still two
/// intervals away from the one that leaves.
fn first_room(
    limit: &Sliding,
    Room { uses, room }: Room,
    now: u64,
    time: impl Fn(usize) -> u64,
) -> u64 {
    let left_at = |nth| time(nth).saturating_add(limit.interval_ms);
    let makes_room = |&nth: &usize| {
        let next = nth + 1 + room;
        left_at(nth) > now
            && (next >= uses || time(next) >= left_at(nth).saturating_add(limit.interval_ms))
    };
    (0..uses).find(makes_room).map_or(0, |nth| left_at(nth) - now)
}
