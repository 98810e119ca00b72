//! Doorbells: how an owner of letters calls the reader of the mailboxes, and the reader an owner.
//!
//! Invariant: no ring is lost. A sleeper first sets the bell's word to asleep, then looks for work
//! once more. A ringer first publishes the work, then reads the word. Each has a SeqCst fence
//! between its two steps, and one of the two fences comes first. If it is the sleeper's, the ringer
//! sees the word and wakes the sleeper. If it is the ringer's, the sleeper sees the work and does
//! not sleep. So a bell costs no system call while the other side is awake.
//!
//! A ringer never clears the sleeper's mark: if it dies before it wakes the sleeper, the next
//! ringer does so. All sleeps have a limit, in case no other ringer comes.

use frs_base::sync::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
pub use kernel::EventBell;

/// The other side sleeps, or is about to.
const ASLEEP: u32 = 1;
/// The number that a ring by futex adds to the bits above [`ASLEEP`].
const RING: u32 = 2;

/// A bell's word in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct Bell<'a>(&'a AtomicU32);

/// The value of a bell's word when its sleeper lay down. Another value means that the bell was rung
/// since.
#[derive(Debug, Clone, Copy)]
pub struct Rest(u32);

impl<'a> Bell<'a> {
    /// The bell of this word.
    pub(crate) fn at(word: &'a AtomicU32) -> Bell<'a> {
        Bell(word)
    }

    /// Marks this side as asleep. A look for work after this call finds work that was published
    /// before; later work rings the bell.
    pub fn lie_down(self) -> Rest {
        let rest = Rest(self.0.fetch_or(ASLEEP, Ordering::Relaxed) | ASLEEP);
        // Pairs with the fence of `is_asleep`.
        fence(Ordering::SeqCst);
        rest
    }

    /// Marks this side as awake, so that no ring is needed.
    pub fn get_up(self) {
        self.0.fetch_and(!ASLEEP, Ordering::Relaxed);
    }

    /// Whether the other side must be woken for work that the caller has published before.
    pub(crate) fn is_asleep(self) -> bool {
        // Pairs with the fence of `lie_down`.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) & ASLEEP != 0
    }

    /// Wakes the other side by a futex on the word, if it sleeps. Returns true if it slept.
    pub fn ring(self) -> bool {
        let is_asleep = self.is_asleep();
        if is_asleep {
            // A sleeper that is about to wait finds another value, and looks again.
            self.0.fetch_add(RING, Ordering::Relaxed);
            wake(self.0);
        }
        is_asleep
    }

    /// Sleeps by a futex on the word until it is rung, at most for the limit. Returns early at any
    /// doubt.
    pub fn sleep(self, rest: Rest, limit: std::time::Duration) {
        wait(self.0, rest.0, limit);
    }
}

/// The slots with new letters: a bit for each slot, set by its owner and taken by the reader.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a>(&'a [AtomicU64]);

impl<'a> Asking<'a> {
    /// The bits in these words.
    pub(crate) fn at(words: &'a [AtomicU64]) -> Asking<'a> {
        Asking(words)
    }

    /// Notes that a slot has new letters.
    pub(crate) fn set(self, slot: u32) {
        #[cfg(any(test, feature = "crash-points"))]
        if !crate::crash::point() {
            return;
        }
        // Release: its letters are in the ring; pairs with `take`.
        self.0[slot as usize / 64].fetch_or(1 << (slot % 64), Ordering::Release);
    }

    /// Whether any slot has new letters.
    pub fn is_any(self) -> bool {
        self.0.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// The slots that have new letters. Clears their bits, so each is returned once.
    pub fn take(self) -> impl Iterator<Item = u32> + use<'a> {
        (0u32..).zip(self.0).flat_map(|(word, bits)| {
            let is_any = bits.load(Ordering::Relaxed) != 0;
            // Acquire: pairs with `set`.
            let mut bits = if is_any { bits.swap(0, Ordering::Acquire) } else { 0 };
            std::iter::from_fn(move || {
                let slot = (bits != 0).then(|| word * 64 + bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(slot)
            })
        })
    }
}

#[cfg(not(any(loom, miri)))]
fn wait(word: &AtomicU32, seen: u32, limit: std::time::Duration) {
    frs_base::sys::futex_wait(word, seen, limit);
}

#[cfg(not(any(loom, miri)))]
fn wake(word: &AtomicU32) {
    frs_base::sys::futex_wake_all(word);
}

// As for semaphores, a sleep that ends at once serves as well.
#[cfg(any(loom, miri))]
fn wait(_word: &AtomicU32, _seen: u32, _limit: std::time::Duration) {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}

#[cfg(any(loom, miri))]
fn wake(_word: &AtomicU32) {}

#[cfg(not(loom))]
mod kernel {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use nix::errno::Errno;
    use nix::sys::eventfd::{EfdFlags, EventFd};
    use nix::unistd::{read, write};

    use super::Bell;

    /// The eventfd of a bell whose other side sleeps in epoll. The master makes it before it forks
    /// the ringers and the sleeper, and hands it over to a new binary at an upgrade.
    #[derive(Debug)]
    pub struct EventBell(OwnedFd);

    impl EventBell {
        /// Makes an eventfd.
        pub fn new() -> io::Result<EventBell> {
            let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
            Ok(EventBell(EventFd::from_flags(flags)?.into()))
        }

        /// Wakes the other side, if the bell's word says that it sleeps. Returns true if it slept.
        pub fn ring(&self, bell: Bell<'_>) -> bool {
            let is_asleep = bell.is_asleep();
            if is_asleep {
                // It fails only if the counter is full: then earlier rings wake the sleeper.
                let _ = write(&self.0, &1u64.to_ne_bytes());
            }
            is_asleep
        }

        /// Clears the rings so far. The woken side calls it. Returns true if there was any ring.
        pub fn drain(&self) -> io::Result<bool> {
            match read(&self.0, &mut [0u8; 8]) {
                Ok(_) => Ok(true),
                Err(Errno::EAGAIN | Errno::EINTR) => Ok(false),
                Err(error) => Err(error.into()),
            }
        }
    }

    /// An eventfd that an older master has handed over.
    impl From<OwnedFd> for EventBell {
        fn from(event: OwnedFd) -> EventBell {
            EventBell(event)
        }
    }

    /// For polling; it is readable after a ring.
    impl AsFd for EventBell {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Longer than any test waits.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_event_bell_calls_the_kernel_only_for_a_sleeper() {
        let (word, event) = (AtomicU32::new(0), EventBell::new().unwrap());
        let bell = Bell::at(&word);
        assert!(!event.ring(bell) && !event.drain().unwrap());
        bell.lie_down();
        assert!(event.ring(bell) && event.ring(bell));
        assert!(event.drain().unwrap() && !event.drain().unwrap());
        bell.get_up();
        assert!(!event.ring(bell) && !event.drain().unwrap());
    }

    #[test]
    fn a_ring_before_the_sleep_ends_it_at_once() {
        let word = AtomicU32::new(0);
        let bell = Bell::at(&word);
        let (begun, rest) = (Instant::now(), bell.lie_down());
        assert!(bell.ring());
        bell.sleep(rest, LONG);
        assert!(begun.elapsed() < LONG / 2);
        bell.get_up();
        assert!(!bell.ring(), "nobody sleeps");
    }

    #[test]
    fn every_sleeper_is_woken() {
        let (word, all) = (AtomicU32::new(0), 3);
        let (begun, up) = (Instant::now(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..all {
                scope.spawn(|| {
                    Bell::at(&word).sleep(Bell::at(&word).lie_down(), LONG);
                    up.fetch_add(1, Ordering::Relaxed);
                });
            }
            while up.load(Ordering::Relaxed) < all {
                // A sleeper that lies down after a ring waits for the next ring.
                Bell::at(&word).ring();
                std::thread::yield_now();
            }
        });
        assert!(begun.elapsed() < LONG / 2);
    }

    #[test]
    fn slots_that_ask_are_named_once() {
        let words = [const { AtomicU64::new(0) }; 4];
        let asking = Asking::at(&words);
        let slots = [0, 63, 64, 200, 255];
        assert!(!asking.is_any());
        slots.iter().chain(&slots).for_each(|&slot| asking.set(slot));
        assert!(asking.is_any());
        assert_eq!(asking.take().collect::<Vec<_>>(), slots);
        assert!(!asking.is_any() && asking.take().next().is_none());
    }
}
