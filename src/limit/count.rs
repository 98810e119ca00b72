//! `count`: counts and never refuses.
//!
//! Invariant: the state is `used` alone if it never restarts, else that of `calendar`. There is no
//! maximum, so nothing remains.

use super::Figures;
use super::calendar::{self, Calendar};
use super::interval::Window;

/// The figures of a count that never restarts.
#[inline]
pub(super) fn figures(used: u64) -> Figures {
    Figures { used, max: 0, remaining: 0, reset_ms: (used == 0).then_some(0) }
}

/// The figures of a count that restarts with each calendar window.
#[inline]
pub(super) fn figures_of_turns(limit: &Calendar, window: Window, now: u64) -> Figures {
    let reset_ms = Some(calendar::reset_ms(limit, window, now));
    Figures { used: window.used, max: 0, remaining: 0, reset_ms }
}
