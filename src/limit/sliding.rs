//! `sliding`: exact, at most M in any I.
//!
//! Invariant: the state is the ring that all sliding limits of the biz and scope share. A limit
//! counts the uses whose time is less than an interval away from `now`, in either direction,
//! whatever else the ring holds.

use frs_conf::Sliding;

use super::policy::{Policy, Properties};
use super::ring::{self, MAX_USES, Uses};
use super::state_word::WordNames;
use super::{Figures, Terms};

impl Policy for Sliding {
    fn shape(&self) -> [u64; 2] {
        [4, self.interval_ms]
    }

    fn words(&self) -> WordNames {
        WordNames::only(&[])
    }

    fn properties(&self) -> Properties {
        Properties { is_logged: true, ..Properties::PLAIN }
    }

    #[inline]
    fn roll(&self, _: &mut [u64], _: u64, _: &Terms) {}

    #[inline]
    fn admits(&self, ring: &[u64], now: u64, count: u32, _: &Terms) -> bool {
        let Some(room) = self.max.checked_sub(count.into()) else {
            return false;
        };
        let uses = Uses::of(ring);
        // Usually the whole ring fits, so that no use needs to be counted.
        uses.len() as u64 <= room || uses.count(now, self.interval_ms) as u64 <= room
    }

    #[inline]
    fn charge(&self, _: &mut [u64], _: u64, _: i32, _: &Terms) {}

    #[inline]
    fn figures(&self, ring: &[u64], now: u64, _: &Terms) -> Figures {
        let uses = Uses::of(ring);
        let used = uses.count(now, self.interval_ms) as u64;
        Figures {
            used,
            max: self.max,
            remaining: self.max.saturating_sub(used),
            reset_ms: Some(reset_ms(self, uses, now)),
        }
    }

    fn retry_ms(&self, ring: &[u64], now: u64, count: u32, _: &Terms) -> Option<u64> {
        let room = self.max.checked_sub(count.into())? as usize;
        let uses = Uses::of(ring);
        Some(if uses.are_in_order() {
            first_room(self, Room { uses: uses.len(), room }, now, |nth| uses.time(nth))
        } else {
            first_room_after_steps(self, uses, now, room)
        })
    }

    #[inline]
    fn window_ms(&self, _: &[u64], _: &Terms) -> Option<u64> {
        Some(self.interval_ms)
    }

    fn quota(&self, _: &Terms) -> Option<(u64, Option<u64>)> {
        Some((self.max, Some(self.interval_ms)))
    }

    /// A clock that was set back by up to an interval may have stamped the last use before the
    /// newest one. Hence the bound is one interval longer than a use counts.
    fn life_ms(&self) -> Option<u64> {
        Some(self.interval_ms.saturating_mul(2))
    }

    #[inline]
    fn is_fresh(&self, ring: &[u64]) -> bool {
        ring::is_fresh(ring)
    }

    fn is_kept(&self, _: &[u64]) -> bool {
        false
    }

    #[inline]
    fn counts_since(&self, _: &[u64], _: u64) -> bool {
        false
    }

    /// Other limits may count the uses of the ring.
    fn clear(&self, _: &mut [u64]) -> bool {
        false
    }
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

/// The condition that an item waits for: at most `room` of the ring's `uses` count.
struct Room {
    uses: usize,
    room: usize,
}

/// Milliseconds until there is room for an item. `time` returns the time of each use, in order.
///
/// Room grows only when a use leaves. By then the window may have reached uses that were too far in
/// the future before. So there is room once use `nth` leaves if use `nth + 1 + room` is at least
/// two intervals later than use `nth`.
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
