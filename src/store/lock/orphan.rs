//! Orphans: semaphores that name a living slot whose owner does not hold them. A stray write left
//! them so, and no release will ever come.
//!
//! Invariant: a semaphore that its slot's owner holds is never taken for an orphan. Only one
//! process at a time, the owner included, frees orphans in the name of one slot
//! ([`SlotLock::Freeing`]).
//!
//! Why that holds. An owner announces a key-node in its slot before it takes the semaphore, and
//! withdraws after it has released it. A check reads, in this order: the slot's sequence, the
//! semaphore, the intent list, the semaphore, the sequence. Assume that the second read of the
//! semaphore returns the very token that the owner took it with, in its transaction `t`.
//!
//! - The take is a Release and the read an Acquire, so the announcement of `t` is visible after it.
//!   Hence the second sequence is `t` or later. The first sequence must be the same.
//! - If the first sequence were later than `t`, the release of `t` would be visible by then
//!   (`announce` writes the sequence with Release). The semaphore would no longer be read as taken
//!   in `t`.
//! - So the first sequence is `t`. Hence the first read of the semaphore sees the release before
//!   `t`. It returns the owner's token, which is therefore that of `t`. So the list read next is
//!   that of `t` or a later one. That of `t` names the key-node: no orphan. With a later one, the
//!   fences of `announce` and `names` make the release of `t` visible to the second read of the
//!   semaphore, which did not see it.
//!
//! So no take of a semaphore wrote what the second read returned. The same is true when the
//! compare-exchange frees it. The owner takes a semaphore only where it is 0, and only a process
//! that frees orphans in the owner's name could have made it 0.
//!
//! [`SlotLock::Freeing`]: crate::watch::backing::SlotLock::Freeing

use super::semaphore::{Semaphore, Token};
use crate::watch::slot::{Intent, SlotWords};

/// Attempts at a slot whose owner begins one transaction after another.
const LOOKS: u32 = 16;

/// Whether the semaphore of `intent` names the slot's owner, by this token, although the owner does
/// not hold it. False if there is any doubt.
pub(crate) fn is_orphan(
    slot: SlotWords<'_>,
    semaphore: Semaphore<'_>,
    intent: &Intent,
    token: Token,
) -> bool {
    let is_named = || Token::of_word(semaphore.word()) == Some(token);
    for _ in 0..LOOKS {
        let begun = slot.sequence();
        if !is_named() || slot.names(intent) || !is_named() {
            return false;
        }
        if slot.sequence() == begun {
            return true;
        }
    }
    false
}

/// Makes a slot look as if its owner were in a transaction over these key-nodes, with `entries`
/// words logged. Without key-nodes the slot looks idle.
#[cfg(all(any(test, feature = "testing"), not(loom)))]
pub fn pose(slot: SlotWords<'_>, intents: &[Intent], entries: usize) {
    slot.announce(intents.len(), |index| intents[index]);
    if entries > 0 {
        slot.begin(entries);
    } else {
        slot.commit();
    }
    if intents.is_empty() {
        slot.withdraw();
    }
}
