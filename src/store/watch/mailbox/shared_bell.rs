//! The bell of an owner whose threads wait side by side.
//!
//! Invariant: as long as one thread lies there, the bell says so, and after its slot was given back
//! nobody touches it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::doorbell::{Bell, Rest};
use crate::file::layout::slot::BELL;
use crate::file::region::Region;

/// The bell of an owner whose threads wait for its wants while others use its handle. The map is
/// its own, so a thread sleeps without the handle.
#[derive(Debug)]
pub struct SharedBell {
    page: Region,
    sleepers: Mutex<Sleepers>,
}

#[derive(Debug, Default)]
struct Sleepers {
    threads: usize,
    /// The slot is given back: its bell may be another owner's now.
    is_closed: bool,
}

/// A thread that lies by the bell, until this is dropped. From the beginning on it is called for
/// each want that is finished.
#[derive(Debug)]
pub struct Lying<'b> {
    shared: &'b SharedBell,
    /// None: nobody rings any more.
    rest: Option<Rest>,
}

impl SharedBell {
    /// The bell of a slot, by a map of the slot's first page.
    pub fn of(page: Region) -> Arc<SharedBell> {
        Arc::new(SharedBell { page, sleepers: Mutex::default() })
    }

    fn bell(&self) -> Bell<'_> {
        Bell::at(self.page.half(BELL * 2))
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// About to sleep: look for what is awaited after this.
    pub fn lie_down(&self) -> Lying<'_> {
        let mut sleepers = self.sleepers();
        sleepers.threads += 1;
        let rest = (!sleepers.is_closed).then(|| self.bell().lie_down());
        Lying { shared: self, rest }
    }

    /// The slot is about to be given back: wakes all that lie by the bell, for ever.
    pub fn close(&self) {
        let mut sleepers = self.sleepers();
        sleepers.is_closed = true;
        self.bell().ring();
        self.bell().get_up();
    }
}

impl Lying<'_> {
    /// Sleeps until the bell is rung, at most for the limit. Returns early at any doubt.
    pub fn sleep(&self, limit: Duration) {
        if let Some(rest) = self.rest {
            self.shared.bell().sleep(rest, limit);
        }
    }
}

impl Drop for Lying<'_> {
    fn drop(&mut self) {
        let mut sleepers = self.shared.sleepers();
        sleepers.threads -= 1;
        // As long as one lies there, the courier has to call.
        if sleepers.threads == 0 && !sleepers.is_closed {
            self.shared.bell().get_up();
        }
    }
}
