//! Recovers the slots of dead processes: reaches the groups that their logs name, and undoes.
//!
//! Invariant: a group is reached by its id, so both groups of a moving one are. A group that cannot
//! be opened is quarantined before the slot is freed.

use std::cell::RefCell;
use std::path::Path;

use frs_base::sync::Ordering;

use super::notice::Notice;
use crate::commit::undo_log::{Files, PlaceOf, Recovered, Undo};
use crate::file::group::Group;
use crate::file::layout::runtime as layout;
use crate::lock::semaphore::Token;
use crate::watch::backing::SlotLock;
use crate::watch::runtime::{Registered, Runtime};
use crate::watch::slot::{Intent, SlotWords};

/// Recovers a slot if its owner is dead, its lock is free now, and the groups it worked on can be
/// opened. A group with damaged files is quarantined and skipped; a scan precedes its next use.
pub(crate) fn recover_slot(
    runtime: &Runtime,
    slot: u32,
    groups: &[Group],
    live_dir: &Path,
    notices: &mut Vec<Notice>,
) -> bool {
    let done = runtime.with_lock(SlotLock::Owner(slot), || {
        let words = runtime.slot(slot);
        if !words.state().used {
            return false;
        }
        let Some(reach) = Reach::of(runtime, words, groups, live_dir, notices) else {
            return false;
        };
        let pid = words.owner().pid;
        let Recovered { undone: undone_words, freed, damage } = words.recover(slot, &reach);
        notices.extend(damage.map(|damage| Notice::Damaged { slot, pid, damage }));
        let doubtful = reach.doubtful.take().into_iter();
        notices.extend(doubtful.map(|group| Notice::Doubtful { group }));
        notices.push(Notice::Recovery { slot, pid, undone_words, freed });
        true
    });
    done.unwrap_or(false)
}

/// How a recoverer reaches group files: those it has mapped, others through the register.
pub(crate) struct Reach<'a> {
    runtime: &'a Runtime,
    groups: &'a [Group],
    opened: Vec<Group>,
    /// Quarantined groups. They are not touched, because a page of them may be gone.
    skipped: Vec<u64>,
    /// Names of the groups that were quarantined because of a damaged log.
    doubtful: RefCell<Vec<String>>,
}

impl<'a> Reach<'a> {
    pub fn new(runtime: &'a Runtime, groups: &'a [Group]) -> Reach<'a> {
        let (opened, skipped) = (Vec::new(), Vec::new());
        Reach { runtime, groups, opened, skipped, doubtful: RefCell::default() }
    }

    /// Opens the groups that the slot's logs name. Returns None if one cannot be opened now; then
    /// the slot stays as it is and is recovered later.
    fn of(
        runtime: &'a Runtime,
        words: SlotWords<'_>,
        groups: &'a [Group],
        live_dir: &Path,
        notices: &mut Vec<Notice>,
    ) -> Option<Reach<'a>> {
        let mut ids = Vec::new();
        words.for_each_group(|id| ids.push(id));
        ids.sort_unstable();
        ids.dedup();
        let mut reach = Reach::new(runtime, groups);
        // A damaged log may name any number of groups that do not exist. So this loop runs over the
        // registered groups.
        for Registered { index, entry } in runtime.first_files() {
            let id = entry.group;
            if ids.binary_search(&id).is_err() {
                continue;
            }
            if runtime.is_quarantined(index) {
                reach.skipped.push(id);
                continue;
            }
            if groups.iter().any(|group| group.header().id == id) {
                continue;
            }
            match Group::open_id(live_dir, &entry.name, id, runtime) {
                Ok(group) => reach.opened.push(group),
                Err(error) if error.is_transient() || error.is_denied() => return None,
                Err(error) => {
                    // The half-written words stay there, so no process may read them.
                    let mark = runtime.mark_of(index);
                    mark.fetch_or(layout::FILE_QUARANTINE, Ordering::Relaxed);
                    notices.push(Notice::Unreachable { group: entry.name, error });
                }
            }
        }
        Some(reach)
    }

    fn find(&self, id: u64) -> Option<&Group> {
        let mut reached = self.groups.iter().chain(&self.opened);
        reached.find(|group| group.header().id == id && !self.skipped.contains(&id))
    }
}

impl Files for Reach<'_> {
    fn place_of(&self, undo: &Undo) -> PlaceOf {
        let Some(group) = self.find(undo.group) else { return PlaceOf::OutOfReach };
        let key_node = group.key_node_of(undo.file, undo.at);
        key_node.map_or(PlaceOf::Nothing, PlaceOf::KeyNode)
    }

    fn restore(&self, undo: &Undo) {
        let Some(group) = self.find(undo.group) else { return };
        if group.key_node_of(undo.file, undo.at).is_some() {
            group.file(undo.file).store(undo.at as usize, undo.old);
            group.mark_dirty(undo.file, undo.at as usize);
        }
    }

    fn is_held(&self, intent: &Intent, dead: Token) -> bool {
        self.find(intent.group).is_some_and(|group| {
            let has = group.has(intent.file, intent.key_node);
            let word = || group.semaphore(intent.file, intent.key_node).word();
            has && Token::of_word(word()) == Some(dead)
        })
    }

    fn quarantine(&self, groups: &[u64]) {
        let is_meant = |id: u64| groups.contains(&id);
        *self.doubtful.borrow_mut() = self.runtime.quarantine_groups(is_meant);
    }

    fn release_for(&self, intent: &Intent, dead: Token) -> bool {
        self.find(intent.group).is_some_and(|group| {
            group.has(intent.file, intent.key_node)
                && group.semaphore(intent.file, intent.key_node).release_for(dead)
        })
    }
}
