//! One pool for each process: a forked child has its own.
//!
//! Invariant: a process uses only the pool of its own generation, which no ancestor has ever
//! touched. So a process never meets a lock or a half-done change that a fork has copied.

use frs_base::sys::{self, SetOnce};

use super::attachment::Attachment;
use super::error::AttachError;
use super::pool::Pool;

/// Generations of forked children that a client works in.
const GENERATIONS: usize = 64;

#[derive(Debug)]
pub(super) struct Pools {
    /// [`sys::forks`] when the client was made.
    made_at: u64,
    /// Places in each pool.
    size: usize,
    /// The pools by the number of forks since then. Most are never made. Each is made by one
    /// exchange, so no fork copies a half-made pool.
    generations: [SetOnce<Pool>; GENERATIONS],
}

impl Pools {
    /// The pools of a client made at this count of forks.
    pub fn new(forks: u64, size: usize, first: Attachment) -> Pools {
        let pools =
            Pools { made_at: forks, size, generations: [const { SetOnce::new() }; GENERATIONS] };
        pools.generations[0].get_or_set(|| Box::new(Pool::new(size, Some(first))));
        pools
    }

    /// Gives each pool this many places. A pool of an ancestor is left as it is: this process never
    /// uses it.
    pub fn set_size(&mut self, size: usize) {
        self.size = size;
        let own = sys::forks().wrapping_sub(self.made_at) as usize;
        if let Some(pool) = self.generations.get_mut(own).and_then(SetOnce::take) {
            self.generations[own].get_or_set(|| Box::new(pool.resized(size)));
        }
    }

    /// The pool of a process with this count of forks.
    #[inline]
    pub fn of(&self, forks: u64) -> Result<&Pool, AttachError> {
        let generation = forks.wrapping_sub(self.made_at) as usize;
        match self.generations.get(generation).and_then(SetOnce::get) {
            Some(pool) => Ok(pool),
            None => self.make(generation),
        }
    }

    #[cold]
    fn make(&self, generation: usize) -> Result<&Pool, AttachError> {
        let Some(pool) = self.generations.get(generation) else {
            return Err(AttachError::Forked { most: GENERATIONS - 1 });
        };
        Ok(pool.get_or_set(|| {
            self.ancestors(generation).for_each(Pool::leave);
            Box::new(Pool::new(self.size, None))
        }))
    }

    fn ancestors(&self, generation: usize) -> impl Iterator<Item = &Pool> {
        let older = &self.generations[..generation.min(GENERATIONS)];
        older.iter().filter_map(SetOnce::get)
    }
}

impl Drop for Pools {
    /// Leaks the pools of ancestors instead of dropping them: an ancestor may have been using them
    /// at the fork.
    fn drop(&mut self) {
        let generation = sys::forks().wrapping_sub(self.made_at) as usize;
        self.ancestors(generation).for_each(Pool::leave);
        for older in &mut self.generations[..generation.min(GENERATIONS)] {
            std::mem::forget(older.take());
        }
    }
}
