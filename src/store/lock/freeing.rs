//! Frees semaphores that name a living slot whose owner does not hold them.
//!
//! Invariant: a handle frees a semaphore in its own name only while it waits for it, and in
//! another's name only where `orphan.rs` shows that it is an orphan. Both need the lock for freeing
//! in that name.

use super::orphan;
use super::semaphore::{Semaphore, Token};
use crate::handle::Handle;
use crate::watch::backing::SlotLock;
use crate::watch::counter::Counter;
use crate::watch::slot::Intent;

impl Handle {
    /// Frees a semaphore that names a living slot whose owner does not hold it. The owner itself
    /// frees it while it waits for it; another handle frees it if the slot does not announce the
    /// key-node. True if it was freed. `orphan.rs` shows why a held semaphore is never taken for an
    /// orphan.
    pub(crate) fn free_orphan(&self, semaphore: Semaphore<'_>, holder: Token) -> bool {
        let own = self.slot().token();
        let announced = |intent: &Intent| Some((*intent, self.semaphore_of(intent)?));
        // The semaphores this handle waits for: this one, and all after it.
        let mut wanted = self.slot().words().intents().filter_map(|intent| announced(&intent));
        let Some((intent, _)) = wanted.find(|(_, known)| known.is_same(semaphore)) else {
            return false;
        };
        // Another handle may wait for one of the later ones while this handle waits for this one.
        for (_, later) in wanted.filter(|(_, later)| Token::of_word(later.word()) == Some(own)) {
            self.free_in_the_name_of(own, later, || true);
        }
        if holder == own {
            return self.free_in_the_name_of(own, semaphore, || true);
        }
        let slot = self.runtime.slot(holder.slot());
        let is_orphan = || orphan::is_orphan(slot, semaphore, &intent, holder);
        // Check first without the lock: a holder that is merely slow costs no system calls.
        is_orphan() && self.free_in_the_name_of(holder, semaphore, is_orphan)
    }

    fn free_in_the_name_of(
        &self,
        holder: Token,
        semaphore: Semaphore<'_>,
        is_orphan: impl FnOnce() -> bool,
    ) -> bool {
        let free = || is_orphan() && semaphore.release_for(holder);
        let lock = SlotLock::Freeing(holder.slot());
        let freed = self.runtime.with_lock(lock, free).unwrap_or(false);
        if freed {
            self.slot().count(Counter::SemaphoreOrphans);
        }
        freed
    }

    /// The semaphore of an announced key-node.
    fn semaphore_of(&self, intent: &Intent) -> Option<Semaphore<'_>> {
        let group = self.groups.iter().find(|group| group.header().id == intent.group)?;
        let is_there = group.has(intent.file, intent.key_node);
        is_there.then(|| group.semaphore(intent.file, intent.key_node))
    }
}
