//! `total`: counts up to its max and never resets.
//!
//! Invariant: the state is `used`. Waiting never helps, so there is no retry. Once something is
//! used, there is no reset.

use frs_conf::Total;

use super::{Figures, MAX_USED, use_more};

/// The state at any time is the same.
#[inline]
pub(super) fn roll(used: u64) -> u64 {
    used.min(MAX_USED)
}

/// Whether the state admits `count`, 0 or more.
#[inline]
pub(super) fn admits(limit: &Total, used: u64, count: u32) -> bool {
    used + u64::from(count) <= limit.max
}

/// The state after `count` more.
#[inline]
pub(super) fn charge(used: u64, count: i32) -> u64 {
    use_more(used, count)
}

/// The figures of the state.
#[inline]
pub(super) fn figures(limit: &Total, used: u64) -> Figures {
    Figures {
        used,
        max: limit.max,
        remaining: remaining(limit, used),
        reset_ms: (used == 0).then_some(0),
    }
}

/// Uses left in the state.
#[inline]
pub(super) fn remaining(limit: &Total, used: u64) -> u64 {
    limit.max.saturating_sub(used)
}
