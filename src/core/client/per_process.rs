//! A pool for each process: a forked child has one of its own.
//!
//! Invariant: a process uses only the pool of its own generation, and no ancestor of it has ever
//! touched that one. So no lock and no half-done change that a fork has copied is met.

use std::sync::OnceLock;

use super::attachment::Attachment;
use super::error::AttachError;
use super::pool::Pool;
use crate::base::sys;

/// Generations of forked children that a client works in.
const GENERATIONS: usize = 64;

#[derive(Debug)]
pub(super) struct Pools {
    /// [`sys::forks`] where the client was made.
    made_at: u64,
    /// Places of each pool.
    size: usize,
    /// By the number of forks since then. Boxed: most are never made.
    generations: [OnceLock<Box<Pool>>; GENERATIONS],
}

impl Pools {
    /// Those of a client that was made at this count of forks.
    pub fn new(forks: u64, size: usize, first: Attachment) -> Pools {
        let pools =
            Pools { made_at: forks, size, generations: [const { OnceLock::new() }; GENERATIONS] };
        let _ = pools.generations[0].set(Box::new(Pool::new(size, Some(first))));
        pools
    }

    /// The pool of the process that counts so many forks.
    #[inline]
    pub fn of(&self, forks: u64) -> Result<&Pool, AttachError> {
        let generation = forks.wrapping_sub(self.made_at) as usize;
        match self.generations.get(generation).and_then(OnceLock::get) {
            Some(pool) => Ok(pool),
            None => self.make(generation),
        }
    }

    #[cold]
    fn make(&self, generation: usize) -> Result<&Pool, AttachError> {
        let Some(pool) = self.generations.get(generation) else {
            return Err(AttachError::Forked { most: GENERATIONS - 1 });
        };
        Ok(pool.get_or_init(|| {
            self.ancestors(generation).for_each(Pool::leave);
            Box::new(Pool::new(self.size, None))
        }))
    }

    fn ancestors(&self, generation: usize) -> impl Iterator<Item = &Pool> {
        let older = &self.generations[..generation.min(GENERATIONS)];
        older.iter().filter_map(OnceLock::get).map(|pool| &**pool)
    }

    /// Keeps from being dropped what ancestors have made and may have been at work on.
    fn forget_ancestors(&mut self, forks: u64) {
        let generation = forks.wrapping_sub(self.made_at) as usize;
        self.ancestors(generation).for_each(Pool::leave);
        for older in &mut self.generations[..generation.min(GENERATIONS)] {
            std::mem::forget(older.take());
        }
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        self.forget_ancestors(sys::forks());
    }
}
