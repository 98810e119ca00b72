//! The binary semaphore of a key-node: one 32-bit word shared by processes.
//!
//! Invariant: 0 is free. Otherwise the word names its holder's slot and epoch, and its top bit says
//! that a waiter may sleep. Only this word decides who owns the key-node: a process whose token is
//! not in it touches nothing else of the key-node.
//!
//! Bits: 0..8 slot, 8..31 epoch (never 0), 31 a waiter may sleep.

use frs_base::sync::{AtomicU32, Ordering, in_order};

use crate::file::region::Region;

const WAITERS: u32 = 1 << 31;
const EPOCH_MASK: u32 = 0x007f_ffff;

/// The holder of a semaphore: a slot and its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token(u32);

impl Token {
    /// The token of a slot at an epoch (1..2^23). A recoverer reads the epoch from shared memory,
    /// where a stray write may leave a value out of range. Surplus bits are dropped.
    pub fn new(slot: u32, epoch: u32) -> Token {
        debug_assert!(slot < 256);
        Token(slot & 0xff | (epoch & EPOCH_MASK) << 8)
    }

    /// The holder that a word names, if it is taken.
    pub(crate) fn of_word(word: u32) -> Option<Token> {
        (word & !WAITERS != 0).then_some(Token(word & !WAITERS))
    }

    /// 0..256.
    pub fn slot(self) -> u32 {
        self.0 & 0xff
    }

    /// The slot's epoch when it took the semaphore.
    pub fn epoch(self) -> u32 {
        self.0 >> 8
    }

    /// The epoch after this one; 0 is skipped.
    pub(crate) fn next_epoch(epoch: u32) -> u32 {
        (epoch & EPOCH_MASK) % EPOCH_MASK + 1
    }
}

/// A semaphore word in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct Semaphore<'a>(&'a AtomicU32);

