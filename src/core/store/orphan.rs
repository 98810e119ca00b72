//! Semaphores that name a living slot whose owner does not hold them: a stray write left them so,
//! and no release will ever come.
//!
//! Invariant: a semaphore that its slot's owner holds is never taken for an orphan; and of those
//! who free orphans in the name of one slot there is one at a time ([`Runtime::with_freeing`]), the
//! owner included.
//!
//! Why that holds. An owner announces a key-node in its slot before it takes the semaphore, and
//! withdraws after it has released it. A look reads, in this order: the slot's sequence, the
//! semaphore, the intent list, the semaphore, the sequence. Say that the second look at the
//! semaphore reads the very token that the owner took it with in its transaction `t`.
//!
//! - The take is a Release and the look an Acquire, so the announcement of `t` is seen after it:
//!   the second sequence is `t` or later, and so is the first, which must be the same.
//! - Were the first one later than `t`, the release of `t` would be seen by then (`announce` writes
//!   the sequence with Release), and the semaphore would not be read as taken in `t` any more.
//! - So the first one is `t`, and the release before `t` is seen by the first look at the
//!   semaphore, which reads the owner's token, and so that of `t`. Hence the list that is read is
//!   that of `t`, which names the key-node; or a later one, and then the fences of `announce` and
//!   `names` make the release of `t` seen by the second look at the semaphore, which it is not.
//!
//! So what the second look at the semaphore has read was written by nobody who takes semaphores.
//! And it is the same when the compare-exchange frees it: the owner takes a semaphore only where it
//! is 0, and only who frees orphans in the owner's name would have made it so.
//!
//! [`Runtime::with_freeing`]: super::Runtime

use super::semaphore::{Semaphore, Token};
use super::slot::{Intent, SlotWords};

/// Looks at a slot whose owner begins one transaction after the other.
const LOOKS: u32 = 16;

/// Does the semaphore of `intent` name the slot's owner, by this token, though that one does not
/// hold it. Not, as long as there is any doubt.
pub(super) fn is_orphan(
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

/// Makes a slot look as if its owner were in a transaction over these key-nodes, with so many words
/// logged; in none, where there are none of them.
#[cfg(all(test, not(loom)))]
pub(crate) fn pose(slot: SlotWords<'_>, intents: &[Intent], entries: usize) {
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
