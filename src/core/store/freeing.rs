//! Freeing semaphores that name a living slot whose owner does not hold them.
//!
//! Invariant: a handle frees one in its own name only while it waits for it, and one in another's
//! name only where `orphan.rs` tells that it is nobody's; both under the lock of who frees in that
//! name.

use super::counter::Counter;
use super::handle::Handle;
use super::orphan;
use super::semaphore::{Semaphore, Token};
use super::slot::Intent;

impl Handle {
    /// Frees a semaphore that names a living slot whose owner does not hold it: that one itself
    /// where it waits for it, anybody else where the slot does not announce the key-node. Whether
    /// it did. `orphan.rs` tells why no holder is ever taken for another.
    pub(super) fn free_orphan(&self, semaphore: Semaphore<'_>, holder: Token) -> bool {
        let own = self.slot().token();
        let announced = |intent: &Intent| Some((*intent, self.semaphore_of(intent)?));
        // Those it waits for: this one, and all that come after it.
        let mut wanted = self.slot().words().intents().filter_map(|intent| announced(&intent));
        let Some((intent, _)) = wanted.find(|(_, known)| known.is_same(semaphore)) else {
            return false;
        };
        // Others may wait for one of those while this handle waits for them.
        for (_, later) in wanted.filter(|(_, later)| Token::of_word(later.word()) == Some(own)) {
            self.free_in_the_name_of(own, later, || true);
        }
        if holder == own {
            return self.free_in_the_name_of(own, semaphore, || true);
        }
        let slot = self.runtime.slot(holder.slot());
        let is_orphan = || orphan::is_orphan(slot, semaphore, &intent, holder);
        // A look beforehand: a holder that is only slow costs no calls to the kernel.
        is_orphan() && self.free_in_the_name_of(holder, semaphore, is_orphan)
    }

    fn free_in_the_name_of(
        &self,
        holder: Token,
        semaphore: Semaphore<'_>,
        is_orphan: impl FnOnce() -> bool,
    ) -> bool {
        let free = || is_orphan() && semaphore.release_for(holder);
        let freed = self.runtime.with_freeing(holder.slot(), free).unwrap_or(false);
        if freed {
            self.slot().count(Counter::SemaphoreOrphans);
        }
        freed
    }

    /// The semaphore of a key-node that is announced.
    fn semaphore_of(&self, intent: &Intent) -> Option<Semaphore<'_>> {
        let group = self.groups.iter().find(|group| group.header().id == intent.group)?;
        let is_there = group.has(intent.file, intent.key_node);
        is_there.then(|| group.semaphore(intent.file, intent.key_node))
    }
}
