//! The master's counts in the header page. The master has no slot.
//!
//! Invariant: only the master writes these words.

use super::Runtime;
use crate::file::layout::runtime as at;

/// The place of a child of the master: whoever fills it after a death has the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildPlace {
    /// The worker of this number, from 0.
    Worker(u16),
    /// The keeper.
    Keeper,
    /// The process of an extension.
    Extension,
    /// frs-envoy, if there is `<rls>`.
    Envoy,
}

impl ChildPlace {
    /// Its word. None for a number so high that no worker has it.
    fn word(self) -> Option<usize> {
        let nth = match self {
            ChildPlace::Keeper => 0,
            ChildPlace::Extension => at::EXTENSION_PLACE,
            ChildPlace::Envoy => at::ENVOY_PLACE,
            ChildPlace::Worker(number) => 1 + usize::from(number),
        };
        let is_anothers = matches!(self, ChildPlace::Worker(_)) && nth >= at::ENVOY_PLACE;
        (nth < at::PLACES_MAX && !is_anothers).then_some(at::PLACES + nth)
    }
}

/// The master's counts. They have words of their own, because the master has no slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MasterCounts {
    /// When this server, or the last one if none runs, was started, in milliseconds.
    pub started_ms: u64,
    /// Workers, keepers, processes of the extension and frs-envoys that were replaced.
    pub restarts: [u64; 4],
    /// Reloads accepted and refused.
    pub reloads: [u64; 2],
    /// When a reload was last accepted and last refused, in milliseconds; 0 for never.
    pub reloaded_ms: [u64; 2],
    /// Whether the last reload of the files was refused, so that they differ from the configuration
    /// in force.
    pub is_reload_refused: bool,
}

impl Runtime {
    /// The master's counts.
    pub fn master_counts(&self) -> MasterCounts {
        let pair = |start| [self.region.load(start), self.region.load(start + 1)];
        let [workers, keepers] = pair(at::RESTARTS);
        MasterCounts {
            started_ms: self.region.load(at::STARTED),
            restarts: [
                workers,
                keepers,
                self.region.load(at::EXTENSION_RESTARTS),
                self.region.load(at::ENVOY_RESTARTS),
            ],
            reloads: pair(at::RELOADS),
            reloaded_ms: pair(at::RELOADED),
            is_reload_refused: self.is_reload_refused(),
        }
    }

    /// Stores the start time of a server. Its start has taken the present files, so no refused
    /// reload remains. Only the master calls it.
    pub fn set_started(&self, at_ms: u64) {
        self.region.store(at::STARTED, at_ms);
        self.region.store(at::RELOAD_REFUSED, 0);
    }

    /// Counts the replacement of a process that died in this place. Only the master calls it.
    pub fn count_restart(&self, place: ChildPlace) {
        self.grow(match place {
            ChildPlace::Worker(_) => at::RESTARTS,
            ChildPlace::Keeper => at::RESTARTS + 1,
            ChildPlace::Extension => at::EXTENSION_RESTARTS,
            ChildPlace::Envoy => at::ENVOY_RESTARTS,
        });
        if let Some(word) = place.word() {
            self.region.store(word, self.region.load(word).wrapping_add(1 << 32));
        }
    }

    /// Stores the process that has a place. Only the master calls it.
    pub fn set_place(&self, place: ChildPlace, pid: u32) {
        if let Some(word) = place.word() {
            let restarts = self.region.load(word) >> 32;
            self.region.store(word, u64::from(pid) | restarts << 32);
        }
    }

    /// How often the place of this process was refilled after a death. None if the master has not
    /// given the process a place.
    pub fn restarts_of(&self, pid: u32) -> Option<u64> {
        let words = (at::PLACES..at::PLACES + at::PLACES_MAX).map(|word| self.region.load(word));
        words.filter(|&word| word as u32 == pid).map(|word| word >> 32).next()
    }

    /// Counts an accepted reload. Only the master calls it.
    pub fn count_reload(&self, now_ms: u64) {
        self.grow(at::RELOADS);
        self.region.store(at::RELOADED, now_ms);
        self.region.store(at::RELOAD_REFUSED, 0);
    }

    /// Counts a refused reload. Only the master calls it.
    pub fn count_refused_reload(&self, now_ms: u64) {
        self.grow(at::RELOADS + 1);
        self.region.store(at::RELOADED + 1, now_ms);
    }

    /// Notes that a reload was refused, so the files are not in force. Only the master calls it.
    pub fn set_reload_refused(&self) {
        self.region.store(at::RELOAD_REFUSED, 1);
    }

    /// Whether the last reload of the files was refused, and no start has taken them since.
    pub fn is_reload_refused(&self) -> bool {
        self.region.load(at::RELOAD_REFUSED) != 0
    }

    fn grow(&self, word: usize) {
        self.region.store(word, self.region.load(word).wrapping_add(1));
    }
}
