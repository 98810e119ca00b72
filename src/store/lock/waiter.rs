//! How a process waits for a semaphore that is not free: it looks for a while, then it sleeps.
//!
//! Invariant: a waiter that has slept takes the semaphore with its waiters bit, since others may
//! sleep. The caller decides when to give up, and finds out whether the holder lives.

use super::semaphore::{Semaphore, Token};

/// Looks before the first sleep. The number of pauses doubles from look to look, and all of them
/// take some microseconds; a running holder has released by then. Each look takes the semaphore's
/// cache line from the holder, so constant looks of many processes would delay the holder.
const LOOKS: u32 = 7;

/// One wait.
#[derive(Debug)]
pub(crate) struct Waiter {
    looks: u32,
    /// Pauses before the next look.
    pauses: u32,
    has_slept: bool,
}

/// The step after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The semaphore is taken.
    Taken,
    /// Look again after this many pauses.
    Look(u32),
    /// Sleep until the word differs from this one.
    Sleep(u32),
}

impl Waiter {
    /// Begins a wait.
    pub fn new() -> Waiter {
        Waiter { looks: LOOKS, pauses: 1, has_slept: false }
    }

    /// Looks at the semaphore, and takes it if it is free.
    pub fn look(&mut self, semaphore: Semaphore<'_>, token: Token) -> Next {
        let seen = semaphore.word();
        if seen == 0 {
            let taken = match self.has_slept {
                false => semaphore.try_take(token),
                true => semaphore.try_take_after_sleep(token),
            };
            if taken.is_ok() {
                return Next::Taken;
            }
        }
        match self.looks.checked_sub(1) {
            Some(left) => {
                let pauses = self.pauses;
                (self.looks, self.pauses) = (left, 2 * pauses);
                Next::Look(pauses)
            }
            None => Next::Sleep(seen),
        }
    }

    /// Looks until the semaphore is taken, or until it is time to sleep. Returns None in the first
    /// case, the word that was seen last in the second.
    pub(crate) fn look_awhile(&mut self, semaphore: Semaphore<'_>, token: Token) -> Option<u32> {
        loop {
            match self.look(semaphore, token) {
                Next::Taken => return None,
                Next::Look(pauses) => (0..pauses).for_each(|_| std::hint::spin_loop()),
                Next::Sleep(seen) => return Some(seen),
            }
        }
    }

    /// Notes that the waiter has slept, or was about to. From now on it looks once between two
    /// sleeps: each release wakes a waiter by a system call, and the more woken waiters look, the
    /// longer each holder takes.
    pub fn wakes(&mut self) {
        (self.looks, self.has_slept) = (0, true);
    }
}

#[cfg(all(test, not(miri)))]
mod crowd;
