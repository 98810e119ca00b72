//! The arithmetic of uses.
//!
//! Invariant: uses are never below 0 or above [`MAX_USED`].

/// The most uses that a state can hold: 2^53 - 1, the largest integer that JSON readers keep exact.
pub const MAX_USED: u64 = frs_conf::MAX_COUNT;

/// `used` after `count` more, or after a negative `count` is given back. Never below 0 or above
/// [`MAX_USED`].
#[inline]
pub(super) const fn use_more(used: u64, count: i32) -> u64 {
    let magnitude = count.unsigned_abs() as u64;
    if count < 0 {
        used.saturating_sub(magnitude)
    } else {
        let sum = used.saturating_add(magnitude);
        if sum < MAX_USED { sum } else { MAX_USED }
    }
}
