//! How a process waits for a semaphore that is not free: it looks for a while, then it sleeps.
//!
//! Invariant: whoever has slept takes the semaphore with its waiters bit, since others may sleep.
//! When to give up, and what has become of the holder, is not decided here.

use super::semaphore::{Semaphore, Token};

/// Looks before the first sleep, with twice as many pauses from one to the next: some microseconds
/// in all. A holder that runs has released by then. Each look takes the line of the semaphore from
/// its holder, so that many processes that look all the time would keep the holder from its work.
const LOOKS: u32 = 7;

/// One wait.
#[derive(Debug)]
pub(crate) struct Waiter {
    looks: u32,
    /// Before the next look.
    pauses: u32,
    has_slept: bool,
}

/// What comes after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The semaphore is taken.
    Taken,
    /// Look again after so many pauses.
    Look(u32),
    /// Sleep until the word that was seen changes.
    Sleep(u32),
}

impl Waiter {
    /// A wait that begins.
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

    /// Looks until the semaphore is taken, or until it is time to sleep. Then this is the word that
    /// was seen last.
    pub fn look_awhile(&mut self, semaphore: Semaphore<'_>, token: Token) -> Option<u32> {
        loop {
            match self.look(semaphore, token) {
                Next::Taken => return None,
                Next::Look(pauses) => (0..pauses).for_each(|_| std::hint::spin_loop()),
                Next::Sleep(seen) => return Some(seen),
            }
        }
    }

    /// It has slept, or was about to. From now on it looks once between two sleeps: those who look
    /// longer have been woken by a system call of a holder, and the more of them look, the longer
    /// each holder takes.
    pub fn wakes(&mut self) {
        (self.looks, self.has_slept) = (0, true);
    }
}

#[cfg(all(test, not(miri)))]
mod crowd;
