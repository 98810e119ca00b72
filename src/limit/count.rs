//! `count`: counts, never refuses.

use super::Figures;
use super::calendar::Calendar;
use super::interval::Window;

pub(super) fn figures(used: u64) -> Figures {
    todo!()
}

pub(super) fn figures_of_turns(limit: &Calendar, window: Window, now: u64) -> Figures {
    todo!()
}
