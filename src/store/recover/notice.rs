//! Events of the store for the log.
//!
//! Invariant: events are kept while a semaphore is held, and logged when no semaphore is held.

use crate::commit::undo_log::LogDamage;
use crate::error::Error;
use crate::file::group::Group;

/// An event to log at a time when logging delays no other process.
#[derive(Debug)]
pub(crate) enum Notice {
    /// A node in use was evicted.
    Eviction { group: u64 },
    /// A dead owner's slot was freed.
    Recovery { slot: u32, pid: u32, undone_words: usize, freed: usize },
    /// The logs of a dead owner's slot were damaged.
    Damaged { slot: u32, pid: u32, damage: LogDamage },
    /// A group was quarantined because of damaged logs.
    Doubtful { group: String },
    /// The recoverer could not open a group.
    Unreachable { group: String, error: Error },
}

impl Notice {
    /// Writes the log line of the event. `groups` are the mapped groups.
    pub fn log(self, groups: &[Group]) {
        match self {
            Notice::Eviction { group: id } => {
                let known = groups.iter().find(|group| group.header().id == id);
                let group = known.map_or("(given up)", |group| &group.header().name);
                tracing::warn!(group, "a node in use was evicted: the group is too small");
            }
            Notice::Recovery { slot, pid, undone_words, freed } => {
                tracing::info!(slot, dead_pid = pid, undone_words, freed, "slot recovered");
            }
            Notice::Damaged { slot, pid, damage } => {
                tracing::error!(slot, dead_pid = pid, %damage, "slot damaged: nothing was undone");
            }
            Notice::Doubtful { group } => {
                tracing::error!(group, "a transaction may be half written: quarantined");
            }
            Notice::Unreachable { group, error } => {
                tracing::error!(group, %error, "cannot recover the group: quarantined");
            }
        }
    }
}
