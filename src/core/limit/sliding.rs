//! `sliding`: exact, at most M in any I.
//!
//! The state is the ring that all sliding limits of the biz and scope share. A limit counts the
//! uses whose time is less than an interval away from `now`, on either side, whatever else the ring
//! holds.

use super::Figures;
use super::ring::{MAX_USES, Uses};
use crate::conf::Sliding;

/// Does a rolled ring admit `count`, 0 or more?
#[inline]
pub(super) fn admits(limit: &Sliding, ring: &[u64], now: u64, count: u32) -> bool {
    let Some(room) = limit.max.checked_sub(count.into()) else {
        return false;
    };
    let uses = Uses::of(ring);
    // Mostly all fit, counted or not.
    uses.len() as u64 <= room || uses.count(now, limit.interval_ms) as u64 <= room
}

/// What a rolled ring shows.
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

/// Milliseconds until a rolled ring that refuses `count` would admit it if nothing else came.
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
/// The last use can be stamped by a clock that was set back up to an interval before the newest:
/// hence one interval more than a use counts.
pub(super) fn life_ms(limit: &Sliding) -> u64 {
    limit.interval_ms.saturating_mul(2)
}

/// Until the newest of the counted uses leaves.
#[inline]
fn reset_ms(limit: &Sliding, uses: Uses<'_>, now: u64) -> u64 {
    let newest = uses.latest(now, limit.interval_ms);
    newest.map_or(0, |time| time.saturating_add(limit.interval_ms).saturating_sub(now))
}

/// [`first_room`] of uses whose times the steps of a clock have mixed.
#[cold]
fn first_room_after_steps(limit: &Sliding, uses: Uses<'_>, now: u64, room: usize) -> u64 {
    let mut times = [0; MAX_USES];
    let times = uses.sort_into(&mut times);
    first_room(limit, Room { uses: times.len(), room }, now, |nth| times[nth])
}

/// What an item waits for: no more than `room` of so many `uses` are counted.
struct Room {
    uses: usize,
    room: usize,
}

/// Milliseconds until there is room for an item, `time` telling when each of
/// them came, in order.
///
/// There is more room only when a use leaves. By then others may be counted that were too far in
/// the future before: there is room when the use that comes `room` behind the next one is still two
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
