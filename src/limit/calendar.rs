//! `calendar`: natural windows of a time zone.

use super::Figures;
use super::interval::Window;
use super::turns::Span;
use crate::conf;
use crate::conf::{Turns, Unit};

/// Settings made ready, with the window of the time last told.
#[derive(Debug, Clone)]
pub(super) struct Calendar {
    limit: conf::Calendar,
    current: Span,
}

impl Calendar {
    /// Makes a limit ready; it must be told the time before it is used.
    pub fn new(limit: &conf::Calendar) -> Calendar {
        Calendar { limit: limit.clone(), current: Span::NEVER }
    }

    /// One that counts only.
    pub fn counting(turns: &Turns) -> Calendar {
        Calendar::new(&conf::Calendar { turns: turns.clone(), max: 0, debt: 0 })
    }

    /// The length of its windows.
    pub fn unit(&self) -> Unit {
        self.limit.turns.unit
    }

    /// Tells the time; for how long it need not be told another.
    pub fn set_now(&mut self, now: u64) -> Span {
        todo!()
    }
}

pub(super) fn roll(limit: &Calendar, window: Window, now: u64) -> Window {
    todo!()
}

pub(super) fn admits(limit: &Calendar, window: Window, count: u32) -> bool {
    todo!()
}

pub(super) fn charge(limit: &Calendar, window: Window, count: i32) -> Window {
    todo!()
}

pub(super) fn figures(limit: &Calendar, window: Window, now: u64) -> Figures {
    todo!()
}

pub(super) fn remaining(limit: &Calendar, window: Window) -> u64 {
    todo!()
}

pub(super) fn retry_ms(limit: &Calendar, window: Window, now: u64, count: u32) -> Option<u64> {
    todo!()
}

pub(super) fn window_ms(limit: &Calendar, window: Window) -> u64 {
    todo!()
}

pub(super) fn life_ms(limit: &Calendar) -> Option<u64> {
    todo!()
}
