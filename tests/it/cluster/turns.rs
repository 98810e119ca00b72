//! Turns of the tests that run a cluster: each has six nodes and up to three hosts, so a few of
//! them take all processors.
//!
//! Invariant: a test that has a turn never waits for another one. A thread has one turn for all the
//! clusters that it starts.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};

use nix::unistd::gettid;

/// The most tests with a cluster at once.
const MOST: usize = 4;

/// How many clusters each thread has started.
static CLUSTERS: Mutex<BTreeMap<i32, usize>> = Mutex::new(BTreeMap::new());
static FREED: Condvar = Condvar::new();

/// A turn, until it is dropped.
pub struct Turn {
    thread: i32,
}

impl Turn {
    /// Waits for a turn.
    pub fn take() -> Turn {
        let thread = gettid().as_raw();
        let clusters = CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |clusters: &mut BTreeMap<i32, usize>| {
            !clusters.contains_key(&thread) && clusters.len() >= MOST
        };
        let clusters = FREED.wait_while(clusters, is_full);
        *clusters.unwrap_or_else(PoisonError::into_inner).entry(thread).or_default() += 1;
        Turn { thread }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut clusters = CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = clusters.get_mut(&self.thread) {
            *left -= 1;
            if *left == 0 {
                clusters.remove(&self.thread);
                FREED.notify_one();
            }
        }
    }
}