impl<'a> Semaphore<'a> {
    /// The semaphore at this word.
    #[cfg(test)]
    pub fn at(word: &'a AtomicU32) -> Semaphore<'a> {
        Semaphore(word)
    }

    /// The semaphore of the key-node whose head begins at this word of its file.
    #[inline]
    pub(crate) fn of_head(region: &'a Region, head: usize) -> Semaphore<'a> {
        Semaphore(region.half(head * 2))
    }

    /// The present word. Acquire: pairs with the holder's exchange, so the holder's slot, read
    /// next, is not older than this word.
    #[inline]
    pub fn word(self) -> u32 {
        #[cfg(any(test, feature = "crash-points"))]
        crate::crash::look();
        self.0.load(Ordering::Acquire)
    }

    /// Like [`Semaphore::word`], in one total order with the exchanges that take the semaphore and
    /// the accesses to the bits of changed pages.
    pub(crate) fn word_in_order(self) -> u32 {
        in_order();
        // SeqCst: after the clearing of bits; pairs with a holder's exchange and with the marks
        // that the holder sets. It includes Acquire: a reader of 0 sees all that the last holder
        // has written.
        self.0.load(Ordering::SeqCst)
    }

    /// Whether both are the same word of the same map.
    pub fn is_same(self, other: Semaphore<'_>) -> bool {
        std::ptr::eq(self.0, other.0)
    }

    /// Frees a word that has the waiters bit but names no holder: no holder will free it.
    pub(crate) fn free_unowned(self) -> bool {
        self.exchange(WAITERS, 0).is_ok()
    }

    /// Changes free to taken. If it is not free, returns the word found.
    #[inline]
    pub fn try_take(self, token: Token) -> Result<(), u32> {
        // `of_word` reads the token back: it must never look like a free word.
        debug_assert!(token.epoch() != 0, "slot {} takes without an epoch", token.slot());
        self.exchange(0, token.0)
    }

    /// Like [`Semaphore::try_take`], for a waiter that has slept. It sets the waiters bit, because
    /// others may still sleep.
    pub(crate) fn try_take_after_sleep(self, token: Token) -> Result<(), u32> {
        debug_assert!(token.epoch() != 0, "slot {} takes without an epoch", token.slot());
        self.exchange(0, token.0 | WAITERS)
    }

    #[inline]
    fn exchange(self, from: u32, to: u32) -> Result<(), u32> {
        // A dead owner goes on as if it had taken the semaphore: nothing it does has an effect.
        #[cfg(any(test, feature = "crash-points"))]
        if !crate::crash::point() {
            return Ok(());
        }
        // Acquire: pairs with `release` of the previous holder. Release: a recoverer that sees this
        // token sees the intent written before. SeqCst: before any look at the bits of changed
        // pages; pairs with `word_in_order` of the keeper.
        self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).map(|_| ())
    }

    /// Releases it, and wakes one sleeper if there may be one.
    #[inline]
    pub fn release(self) {
        #[cfg(any(test, feature = "crash-points"))]
        if !crate::crash::point() {
            return;
        }
        // AcqRel: pairs with the exchange of the next holder.
        if self.0.swap(0, Ordering::AcqRel) & WAITERS != 0 {
            wake(self.0);
        }
    }

    /// Releases it on behalf of a dead holder, if the word still names that holder.
    pub(crate) fn release_for(self, dead: Token) -> bool {
        let mut word = self.0.load(Ordering::Acquire);
        while Token::of_word(word) == Some(dead) {
            #[cfg(any(test, feature = "crash-points"))]
            if !crate::crash::point() {
                return false;
            }
            match self.0.compare_exchange_weak(word, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    wake(self.0);
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    /// Sleeps until the word changes, at most 1 ms: a holder killed between its release and its
    /// wake-up call must not cost more. Returns early at any doubt.
    pub(crate) fn sleep_slice(self, seen: u32) {
        if self.mark(seen) {
            wait(self.0, seen | WAITERS);
        }
    }

    /// Sets the waiters bit, if the word is still the one that was seen.
    pub(crate) fn mark(self, seen: u32) -> bool {
        seen & WAITERS != 0 || self.exchange(seen, seen | WAITERS).is_ok()
    }
}

#[cfg(not(any(loom, miri)))]
fn wait(word: &AtomicU32, seen: u32) {
    #[cfg(any(test, feature = "crash-points"))]
    if crate::crash::sleeps() {
        return;
    }
    frs_base::sys::futex_wait(word, seen, std::time::Duration::from_millis(1));
}

#[cfg(not(any(loom, miri)))]
fn wake(word: &AtomicU32) {
    frs_base::sys::futex_wake_one(word);
}

// Neither loom nor Miri runs the system call. A sleep that ends at once serves as well.
#[cfg(any(loom, miri))]
fn wait(_word: &AtomicU32, _seen: u32) {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}

#[cfg(any(loom, miri))]
fn wake(_word: &AtomicU32) {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_token_keeps_slot_and_epoch() {
        for (slot, epoch) in [(0, 1), (255, EPOCH_MASK), (17, 12345)] {
            let token = Token::new(slot, epoch);
            assert_eq!((token.slot(), token.epoch()), (slot, epoch));
            assert_eq!(Token::of_word(token.0 | WAITERS), Some(token));
        }
        assert_eq!(Token::of_word(0), None);
        assert_eq!(Token::of_word(WAITERS), None);
    }

    #[test]
    fn an_epoch_that_nobody_wrote_is_no_panic_of_who_recovers_its_slot() {
        for epoch in [0, EPOCH_MASK + 1, u32::MAX] {
            assert_eq!(Token::new(7, epoch).slot(), 7);
            assert!(Token::of_word(WAITERS | 7) != Some(Token::new(8, epoch)));
        }
    }

    #[test]
    fn epochs_never_become_zero() {
        assert_eq!(Token::next_epoch(0), 1);
        assert_eq!(Token::next_epoch(1), 2);
        assert_eq!(Token::next_epoch(EPOCH_MASK), 1);
    }

    #[test]
    fn taken_once_and_released_once() {
        let word = AtomicU32::new(0);
        let semaphore = Semaphore::at(&word);
        let (one, two) = (Token::new(1, 1), Token::new(2, 9));
        assert_eq!(semaphore.try_take(one), Ok(()));
        assert_eq!(semaphore.try_take(two), Err(one.0));
        assert!(!semaphore.release_for(two));
        semaphore.release();
        assert_eq!(semaphore.try_take_after_sleep(two), Ok(()));
        assert_eq!(semaphore.word(), two.0 | WAITERS);
        assert!(semaphore.release_for(two));
        assert_eq!(semaphore.word(), 0);
    }

    // Shows: exactly-m.
    #[test]
    fn threads_take_turns() {
        let word = AtomicU32::new(0);
        let shared = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for slot in 0..4 {
                let (word, shared) = (&word, &shared);
                scope.spawn(move || {
                    let (semaphore, token) = (Semaphore::at(word), Token::new(slot, 1));
                    for _ in 0..if cfg!(miri) { 20 } else { 5000 } {
                        let mut slept = false;
                        loop {
                            let taken = if slept {
                                semaphore.try_take_after_sleep(token)
                            } else {
                                semaphore.try_take(token)
                            };
                            let Err(seen) = taken else { break };
                            if seen != 0 {
                                slept = true;
                                semaphore.sleep_slice(seen);
                            }
                        }
                        let seen = shared.load(Ordering::Relaxed);
                        shared.store(seen + 1, Ordering::Relaxed);
                        semaphore.release();
                    }
                });
            }
        });
        let each = if cfg!(miri) { 20 } else { 5000 };
        assert_eq!(shared.load(Ordering::Relaxed), 4 * each);
    }
}
