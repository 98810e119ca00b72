//! The bell of an owner whose threads wait side by side.
//!
//! Invariant: as long as one thread lies by the bell, the bell is marked asleep. After the slot is
//! given back, no thread touches the bell.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::doorbell::{Bell, Rest};
use crate::file::layout::slot::BELL;
use crate::file::region::Region;

/// The bell of an owner whose threads wait for replies while others use its handle. It has its
/// own map, so a thread sleeps without the handle.
#[derive(Debug)]
pub struct SharedBell {
    page: Region,
    sleepers: Mutex<Sleepers>,
}

#[derive(Debug, Default)]
struct Sleepers {
    threads: usize,
    /// The slot is given back, so its bell may belong to another owner now.
    is_closed: bool,
}

/// A thread that lies by the bell, until this is dropped. From its start on, each reply
/// rings for it.
#[derive(Debug)]
pub struct Lying<'b> {
    shared: &'b SharedBell,
    /// None if the bell is closed and never rings again.
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

    /// Registers a thread that is about to sleep. The thread must look for its results after this
    /// call.
    pub fn lie_down(&self) -> Lying<'_> {
        let mut sleepers = self.sleepers();
        sleepers.threads += 1;
        let rest = (!sleepers.is_closed).then(|| self.bell().lie_down());
        Lying { shared: self, rest }
    }

    /// Closes the bell before the slot is given back: wakes all threads that lie by it, and lets
    /// none sleep again.
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
        // As long as another thread lies there, the reader must ring.
        if sleepers.threads == 0 && !sleepers.is_closed {
            self.shared.bell().get_up();
        }
    }
}
